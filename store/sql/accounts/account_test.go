package accounts_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/account/accounttest"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestAccountsSQLite(t *testing.T) {
	accounttest.Run(t, func(t *testing.T) account.Store {
		return sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), MasterKey: sqltest.MasterKey}).Accounts()
	})
}

func TestAccountsPostgres(t *testing.T) {
	pgtest.Start(t, pgtest.Options{NoSync: true}) // the server outlives the suite
	accounttest.Run(t, func(t *testing.T) account.Store {
		return sqltest.OpenPostgres(t, sql.Options{MasterKey: sqltest.MasterKey}).Accounts()
	})
}

// The secret of a key is encrypted: the file contains neither it nor a token, and
// without the master key it cannot be decrypted.
func TestKeysAreEncrypted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path, MasterKey: sqltest.MasterKey})
	if err != nil {
		t.Fatal(err)
	}
	accounts := &account.Service{Store: s.Accounts()}
	k, err := accounts.CreateKey(t.Context(), account.System(), account.NewCredential{})
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(k.Secret.Reveal())) || bytes.Contains(data, []byte(token.Reveal())) {
			t.Errorf("%s holds a secret", filepath.Base(file))
		}
	}
	for _, c := range []struct {
		options sql.Options
		want    error
	}{
		{sql.Options{Path: path}, secrets.MasterKeyMissing},
		{sql.Options{Path: path, MasterKey: bytes.Repeat([]byte{8}, secrets.KeySize)}, secrets.MasterKeyUnknown},
		{sql.Options{Path: path, MasterKey: bytes.Repeat([]byte{8}, secrets.KeySize), MasterKeys: [][]byte{sqltest.MasterKey}}, nil},
	} {
		accounts := sqltest.OpenSQLite(t, c.options).Accounts()
		got, err := accounts.Key(t.Context(), k.ID)
		if !errors.Is(err, c.want) || c.want == nil && got.Secret != k.Secret {
			t.Errorf("%v, want %v", err, c.want)
		}
		if _, err := accounts.Keys(t.Context(), account.CredentialQuery{}); err != nil {
			t.Errorf("the list needs no master key, but: %v", err)
		}
	}
}

// Rotation encrypts the secrets of keys again. Afterwards the old master key is not
// needed.
func TestKeysAreRotated(t *testing.T) {
	path, next := filepath.Join(t.TempDir(), "pawl.db"), bytes.Repeat([]byte{9}, secrets.KeySize)
	at := func(o sql.Options, do func(*sql.SQLite)) {
		t.Helper()
		o.Path = path
		s, err := sql.OpenSQLite(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		do(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var k account.Key
	at(sql.Options{MasterKey: sqltest.MasterKey}, func(s *sql.SQLite) {
		var err error
		if k, err = (&account.Service{Store: s.Accounts()}).CreateKey(t.Context(), account.System(), account.NewCredential{}); err != nil {
			t.Fatal(err)
		}
	})
	at(sql.Options{MasterKeys: [][]byte{next, sqltest.MasterKey}}, func(s *sql.SQLite) {
		if rows, err := s.Rotate(t.Context()); rows != 1 || err != nil {
			t.Errorf("%d rows, %v", rows, err)
		}
	})
	at(sql.Options{MasterKey: next}, func(s *sql.SQLite) {
		if got, err := s.Accounts().Key(t.Context(), k.ID); err != nil || got.Secret != k.Secret {
			t.Errorf("%v", err)
		}
	})
}
