package sql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// checkSample is how many rows of each table CheckEncryption decrypts.
const checkSample = 100

// CheckEncryption decrypts some secrets of each kind, so that a server with a wrong
// master key fails before it encrypts more with it. MASTER_KEY_UNKNOWN,
// MASTER_KEY_MISSING.
func (s *SQLite) CheckEncryption(ctx context.Context) error {
	return checkEncryption(ctx, sqBackend{s}, s.encrypter)
}

// CheckEncryption decrypts some secrets of each kind. See SQLite.CheckEncryption.
func (p *Postgres) CheckEncryption(ctx context.Context) error {
	return checkEncryption(ctx, p.Backend(), p.encrypter)
}

func checkEncryption(ctx context.Context, m db.Backend, encrypter *secrets.Encrypter) error {
	for _, t := range encryptedTables {
		sql := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s LIMIT %d", t.idColumn, strings.Join(t.columns, ", "), t.name, t.idColumn, checkSample)
		var unusable error
		err := m.Read(ctx, func(s db.Session) error {
			unusable = nil
			return s.Query(sql, nil, func(r db.Row) error {
				for i, column := range t.columns {
					_, err := encrypter.Decrypt(secrets.Location(t.name, column, r.Text(0)), r.Bytes(i+1))
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

// EncryptedWith returns the ids of the master keys that encrypted the secrets of a file.
// It writes nothing.
func EncryptedWith(ctx context.Context, path string) (ids []string, err error) {
	if err := identify(path); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, sqFault(err, path)
	}
	defer conn.Close()
	conn.SetBusyTimeout(busyTimeout)
	conn.SetInterrupt(ctx.Done())
	ids, err = sqEncryptedWith(conn)
	return ids, sqFault(err, path)
}

// sqEncryptedWith is encryptedWith for a file whose schema may be older.
func sqEncryptedWith(conn *sqlite.Conn) ([]string, error) {
	return encryptedWith(sqSession{conn: conn}, func(table string) (bool, error) {
		n, err := text(conn, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '"+table+"'")
		return n != "0", err
	})
}

// encryptedWith returns the sorted ids of the keys that encrypted any secret.
func encryptedWith(s db.Session, has func(table string) (bool, error)) ([]string, error) {
	found := map[string]bool{}
	for _, t := range encryptedTables {
		there, err := has(t.name)
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
