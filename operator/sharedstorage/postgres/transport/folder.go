package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// rereadInterval is the time between two checks of the files.
const rereadInterval = 500 * time.Millisecond

// Folder is a folder with the certificate of a process and what it requires of others, as the operator
// writes it (port.AgentCertificateFile and the files beside it). The files may come and change at any time; those that do not fit
// together, as in the moment of their replacement, are not taken. A nil Folder and one without a name are empty.
type Folder struct {
	dir string

	mu       sync.Mutex
	readAt   time.Time
	stamps   [len(names)]stamp
	pair     *tls.Certificate
	roots    *x509.CertPool
	required time.Time // zero: never
	clients  bool
}

var names = [...]string{port.AgentCertificateFile, port.AgentKeyFile, port.AgentTrustFile, port.RequiredFromFile, port.ClientsFile}

// stamp tells versions of a file apart; zero: there is none.
type stamp struct {
	modified time.Time
	size     int64
}

// Open returns a folder. It need not exist.
func Open(dir string) *Folder { return &Folder{dir: dir} }

// Certificate returns the certificate and its key; nil: there is none yet.
func (f *Folder) Certificate() *tls.Certificate {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return f.pair
}

// Roots implements Trust.
func (f *Folder) Roots() *x509.CertPool {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return f.roots
}

// Required implements Trust.
func (f *Folder) Required() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return !f.required.IsZero() && !time.Now().Before(f.required)
}

// ClientsRequired reports whether clients of the database must use TLS.
func (f *Folder) ClientsRequired() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return f.clients
}

func (f *Folder) read() {
	now := time.Now()
	if f.dir == "" || !f.readAt.IsZero() && now.Sub(f.readAt) < rereadInterval {
		return
	}
	f.readAt = now
	var stamps [len(names)]stamp
	for n, name := range names {
		if info, err := os.Stat(filepath.Join(f.dir, name)); err == nil {
			stamps[n] = stamp{info.ModTime(), info.Size()}
		}
	}
	if stamps == f.stamps {
		return
	}
	files := map[string][]byte{}
	for n, name := range names {
		if stamps[n] == (stamp{}) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			return
		}
		files[name] = text
	}
	if f.take(files) == nil {
		f.stamps = stamps
	}
}

// take uses files that fit together. What was required once stays so when its file goes, or names a later time.
func (f *Folder) take(files map[string][]byte) error {
	pair, err := tls.X509KeyPair(files[port.AgentCertificateFile], files[port.AgentKeyFile])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[port.AgentTrustFile]) {
		return fmt.Errorf("%s has no certificate", port.AgentTrustFile)
	}
	required := f.required
	if text := strings.TrimSpace(string(files[port.RequiredFromFile])); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return err
		}
		if required.IsZero() || at.Before(required) {
			required = at
		}
	}
	f.pair, f.roots, f.required = &pair, roots, required
	f.clients = strings.TrimSpace(string(files[port.ClientsFile])) == port.ClientsRequire
	return nil
}
