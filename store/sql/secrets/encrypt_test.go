package secrets_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// A secret can be decrypted with its key at its location, but nowhere else and not after
// any byte was changed.
func TestEncrypter(t *testing.T) {
	other := bytes.Repeat([]byte{9}, secrets.KeySize)
	encrypter := func(keys ...[]byte) *secrets.Encrypter {
		s, err := secrets.NewEncrypter(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine, theirs, both := encrypter(sqltest.MasterKey), encrypter(other), encrypter(other, sqltest.MasterKey)
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringN(1, 100, -1).Draw(t, "secret")
		place := rapid.String().Draw(t, "place")
		encrypted, err := mine.Encrypt(place, secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*secrets.Encrypter{mine, both} {
			if got, err := s.Decrypt(place, encrypted); err != nil || got != secret {
				t.Fatalf("decrypted as %q, %v", got, err)
			}
		}
		if _, err := mine.Decrypt(place+"x", encrypted); !errors.Is(err, runstore.StoreCorrupt) {
			t.Fatalf("it can be decrypted at another location: %v", err)
		}
		if _, err := theirs.Decrypt(place, encrypted); !errors.Is(err, secrets.MasterKeyUnknown) {
			t.Fatalf("it can be decrypted with another key: %v", err)
		}
		if again, err := mine.Encrypt(place, secret); err != nil || bytes.Equal(again, encrypted) {
			t.Fatalf("two encryptions of a secret are equal: %v", err)
		}
		if !mine.IsCurrent(encrypted) || both.IsCurrent(encrypted) {
			t.Fatal("the newest key is confused with older ones")
		}
		i := rapid.IntRange(0, len(encrypted)-1).Draw(t, "byte")
		changed := bytes.Clone(encrypted)
		changed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, err := mine.Decrypt(place, changed); err == nil {
			t.Fatalf("changed in byte %d, it is decrypted as %q", i, got)
		}
		if _, err := mine.Decrypt(place, encrypted[:i]); i > 0 && err == nil {
			t.Fatal("a truncated secret is decrypted")
		}
	})
	if encrypted, err := encrypter().Encrypt("p", ""); err != nil || len(encrypted) != 0 {
		t.Errorf("an empty secret needs no key: %x %v", encrypted, err)
	}
	if _, err := encrypter().Encrypt("p", "s"); !errors.Is(err, secrets.MasterKeyMissing) {
		t.Errorf("encryption without a key: %v", err)
	}
	if _, err := secrets.NewEncrypter([]byte("short")); !errors.Is(err, secrets.MasterKeyInvalid) {
		t.Errorf("a short key: %v", err)
	}
}

// A key file is created once, for its owner only. A new key goes before the old ones. A
// file that others may read is refused.
func TestMasterKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	keys := func() [][]byte {
		t.Helper()
		keys, err := secrets.MasterKeyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	var all sync.WaitGroup
	found := make([][][]byte, 4)
	for i := range found { // several processes start at once
		all.Go(func() { found[i] = keys() })
	}
	all.Wait()
	first := keys()
	for _, one := range found {
		if len(one) != 1 || !bytes.Equal(one[0], first[0]) {
			t.Errorf("two starts have two keys: %x %x", one, first)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := secrets.AddMasterKey(path); err != nil {
		t.Fatal(err)
	}
	second := keys()
	if len(second) != 2 || bytes.Equal(second[0], first[0]) || !bytes.Equal(second[1], first[0]) {
		t.Errorf("after another one: %x, was %x", second, first)
	}
	if err := secrets.KeepNewestKey(path); err != nil {
		t.Fatal(err)
	}
	if last := keys(); len(last) != 1 || !bytes.Equal(last[0], second[0]) {
		t.Errorf("the newest alone: %x", last)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.MasterKeyFile(path); !errors.Is(err, secrets.MasterKeyInvalid) {
		t.Errorf("a file that its group may read: %v", err)
	}
}

func TestParseMasterKeys(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(sqltest.MasterKey)
	for text, want := range map[string]int{
		key:                               1,
		"# mine\n\n " + key + " \n" + key: 2,
		"":                                -1,
		"# only a comment":                -1,
		key[:20]:                          -1,
		key + "\nxyz":                     -1,
		strings.ToUpper(key) + "=":        -1,
	} {
		keys, err := secrets.ParseMasterKeys(text)
		switch {
		case want < 0 && !errors.Is(err, secrets.MasterKeyInvalid):
			t.Errorf("%q: %v", text, err)
		case want >= 0 && (err != nil || len(keys) != want || !bytes.Equal(keys[0], sqltest.MasterKey)):
			t.Errorf("%q: %x %v", text, keys, err)
		case err != nil && strings.Contains(err.Error(), key[:10]):
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// Keys for other uses are derived from each master key, are always the same, and differ
// from the master key and from each other.
func TestDerive(t *testing.T) {
	other := bytes.Repeat([]byte{9}, secrets.KeySize)
	derive := func(use string, keys ...[]byte) [][]byte {
		t.Helper()
		s, err := secrets.NewEncrypter(keys...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Derive(use)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	both := derive("a", other, sqltest.MasterKey)
	if len(both) != 2 || len(both[0]) != 32 || !bytes.Equal(both[0], derive("a", other)[0]) || !bytes.Equal(both[1], derive("a", sqltest.MasterKey)[0]) {
		t.Errorf("of two keys: %x", both)
	}
	all := append(append(both, derive("b", other)...), other, sqltest.MasterKey)
	for i := range all {
		for j := range i {
			if bytes.Equal(all[i], all[j]) {
				t.Errorf("keys %d and %d are the same: %x", i, j, all[i])
			}
		}
	}
	if none := derive("a"); len(none) != 0 {
		t.Errorf("of no master key: %x", none)
	}
}
