package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// checkSample is how many rows of each table CheckEncryption decrypts.
const checkSample = 100

// CheckEncryption decrypts some secrets of each kind, so that a server with a wrong
// master key fails before it encrypts more with it. MASTER_KEY_UNKNOWN,
// MASTER_KEY_MISSING.
func (a *Admin) CheckEncryption(ctx context.Context) error {
	for _, t := range encryptedTables {
		sql := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s LIMIT %d", t.idColumn, strings.Join(t.columns, ", "), t.name, t.idColumn, checkSample)
		var unusable error
		err := a.db.Read(ctx, func(s db.Session) error {
			unusable = nil
			return s.Query(sql, nil, func(r db.Row) error {
				for i, column := range t.columns {
					_, err := a.encrypter.Decrypt(secrets.Location(t.name, column, r.Text(0)), r.Bytes(i+1))
					if unusable == nil && (errors.Is(err, secrets.MasterKeyUnknown) || errors.Is(err, secrets.MasterKeyMissing)) {
						unusable = err // a damaged secret is reported when it is read
					}
				}
				return nil
			})
		})
		if err == nil {
			err = unusable
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encryptedWith returns the sorted ids of the keys that encrypted any secret.
func encryptedWith(s db.Session) ([]string, error) {
	found := map[string]bool{}
	for _, t := range encryptedTables {
		there, err := s.HasTable(t.name)
		if err != nil {
			return nil, err
		}
		for i := 0; there && i < len(t.columns); i++ {
			sql := fmt.Sprintf("SELECT DISTINCT substr(%s, 1, %d) FROM %s WHERE length(%[1]s) >= %[4]d", t.columns[i], 1+secrets.KeyIDSize, t.name, secrets.EnvelopeHeader)
			err := s.Query(sql, nil, func(r db.Row) error {
				if id := secrets.KeyOf(r.Bytes(0)); id != "" {
					found[id] = true
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
