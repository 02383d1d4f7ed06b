package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// One conflicting save does not affect the others in its transaction.
func TestPostgresBatchIsFair(t *testing.T) {
	on, err := postgres.Open(t.Context(), pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	p := New(on)
	defer on.Close()
	defer p.Close()
	var batch []*write
	for i := range 30 {
		r := &runtype.Run{ID: fmt.Sprintf("run%05d", i), Flow: "Flow", Version: 1, Hash: "hash", Subject: fmt.Sprintf("demo/default/c%d", i),
			Phase: runtype.Running, CreatedAt: time.Now()}
		r.Owner, r.Epoch = "w", 5
		r, err := p.Create(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := r.Handle.(*runs.Handle)
		op := &write{k: h.Key, rev: 1, epoch: 5, owner: 1, phase: codec.PhaseNumber(runtype.Running)}
		switch i % 3 {
		case 1:
			op.rev = 7 // another process has saved it
		case 2:
			op.epoch = 4 // fenced
		}
		op.Encoded = h.Encode(r, []runtype.Event{{Seq: 1, Kind: runtype.RunStarted}})
		batch = append(batch, op)
	}
	w := newWriter(on)
	c, err := w.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer w.closeConn(c)
	results, err := w.commit(c, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.applied != (i%3 == 0) {
			t.Errorf("save %d: won is %v", i, r.applied)
		}
	}
	var n int
	if err := on.Pool.QueryRow(t.Context(), `SELECT count(*) FROM event`).Scan(&n); err != nil || n != 10 {
		t.Errorf("%d rows of history, want those of the 10 saves that won", n)
	}
}
