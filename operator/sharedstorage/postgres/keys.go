package postgres

import (
	"sync"
	"time"
)

const (
	rereadInterval = 500 * time.Millisecond // between looks at a file with a secret
	// formerValidFor is how long a secret that was replaced is good beside the new one. The
	// files of all processes of a cluster are replaced within two minutes.
	formerValidFor = 10 * time.Minute
)

// keyFile is a file that holds one secret, which may be replaced at any time. The
// one before is good for a while: not all processes get the new one at once.
type keyFile struct {
	file string

	mu     sync.Mutex
	readAt time.Time
	key    string
	former string
	until  time.Time // of former
}

func openKey(file string) (*keyFile, error) {
	key, err := secret(file)
	return &keyFile{file: file, key: key, readAt: time.Now()}, err
}

// keys are the present secret, and the one before it while that is good. A file
// that cannot be read keeps what was read last.
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

// present is the newest.
func (k *keyFile) present() string { return k.keys()[0] }
