package postgres

import (
	"sync"
	"time"
)

const (
	rereadInterval = 500 * time.Millisecond // between two checks of a file with a secret
	// formerValidFor is how long a replaced secret stays valid besides the new one. The files of
	// all processes of a cluster are replaced within two minutes.
	formerValidFor = 10 * time.Minute
)

// keyFile is a file with one secret, which may be replaced at any time. The former secret stays
// valid for a while, because not all processes get the new one at once.
type keyFile struct {
	file string

	mu     sync.Mutex
	readAt time.Time
	key    string
	former string
	until  time.Time // end of the time for which former is valid
}

func openKey(file string) (*keyFile, error) {
	key, err := secret(file)
	return &keyFile{file: file, key: key, readAt: time.Now()}, err
}

// keys returns the present secret, and the former one while that is valid. If the file cannot be
// read, it returns what was last read.
func (k *keyFile) keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.readAt) >= rereadInterval {
		k.readAt = now
		if key, err := secret(k.file); err == nil && key != k.key {
			k.key, k.former, k.until = key, k.key, now.Add(formerValidFor)
		}
	}
	if k.former != "" && time.Now().Before(k.until) {
		return []string{k.key, k.former}
	}
	return []string{k.key}
}

// present returns the newest secret.
func (k *keyFile) present() string { return k.keys()[0] }
