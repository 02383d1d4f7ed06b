package sqlstore

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
	"github.com/pawl-dev/pawl/workflow"
)

// The faults of sealed columns.
var (
	MasterKeyMissing = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_MISSING", Class: fault.Blocked,
		Title:  "there is no master key to seal or open secrets with",
		Remedy: "Give the server its master key, by file or by variable. A lost key cannot be replaced: what it sealed must be set anew.",
	})
	MasterKeyUnknown = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_UNKNOWN", Class: fault.Blocked,
		Title:  "a secret was sealed with a master key that was not given",
		Remedy: "Give the server the key whose id the message names, behind the newest one; then rotate, and it is not needed any more. If the store came from a backup, the key is in the file FILE.key of the store it was made of, or in FILE.key.age of pawl store backup --with-key. If it is lost, the server starts with --clusters off only.",
	})
	MasterKeyInvalid = fault.Declare(fault.Kind{
		Code: "MASTER_KEY_INVALID", Class: fault.Invalid,
		Title:  "this is no master key, or its file is open to others",
		Remedy: "A key is 32 random bytes in base64, one a line, the newest first; its file must be a regular file, readable by its owner only (chmod 600).",
	})
)

// KeySize is that of a master key in bytes.
const KeySize = 32

// Sealer seals what must not be read from a database alone. It uses
// AES-256-GCM; the envelope names the key, so that several may be in use while
// they are rotated:
//
//	1 | id of the key (8) | nonce (12) | cipher text and tag
//
// What is sealed is bound to a place: copied to another row, it does not open.
type Encrypter struct {
	newest     string
	keys       map[string]cipher.AEAD
	masterKeys [][]byte // as they were given, the newest first
}

const (
	envelopeVersion = 1
	keyIDSize       = 8
	nonceSize       = 12
	envelopeHeader  = 1 + keyIDSize + nonceSize
)

// NewSealer makes a sealer: the first key seals, all of them open. Without any
// key, sealing and opening fail (MASTER_KEY_MISSING).
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

// Derive gives a key of 32 bytes for another use than sealing from each master
// key (HKDF with SHA-256), the newest first; none without a master key. Keys of
// different uses tell nothing of each other, nor of the master key.
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

func (o Options) encrypter() (*Encrypter, error) {
	keys := o.MasterKeys
	if o.MasterKey != nil {
		keys = append([][]byte{o.MasterKey}, keys...)
	}
	return NewEncrypter(keys...)
}

// Sealer seals with the master key of Options.
func (s *SQLite) Encrypter() *Encrypter { return s.encrypter }

// Sealer seals with the master key of Options.
func (p *Postgres) Encrypter() *Encrypter { return p.encrypter }

// keyID tells keys apart and nothing about them.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("pawl master key id\x00"), key...))
	return string(sum[:keyIDSize])
}

// Seal seals a secret for a place. An empty secret stays empty.
func (s *Encrypter) Encrypt(place, secret string) ([]byte, error) {
	if secret == "" {
		return []byte{}, nil
	}
	aead := s.keys[s.newest]
	if aead == nil {
		return nil, MasterKeyMissing.Errorf("%s cannot be sealed", place)
	}
	out := append(make([]byte, 0, envelopeHeader+len(secret)+aead.Overhead()), envelopeVersion)
	out = append(out, s.newest...)
	out = out[:envelopeHeader]
	if _, err := rand.Read(out[1+keyIDSize:]); err != nil {
		return nil, err
	}
	return aead.Seal(out, out[1+keyIDSize:], []byte(secret), []byte(place)), nil
}

// Open gives back what Seal has sealed for the same place.
// MASTER_KEY_MISSING, MASTER_KEY_UNKNOWN, or STORE_CORRUPT if it was changed.
func (s *Encrypter) Decrypt(place string, encrypted []byte) (string, error) {
	if len(encrypted) == 0 {
		return "", nil
	}
	if len(encrypted) < envelopeHeader || encrypted[0] != envelopeVersion {
		return "", workflow.StoreCorrupt.Errorf("%s is no sealed secret", place)
	}
	id := string(encrypted[1 : 1+keyIDSize])
	aead := s.keys[id]
	switch {
	case len(s.keys) == 0:
		return "", MasterKeyMissing.Errorf("%s is sealed with key %x", place, id)
	case aead == nil:
		return "", MasterKeyUnknown.Errorf("%s is sealed with key %x, given are %s", place, id, s.keyIDs())
	}
	secret, err := aead.Open(nil, encrypted[1+keyIDSize:envelopeHeader], encrypted[envelopeHeader:], []byte(place))
	if err != nil {
		return "", workflow.StoreCorrupt.Errorf("%s was changed after it was sealed", place)
	}
	return string(secret), nil
}

// Current reports what needs no other key than the newest: rotation leaves it alone.
func (s *Encrypter) IsCurrent(encrypted []byte) bool {
	return len(encrypted) < envelopeHeader || string(encrypted[1:1+keyIDSize]) == s.newest
}

func (s *Encrypter) keyIDs() string {
	var ids []string
	for id := range s.keys {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	return strings.Join(ids, ", ")
}

// ParseMasterKeys reads keys in base64, one a line, the newest first. Empty
// lines and those that begin with # are passed over.
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
		return nil, MasterKeyInvalid.Errorf("there is no master key in it")
	}
	return keys, nil
}

// MasterKeyFile reads the keys of a file. One that does not exist is made with
// a random key, for its owner only (0600); so a SQLite file may have its key
// beside it. What secretfile.Read refuses is MASTER_KEY_INVALID.
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
	err := writeKeys(path, [][]byte{key}, func(temporary string) error { return os.Link(temporary, path) }) // never over another's
	if errors.Is(err, fs.ErrExist) {
		return readKeyFile(path) // of another process, or a link to nothing
	}
	return [][]byte{key}, err
}

// NewMasterKey is a random key.
func NewMasterKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // it does not fail: see crypto/rand
	return key
}

// AddMasterKey puts a new key before those of a file: the next start of the
// server seals with it, and Rotate then seals all secrets anew.
func AddMasterKey(path string) error {
	keys, err := MasterKeyFile(path)
	if err != nil {
		return err
	}
	return writeKeys(path, append([][]byte{NewMasterKey()}, keys...), func(temporary string) error { return os.Rename(temporary, path) })
}

// KeepNewestKey removes all keys but the newest from a file, after Rotate.
func KeepNewestKey(path string) error {
	keys, err := MasterKeyFile(path)
	if err != nil {
		return err
	}
	return writeKeys(path, keys[:1], func(temporary string) error { return os.Rename(temporary, path) })
}

// WriteMasterKeys makes a file of keys, the newest first, for its owner only.
// One that is there stays as it is (os.ErrExist).
func WriteMasterKeys(path string, keys [][]byte) error {
	return writeKeys(path, keys, func(temporary string) error { return os.Link(temporary, path) })
}

// writeKeys makes a whole and durable file, then puts it in its place.
func writeKeys(path string, keys [][]byte, place func(temporary string) error) error {
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
	if err := place(f.Name()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
