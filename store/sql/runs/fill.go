package runs

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Fills return what completes the migrations of a database with runs. births reads key and birth of all runs. A damaged
// run does not stop a migration.
func (t Texts) Fills(births string) db.Fills {
	key := strings.TrimPrefix(t.Key, "r.")
	return db.Fills{
		db.LabelMigration: fill(births, func(run int64, birth []byte) (list []db.Statement) {
			var r runtype.Run
			if codec.ReadBirth(birth, &r) == nil {
				list = LabelStatements(run, r.Labels)
			}
			return list
		}),
		db.FaultMigration: fill(fmt.Sprintf("SELECT %s, body FROM run WHERE phase = %d", key, paused), func(run int64, body []byte) []db.Statement {
			r := runtype.Run{Phase: runtype.Paused}
			if t.Chained {
				var err error
				if _, _, body, err = ReadPointers(body); err != nil {
					return nil
				}
			}
			if _, err := codec.ReadBody(body, &r); err != nil || r.Fault == nil {
				return nil
			}
			return []db.Statement{{SQL: "UPDATE run SET fault = $1 WHERE " + key + " = $2", Args: []any{FaultOf(&r), run}}}
		}),
	}
}

// fill reads blobs of runs, and executes the statements that become of them.
func fill(read string, statements func(run int64, blob []byte) []db.Statement) func(db.Session) error {
	return func(x db.Session) error {
		var list []db.Statement
		err := x.Query(read, nil, func(r db.Row) error {
			list = append(list, statements(r.Int(0), r.Bytes(1))...)
			return nil
		})
		for i := 0; err == nil && i < len(list); i++ {
			err = x.Query(list[i].SQL, list[i].Args, nil)
		}
		return err
	}
}
