package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// Setting returns the value of a setting, "" if there is none.
func (c *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = c.m.Read(ctx, func(s db.Session) error {
		value, err = setting(s, name)
		return err
	})
	return value, err
}

func setting(s db.Session, name string) (value string, err error) {
	err = s.Query(`SELECT value FROM setting WHERE name = $1`, []any{name}, func(r db.Row) error { value = r.Text(0); return nil })
	return value, err
}

// PutSetting stores a setting.
func (c *Store) PutSetting(ctx context.Context, name, value string) error {
	return c.m.Apply(ctx, db.Single(putSettingSQL, name, db.Plain(value), time.Now().UnixNano()))
}

const putSettingSQL = `INSERT INTO setting (name, value, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at`

// SettingOr returns the value of a setting; if there is none, it stores the given value
// and returns it. So several servers agree on one value, such as the id of the
// installation.
func (c *Store) SettingOr(ctx context.Context, name, value string) (kept string, err error) {
	err = c.m.Apply(ctx, db.Single(`INSERT INTO setting (name, value, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`, name, db.Plain(value), time.Now().UnixNano()))
	if err != nil {
		return "", err
	}
	return c.Setting(ctx, name)
}
