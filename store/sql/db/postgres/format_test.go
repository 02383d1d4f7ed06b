package postgres_test

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A row reads the same in the binary format and in the text format, which a DSN may
// demand.
func TestRowsInBothFormats(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn+" default_query_exec_mode=simple_protocol")
	const sql = `SELECT -5::bigint, 7::int, 3::smallint, true, false, 'a\b'::text, '\x00ff'::bytea, NULL::bytea, NULL::text,
		ARRAY['\x01'::bytea, '\xffee'::bytea], ARRAY['a', 'b,c"']::text[], NULL::text[], ARRAY[]::text[]`
	want := []any{int64(-5), int64(7), int64(3), int64(1), int64(0), `a\b`, []byte{0, 255}, []byte(nil), "",
		[][]byte{{1}, {255, 238}}, [][]byte{[]byte("a"), []byte(`b,c"`)}, [][]byte(nil), 0}
	for name, s := range map[string]db.Backend{"binary": p.DB, "text": q.DB} {
		var got []any
		err := s.Read(t.Context(), func(x db.Session) error {
			return x.Query(sql, nil, func(r db.Row) error {
				got = []any{r.Int(0), r.Int(1), r.Int(2), r.Int(3), r.Int(4), r.Text(5), r.Bytes(6), r.Bytes(7), r.Text(8), r.List(9), r.List(10), r.List(11), len(r.List(12))}
				return nil
			})
		})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v\nwant %#v", name, got, err, want)
		}
	}
	if err := sqltest.Walk(t.Context(), q, sqltest.NewRun(1), 3); err != nil {
		t.Fatal(err)
	}
	sqltest.MustCreate(t, q, sqltest.NewRun(2))
	if err := q.Send(t.Context(), "run00002", runtype.Signal{ID: "s", Name: "go"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"run00001", "run00002"} {
		one, signals, err := p.Load(t.Context(), id)
		other, same, bad := q.Load(t.Context(), id)
		if err != nil || bad != nil || one.Len() != other.Len() || !one.NextAt.Equal(other.NextAt) || len(signals) != len(same) || one.Phase != other.Phase {
			t.Errorf("%s: %+v, %v in binary; %+v, %v in text", id, one, err, other, bad)
		}
	}
}
