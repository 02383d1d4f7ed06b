package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Certificates keeps certificates in files of mode 0600: <cluster>/secret/tls and <cluster>/secret/ca.
type Certificates struct{ placement *Placement }

var _ sharedstorage.Certificates = Certificates{}

var certificateFiles = []string{"tls.crt", "tls.key", "ca.crt", "trust.crt", port.PoolerCertificateFile, port.PoolerKeyFile,
	port.AgentCertificateFile, port.AgentKeyFile, port.AgentTrustFile, port.RequiredFromFile, port.NamedFromFile, port.ClientsFile}

func isCertificateFile(name string) bool {
	return slices.Contains(certificateFiles, name) || strings.HasPrefix(name, port.IdentityPrefix)
}

// Certificates returns the certificates of clusters.
func (s *Placement) Certificates() Certificates { return Certificates{s} }

func (s *Placement) tlsFolder(c port.Ref) string {
	return s.folder(c, "secret", string(sharedstorage.ServerCertificate))
}

// authoritiesOf returns by what the processes of a cluster are verified. Instead of a file that somebody has removed or
// damaged, the one beside the authority is used: what is required once stays so.
func (s *Placement) authoritiesOf(c port.Ref) (a transport.Authorities) {
	read := func(role sharedstorage.CertificateRole, name string) string {
		text, _ := os.ReadFile(s.folder(c, "secret", string(role), name)) // none yet
		return string(text)
	}
	since := func(name string) time.Time {
		text := read(sharedstorage.ServerCertificate, name)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil && text != port.PlainAllowed {
			at, _ = time.Parse(time.RFC3339, read(sharedstorage.Authority, name)) // none: not required yet
		}
		return at
	}
	a.PEM, a.From, a.NamedFrom = read(sharedstorage.ServerCertificate, port.AgentTrustFile), since(port.RequiredFromFile), since(port.NamedFromFile)
	if a.Roots() == nil {
		a.PEM = read(sharedstorage.Authority, "tls.crt")
	}
	return a
}

// Names implements sharedstorage.Certificates: the addresses of instances and poolers.
func (k Certificates) Names(_ context.Context, c port.Ref) (served []sharedstorage.ServedName, err error) {
	all, err := k.placement.instancesOf(c)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		served = append(served, sharedstorage.ServedName{Part: sharedstorage.ServedWriter, Names: []string{r.Address}})
	}
	pools, err := poolers(k).load(c)
	for _, r := range pools {
		served = append(served, sharedstorage.ServedName{Part: sharedstorage.ServedPoolers, Names: []string{r.Address}})
	}
	return served, err
}

// Given implements sharedstorage.Certificates.
func (k Certificates) Given(_ context.Context, _ port.Ref, s v1alpha1.TLSSpec) (map[string][]byte, error) {
	if s.Folder == "" {
		return nil, port.CertificateInvalid.Errorf("without Kubernetes a certificate is in a folder: spec.tls.folder")
	}
	files, err := readFiles(s.Folder)
	if err == nil && files == nil {
		err = port.CertificateInvalid.Errorf("there is no folder %s", s.Folder)
	}
	return files, err
}

// Revision implements sharedstorage.Certificates, by the sizes and times of the files.
func (k Certificates) Revision(_ context.Context, c port.Ref, s v1alpha1.TLSSpec) (all string) {
	entries, _ := os.ReadDir(k.placement.tlsFolder(c)) // none: all are made again
	for _, entry := range entries {
		if isCertificateFile(entry.Name()) {
			all += entry.Name() + " " + fileRevision(filepath.Join(k.placement.tlsFolder(c), entry.Name())) + " "
		}
	}
	if s.Folder == "" {
		return all
	}
	for _, name := range certificateFiles {
		all += fileRevision(filepath.Join(s.Folder, name)) + " "
	}
	return all
}

// Load implements sharedstorage.Certificates.
func (k Certificates) Load(_ context.Context, c port.Ref, role sharedstorage.CertificateRole) (map[string][]byte, error) {
	return readFiles(k.placement.folder(c, "secret", string(role)))
}

func readFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if !isCertificateFile(entry.Name()) {
			continue
		}
		text, fileErr := os.ReadFile(filepath.Join(dir, entry.Name()))
		files[entry.Name()], err = text, errors.Join(err, fileErr)
	}
	return files, storageFault(err)
}

// Store implements sharedstorage.Certificates. The agents ignore files that do not fit together yet.
func (k Certificates) Store(_ context.Context, c port.Ref, role sharedstorage.CertificateRole, files map[string][]byte) error {
	if err := check(c.Namespace, c.Name); err != nil {
		return err
	}
	return k.placement.locked(func() error {
		if err := k.placement.ensureDirs(c); err != nil {
			return err
		}
		dir := k.placement.folder(c, "secret", string(role))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return storageFault(err)
		}
		for name, text := range files {
			if err := host.WriteFile(filepath.Join(dir, name), text); err != nil {
				return storageFault(err)
			}
		}
		had, err := readFiles(dir)
		for name := range had {
			if _, wanted := files[name]; !wanted { // of an instance that is gone
				err = errors.Join(err, storageFault(os.Remove(filepath.Join(dir, name))))
			}
		}
		return err
	})
}
