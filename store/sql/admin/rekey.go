package admin

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// encryptedTable is a table with encrypted columns. The location of a secret is its
// table, its column and the text in idColumn, which never changes.
type encryptedTable struct {
	name, idColumn string
	columns        []string
}

// encryptedTables are the tables that Rotate encrypts again.
var encryptedTables = []encryptedTable{
	{"container_cluster_details", "cluster", []string{"password", "registry_password", "config_data", "ca_key"}},
	{"job", "id", []string{"password"}},
	{"api_key", "id", []string{"secret"}},
}

// Rotate encrypts all secrets with the newest master key, while the store is in use, and
// returns the number of rows it changed. Afterwards only older backups and exports need
// the older keys.
func (a *Admin) Rotate(ctx context.Context) (rows int, err error) {
	if !a.encrypter.HasKey() {
		return 0, secrets.MasterKeyMissing.Errorf("there is no key to rotate to")
	}
	for _, t := range encryptedTables {
		n, err := a.rotateTable(ctx, t)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// rotateTable rotates one table in the order of idColumn. If another writer changes a
// row in between, the row is skipped: that writer has encrypted it with the newest key.
func (a *Admin) rotateTable(ctx context.Context, t encryptedTable) (rows int, err error) {
	type encryptedRow struct {
		owner string
		old   [][]byte
	}
	sql := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s > $1 ORDER BY %s LIMIT 200", t.idColumn, strings.Join(t.columns, ", "), t.name, t.idColumn, t.idColumn)
	for after := ""; ; {
		var list []encryptedRow
		err := a.db.Read(ctx, func(s db.Session) error {
			list = nil
			return s.Query(sql, []any{after}, func(r db.Row) error {
				found := encryptedRow{owner: r.Text(0)}
				for i := range t.columns {
					found.old = append(found.old, r.Bytes(i+1))
				}
				list = append(list, found)
				return nil
			})
		})
		if err != nil || len(list) == 0 {
			return rows, err
		}
		after = list[len(list)-1].owner
		list = slices.DeleteFunc(list, func(r encryptedRow) bool {
			return !slices.ContainsFunc(r.old, func(old []byte) bool { return !a.encrypter.IsCurrent(old) })
		})
		if len(list) == 0 {
			continue
		}
		changed := map[string]bool{}
		anew := db.Change{Lock: "rotate/" + t.name, Begin: func() { clear(changed) }}
		for _, r := range list {
			for i, column := range t.columns {
				if a.encrypter.IsCurrent(r.old[i]) {
					continue
				}
				at := secrets.Location(t.name, column, r.owner)
				secret, err := a.encrypter.Decrypt(at, r.old[i])
				if err != nil {
					return rows, err
				}
				next, err := a.encrypter.Encrypt(at, secret)
				if err != nil {
					return rows, err
				}
				anew.List = append(anew.List, db.Statement{
					SQL:  fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s = $2 AND %s = $3 RETURNING 1", t.name, column, t.idColumn, column),
					Args: []any{next, r.owner, bytes.Clone(r.old[i])}, Each: func(db.Row) error { changed[r.owner] = true; return nil },
				})
			}
		}
		if err := a.db.Apply(ctx, anew); err != nil {
			return rows, err
		}
		rows += len(changed)
	}
}
