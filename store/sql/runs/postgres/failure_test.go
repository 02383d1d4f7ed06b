package postgres_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The connections are cut while saves are under way. Whatever the answer was, the
// revision shows what happened: no save is half done, and no confirmed save is lost.
func TestPostgresUnknownResults(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	dsn := s.Database(t)
	p := sqltest.ReopenPostgres(t, dsn)
	const runs, steps = 16, 40
	stop := make(chan struct{})
	var cuts, wg sync.WaitGroup
	cuts.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
				s.Terminate(t, dsn)
			}
		}
	})
	var mu sync.Mutex
	unknown := 0
	again := func(do func() error) {
		for {
			err := do()
			switch {
			case err == nil:
				return
			case fault.Of(err) == runstore.StoreUnavailable:
				mu.Lock()
				unknown++
				mu.Unlock()
			default:
				t.Error(err)
				return
			}
			if t.Context().Err() != nil {
				return
			}
		}
	}
	for i := range runs {
		wg.Go(func() {
			var r *runtype.Run
			load := func() error {
				stored, _, err := p.Load(t.Context(), sqltest.NewRun(i).ID)
				if err == nil {
					r = stored
				}
				return err
			}
			again(func() error {
				stored, err := p.Create(t.Context(), sqltest.NewRun(i), []runtype.Event{{Seq: 1, Kind: runtype.RunCreated}})
				if err == nil {
					r = stored
				}
				return err
			})
			for n := range steps + 1 {
				if t.Failed() {
					return
				}
				want := r.Revision
				again(func() error {
					if r.Revision != want {
						return nil // the save before had happened
					}
					err := p.Save(t.Context(), sqltest.Advance(r, n, steps))
					if err != nil {
						again(load)
					}
					if errors.Is(err, runstore.ErrConflict) && r.Revision == want+1 {
						return nil
					}
					return err
				})
			}
		})
	}
	wg.Wait()
	close(stop)
	cuts.Wait()
	if unknown == 0 {
		t.Error("no write was interrupted: the test proves nothing")
	}
	for i := range runs {
		var r *runtype.Run
		again(func() (err error) { r, _, err = p.Load(t.Context(), sqltest.NewRun(i).ID); return err })
		var h []runtype.Event
		again(func() (err error) { h, err = p.History(t.Context(), sqltest.NewRun(i).ID, 0, 0); return err })
		if r.Phase != runtype.Succeeded || r.Revision != steps+2 || r.Len() != steps || len(h) != 2+2*steps {
			t.Errorf("run %d: %s, revision %d, %d steps, %d events", i, r.Phase, r.Revision, r.Len(), len(h))
		}
	}
	t.Logf("%d calls ended with an unknown result", unknown)
}

func TestPostgresSurvivesACrashOfTheServer(t *testing.T) {
	s := pgtest.New(t, pgtest.Options{})
	dsn := s.DSN("postgres")
	p := sqltest.ReopenPostgres(t, dsn)
	r := sqltest.MustCreate(t, p, sqltest.NewRun(1))
	if err := p.Save(t.Context(), sqltest.Advance(r, 0, 5)); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), r.ID, runtype.Signal{ID: "s", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	s.Crash(t)
	var stored *runtype.Run
	var signals []runtype.Signal
	var err error
	for range 20 { // each pooled connection detects it alone
		if stored, signals, err = p.Load(t.Context(), r.ID); err == nil {
			break
		}
	}
	if err != nil || stored.Revision != 2 || len(signals) != 1 || stored.Step("Step1") == nil {
		t.Fatalf("after a crash of the server: %+v, %v, %v", stored, signals, err)
	}
}
