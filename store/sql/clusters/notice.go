package clusters

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// noticePrefix is the prefix of notices among the settings.
const noticePrefix = "notice/"

// PutNotice implements cluster.Notices.
func (c *Store) PutNotice(ctx context.Context, n cluster.Notice) error {
	// JSON, because both names may contain a slash.
	name, err := json.Marshal([]string{n.Provider, n.Task})
	if err != nil {
		return err
	}
	key := noticePrefix + db.Plain(string(name))
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if n.IsEmpty() {
		return c.m.Apply(ctx, db.Single(`DELETE FROM setting WHERE name = $1`, key))
	}
	return c.m.Apply(ctx, db.Single(putSettingSQL, key, string(value), time.Now().UnixNano()))
}

// Notices implements cluster.Notices.
func (c *Store) Notices(ctx context.Context) (all []cluster.Notice, err error) {
	err = c.m.Read(ctx, func(s db.Session) error {
		all = nil
		return s.Query(`SELECT value FROM setting WHERE name LIKE 'notice/%'`, nil, func(r db.Row) error {
			var n cluster.Notice
			if err := json.Unmarshal([]byte(r.Text(0)), &n); err != nil {
				return runstore.StoreCorrupt.Errorf("a notice cannot be read: %w", err)
			}
			all = append(all, n)
			return nil
		})
	})
	slices.SortFunc(all, func(a, b cluster.Notice) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Task, b.Task))
	})
	return all, err
}
