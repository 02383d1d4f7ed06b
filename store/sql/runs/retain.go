package runs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// expiredChunk is how many candidates one statement looks up.
const expiredChunk = 256

// Expired implements runstore.Retainer. It leaves out the children of runs that have not
// ended.
func (s *Store) Expired(ctx context.Context, now time.Time, policy func(flow string) runtype.Retention, limit int) (ids []string, err error) {
	type candidate struct{ key, ended int64 }
	key := s.texts.Key
	ids = []string{}
	err = s.db.Read(ctx, func(x db.Session) error {
		var old []candidate
		subject, rank := "", 0
		// In this order, SQLite reads only an index.
		sql := "SELECT r.subject, r.ended, r.flow, " + key + " FROM run AS r WHERE " + s.texts.Ended + " ORDER BY r.subject DESC, r.ended DESC, " + key + " DESC"
		err := x.Query(sql, nil, func(r db.Row) error {
			if of := r.Text(0); of != subject {
				subject, rank = of, 0
			}
			ended := r.Int(1)
			if !policy(r.Text(2)).Keeps(now, db.Instant(ended), rank) {
				old = append(old, candidate{r.Int(3), ended})
			}
			rank++
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(old, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.key, b.key)) })
		for chunk := range slices.Chunk(old, expiredChunk) {
			var keys []int64
			for _, one := range chunk {
				keys = append(keys, one.key)
			}
			w := &db.Where{}
			w.And(db.In(w, key, keys))
			w.And("NOT EXISTS (SELECT 1 FROM run AS p WHERE p.id = r.parent AND " + s.texts.Active + ")")
			found := map[int64]string{}
			if err := x.Query("SELECT "+key+", r.id FROM run AS r"+w.String(), w.Args, func(r db.Row) error { found[r.Int(0)] = r.Text(1); return nil }); err != nil {
				return err
			}
			for _, key := range keys {
				if limit > 0 && len(ids) == limit {
					return nil
				}
				if id, ok := found[key]; ok {
					ids = append(ids, id)
				}
			}
		}
		return nil
	})
	return ids, err
}

// Remove implements runstore.Retainer.
func (s *Store) Remove(ctx context.Context, ids []string) error { return s.dialect.Remove(ctx, ids) }
