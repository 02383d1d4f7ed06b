package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
// writes it (port.AgentTrustFile and the files beside it). The files may come and change at any time; those that do not fit
// together, as in the moment of their replacement, are not taken. A nil Folder and one without a name are empty.
type Folder struct {
	o FolderOptions

	mu       sync.Mutex
	readAt   time.Time
	stamps   map[string]stamp
	pair     *tls.Certificate
	roots    *x509.CertPool
	required time.Time // zero: never
	noted    time.Time // what Memory has of required
	named    time.Time // zero: never
	clients  bool
}

// FolderOptions are the options of Open.
type FolderOptions struct {
	Dir string // empty: there are no certificates
	// Own is whose certificate is taken. Until there is one of it, that of all processes is.
	Own port.Identity
	// Memory is a file that keeps since when TLS is required, for a process that starts when the folder is empty. Empty:
	// the process forgets it.
	Memory string
}

// stamp tells versions of a file apart; zero: there is none.
type stamp struct {
	modified time.Time
	size     int64
}

// Open returns a folder. It need not exist.
func Open(o FolderOptions) *Folder {
	f := &Folder{o: o}
	if o.Memory != "" {
		if text, err := os.ReadFile(o.Memory); err == nil {
			f.noted, _ = time.Parse(time.RFC3339, strings.TrimSpace(string(text))) // one that cannot be read is written anew
			f.required = f.noted
		}
	}
	return f
}

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
	return begun(f.required)
}

// Named implements Trust.
func (f *Folder) Named() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return begun(f.named)
}

// Identity returns the text of the process's identity, if its certificate has it.
func (f *Folder) Identity() string {
	if pair := f.Certificate(); pair != nil && f.o.Own != (port.Identity{}) && names(pair.Leaf, f.o.Own) {
		return f.o.Own.String()
	}
	return ""
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
	if f.o.Dir == "" || !f.readAt.IsZero() && now.Sub(f.readAt) < rereadInterval {
		return
	}
	f.readAt = now
	stamps := map[string]stamp{}
	for _, name := range f.files() {
		if info, err := os.Stat(filepath.Join(f.o.Dir, name)); err == nil {
			stamps[name] = stamp{info.ModTime(), info.Size()}
		}
	}
	if !maps.Equal(stamps, f.stamps) {
		files := map[string][]byte{}
		for name := range stamps {
			text, err := os.ReadFile(filepath.Join(f.o.Dir, name))
			if err != nil {
				return
			}
			files[name] = text
		}
		if f.take(files) == nil {
			f.stamps = stamps
		}
	}
	f.note()
}

func (f *Folder) files() []string {
	certificate, key := f.o.Own.Files()
	return []string{certificate, key, port.AgentCertificateFile, port.AgentKeyFile, port.AgentTrustFile, port.RequiredFromFile, port.NamedFromFile, port.ClientsFile}
}

// take uses files that fit together. What was required once stays so when its file goes, or names a later time: only
// port.PlainAllowed takes it back.
func (f *Folder) take(files map[string][]byte) error {
	certificate, key := f.o.Own.Files()
	pair, err := tls.X509KeyPair(files[certificate], files[key])
	if err != nil && len(files[certificate]) == 0 && len(files[key]) == 0 {
		pair, err = tls.X509KeyPair(files[port.AgentCertificateFile], files[port.AgentKeyFile])
	}
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[port.AgentTrustFile]) {
		return fmt.Errorf("%s has no certificate", port.AgentTrustFile)
	}
	var required time.Time
	if strings.TrimSpace(string(files[port.RequiredFromFile])) != port.PlainAllowed {
		if required, err = earlier(f.required, files[port.RequiredFromFile]); err != nil {
			return err
		}
	}
	named, err := earlier(f.named, files[port.NamedFromFile])
	if err != nil {
		return err
	}
	f.pair, f.roots, f.required, f.named = &pair, roots, required, named
	f.clients = strings.TrimSpace(string(files[port.ClientsFile])) == port.ClientsRequire
	return nil
}

// earlier returns the earlier one of a time and that in a file, of those that there are.
func earlier(had time.Time, file []byte) (time.Time, error) {
	text := strings.TrimSpace(string(file))
	if text == "" {
		return had, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && !had.IsZero() && had.Before(at) {
		return had, nil
	}
	return at, err
}

// note keeps in Memory what is required. What fails is tried again when the folder is next read.
func (f *Folder) note() {
	if f.o.Memory == "" || f.required.Equal(f.noted) {
		return
	}
	var err error
	if f.required.IsZero() {
		err = os.Remove(f.o.Memory)
	} else if err = os.WriteFile(f.o.Memory+".part", []byte(f.required.Format(time.RFC3339)), 0o600); err == nil {
		err = os.Rename(f.o.Memory+".part", f.o.Memory)
	}
	if err == nil || f.required.IsZero() && errors.Is(err, fs.ErrNotExist) {
		f.noted = f.required
	}
}
