package runs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// ChangeStepLimits implements runstore.StepLimiter. It reads without a lock; each statement of the change fails if its
// document is not the one that was read.
func (s *Store) ChangeStepLimits(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	return db.RetryStale(func() error {
		old, revisions := make([][]byte, len(keys)), make([]int64, len(keys))
		var now time.Time
		err := s.db.Read(ctx, func(x db.Session) (err error) {
			if now, err = s.db.Clock(x); err != nil {
				return err
			}
			for i, key := range keys {
				old[i], revisions[i] = nil, 0
				err := x.Query(`SELECT revision, document FROM step_limit WHERE key = $1`, []any{key}, func(r db.Row) error {
					revisions[i], old[i] = r.Int(0), r.Bytes(1)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		documents, err := change(now, old)
		if err != nil {
			return err
		}
		var list []db.Statement
		same := true
		for i, key := range keys {
			same = same && bytes.Equal(old[i], documents[i])
			next := max(now.UnixNano(), revisions[i]+1) // a key that was removed and came back has no revision a second time
			switch {
			case old[i] == nil && documents[i] == nil:
			case old[i] == nil:
				list = append(list, db.Statement{SQL: `INSERT INTO step_limit (key, revision, document) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING RETURNING revision`, Args: []any{key, next, documents[i]}, Must: db.ErrStale})
			case documents[i] == nil:
				list = append(list, db.Statement{SQL: `DELETE FROM step_limit WHERE key = $1 AND revision = $2 RETURNING revision`, Args: []any{key, revisions[i]}, Must: db.ErrStale})
			default:
				list = append(list, db.Statement{SQL: `UPDATE step_limit SET revision = $1, document = $2 WHERE key = $3 AND revision = $4 RETURNING revision`, Args: []any{next, documents[i], key, revisions[i]}, Must: db.ErrStale})
			}
		}
		if same {
			return nil
		}
		return s.db.Apply(ctx, db.Change{List: list})
	})
}

// StepLimits implements runstore.StepLimiter.
func (s *Store) StepLimits(ctx context.Context, after string, limit int) (list []runstore.KeyState, err error) {
	err = s.db.Read(ctx, func(x db.Session) error {
		list = nil
		if known, err := x.HasTable("step_limit"); err != nil || !known {
			return err
		}
		return x.Query(fmt.Sprintf(`SELECT key, document FROM step_limit WHERE key > $1 ORDER BY key LIMIT %d`, cmp.Or(limit, 1000)), []any{after}, func(r db.Row) error {
			list = append(list, runstore.KeyState{Key: r.Text(0), Document: r.Bytes(1)})
			return nil
		})
	})
	return list, err
}
