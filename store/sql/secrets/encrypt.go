// Package secrets encrypts secrets with master keys, and reads and writes the files of master keys.
package secrets

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Faults of encrypted columns.
var (
	MasterKeyMissing = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_MISSING", Class: fault.Blocked,
		Title:  "there is no master key to encrypt or decrypt secrets with",
		Remedy: "Give the server its master key, by file or by variable. A lost key cannot be replaced: the secrets that it encrypted must be set again.",
	})
	MasterKeyUnknown = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_UNKNOWN", Class: fault.Blocked,
		Title:  "a secret is encrypted with a master key that the server does not have",
		Remedy: "Give the server the key whose id the message names, after the newest one; then rotate, and the key is no longer needed. If the store came from a backup, the key is in the file FILE.key beside the original store, or in FILE.key.age from pawl store backup --with-key. If the key is lost, the server starts only with --clusters off.",
	})
	MasterKeyInvalid = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_INVALID", Class: fault.Invalid,
		Title:  "this is not a master key, or others may read its file",
		Remedy: "A key is 32 random bytes in base64, one a line, the newest first; its file must be a regular file, readable by its owner only (chmod 600).",
	})
)

// KeySize is the size of a master key in bytes.
const KeySize = 32

// Encrypter encrypts secrets with AES-256-GCM, so that they cannot be read from the
// database alone. The envelope names the key, so that several keys may be in use
// during a rotation:
//
//	1 | id of the key (8) | nonce (12) | cipher text and tag
//
// A secret is bound to a location: copied to another row, it cannot be decrypted.
type Encrypter struct {
	newest     string
	keys       map[string]cipher.AEAD
	masterKeys [][]byte // the master keys, the newest first
}

const (
	envelopeVersion = 1
	KeyIDSize       = 8
	nonceSize       = 12
	EnvelopeHeader  = 1 + KeyIDSize + nonceSize
)

// NewEncrypter returns an encrypter. It encrypts with the first key and decrypts with
// all of them. Without any key, both fail with MASTER_KEY_MISSING.
func NewEncrypter(keys ...[]byte) (*Encrypter, error) {
	s := &Encrypter{keys: map[string]cipher.AEAD{}}
	for _, key := range keys {
		if len(key) != KeySize {
			return nil, MasterKeyInvalid.Errorf("a master key has %d bytes, not %d", len(key), KeySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		id := keyID(key)
		if s.newest == "" {
			s.newest = id
		}
		s.keys[id] = aead
		s.masterKeys = append(s.masterKeys, key)
	}
	return s, nil
}

// Derive returns a key of 32 bytes for another use than encryption, one from each master
// key (HKDF with SHA-256), the newest first; none without a master key. Keys of
// different uses reveal nothing about each other or about the master key.
func (s *Encrypter) Derive(use string) ([][]byte, error) {
	keys := make([][]byte, 0, len(s.masterKeys))
	for _, master := range s.masterKeys {
		key, err := hkdf.Key(sha256.New, master, nil, use, KeySize)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keyID identifies a key and reveals nothing about it.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("pawl master key id\x00"), key...))
	return string(sum[:KeyIDSize])
}

// Encrypt encrypts a secret for a location. An empty secret stays empty.
func (s *Encrypter) Encrypt(location, secret string) ([]byte, error) {
	if secret == "" {
		return []byte{}, nil
	}
	aead := s.keys[s.newest]
	if aead == nil {
		return nil, MasterKeyMissing.Errorf("%s cannot be encrypted", location)
	}
	out := append(make([]byte, 0, EnvelopeHeader+len(secret)+aead.Overhead()), envelopeVersion)
	out = append(out, s.newest...)
	out = out[:EnvelopeHeader]
	if _, err := rand.Read(out[1+KeyIDSize:]); err != nil {
		return nil, err
	}
	return aead.Seal(out, out[1+KeyIDSize:], []byte(secret), []byte(location)), nil
}

// Decrypt returns a secret that was encrypted for the same location. MASTER_KEY_MISSING,
// MASTER_KEY_UNKNOWN, or STORE_CORRUPT if the envelope was changed.
func (s *Encrypter) Decrypt(location string, encrypted []byte) (string, error) {
	if len(encrypted) == 0 {
		return "", nil
	}
	if len(encrypted) < EnvelopeHeader || encrypted[0] != envelopeVersion {
		return "", runstore.StoreCorrupt.Errorf("%s is not an encrypted secret", location)
	}
	id := string(encrypted[1 : 1+KeyIDSize])
	aead := s.keys[id]
	switch {
	case len(s.keys) == 0:
		return "", MasterKeyMissing.Errorf("%s is encrypted with key %x", location, id)
	case aead == nil:
		return "", MasterKeyUnknown.Errorf("%s is encrypted with key %x; the given keys are %s", location, id, s.keyIDs())
	}
	secret, err := aead.Open(nil, encrypted[1+KeyIDSize:EnvelopeHeader], encrypted[EnvelopeHeader:], []byte(location))
	if err != nil {
		return "", runstore.StoreCorrupt.Errorf("%s was changed after it was encrypted", location)
	}
	return string(secret), nil
}

// IsCurrent reports whether the newest key encrypted the secret. Rotation skips such
// secrets.
func (s *Encrypter) IsCurrent(encrypted []byte) bool {
	return len(encrypted) < EnvelopeHeader || string(encrypted[1:1+KeyIDSize]) == s.newest
}

func (s *Encrypter) keyIDs() string {
	var ids []string
	for id := range s.keys {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	return strings.Join(ids, ", ")
}

// ParseMasterKeys reads keys in base64, one a line, the newest first. It skips empty
// lines and lines that begin with #.
func ParseMasterKeys(text string) (keys [][]byte, err error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != KeySize {
			return nil, MasterKeyInvalid.Errorf("line %d of the master keys is not %d bytes in base64", len(keys)+1, KeySize)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, MasterKeyInvalid.Errorf("the text contains no master key")
	}
	return keys, nil
}

// MasterKeyFile reads the keys of a file. If the file does not exist, it creates one
// with a random key, readable only by its owner (0600). So a SQLite file can have its
// key beside it. MASTER_KEY_INVALID if secretfile.Read refuses the file.
func MasterKeyFile(path string) ([][]byte, error) {
	keys, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKeyFile(path)
	}
	return keys, err
}

func readKeyFile(path string) ([][]byte, error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, MasterKeyInvalid.Errorf("%w", err)
	}
	keys, err := ParseMasterKeys(text)
	if err != nil {
		return nil, MasterKeyInvalid.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func makeKeyFile(path string) ([][]byte, error) {
	key := NewMasterKey()
	err := writeKeys(path, [][]byte{key}, func(temporary string) error { return os.Link(temporary, path) }) // a link never replaces another process's file
	if errors.Is(err, fs.ErrExist) {
		return readKeyFile(path) // another process created it, or it is a dangling link
	}
	return [][]byte{key}, err
}

// NewMasterKey returns a random key.
func NewMasterKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails: see crypto/rand
	return key
}

// AddMasterKey adds a new key before those of a file. The server encrypts with it from
// its next start, and Rotate then encrypts all secrets with it.
func AddMasterKey(path string) error {
	keys, err := MasterKeyFile(path)
	if err != nil {
		return err
	}
	return writeKeys(path, append([][]byte{NewMasterKey()}, keys...), func(temporary string) error { return os.Rename(temporary, path) })
}

// KeepNewestKey removes all keys but the newest from a file. Call it after Rotate.
func KeepNewestKey(path string) error {
	keys, err := MasterKeyFile(path)
	if err != nil {
		return err
	}
	return writeKeys(path, keys[:1], func(temporary string) error { return os.Rename(temporary, path) })
}

// WriteMasterKeys creates a file of keys, the newest first, readable only by its owner.
// It does not change an existing file (os.ErrExist).
func WriteMasterKeys(path string, keys [][]byte) error {
	return writeKeys(path, keys, func(temporary string) error { return os.Link(temporary, path) })
}

// writeKeys writes a durable temporary file, then install puts it at the path.
func writeKeys(path string, keys [][]byte, install func(temporary string) error) error {
	var text bytes.Buffer
	for _, key := range keys {
		text.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".master-key-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text.Bytes())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := install(f.Name()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// HasKey reports that there is a key to encrypt with.
func (s *Encrypter) HasKey() bool { return len(s.keys) > 0 }

// Location names the column of a secret. A secret that was encrypted for one
// location cannot be decrypted at another.
func Location(table, column, owner string) string { return table + "." + column + " of " + owner }

// KeyIDs identify master keys and reveal nothing about them.
func KeyIDs(keys [][]byte) []string {
	ids := make([]string, 0, len(keys))
	for _, key := range keys {
		ids = append(ids, hex.EncodeToString([]byte(keyID(key))))
	}
	return ids
}

// KeyOf returns the id of the key that encrypted a secret; "" if head does not begin an encrypted secret.
func KeyOf(head []byte) string {
	if len(head) != 1+KeyIDSize || head[0] != envelopeVersion {
		return ""
	}
	return hex.EncodeToString(head[1:])
}

// IsEncrypted reports that the bytes have the form of an encrypted secret.
func IsEncrypted(secret []byte) bool {
	return len(secret) >= EnvelopeHeader && secret[0] == envelopeVersion
}
