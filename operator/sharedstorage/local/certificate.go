package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

var certificateFiles = []string{"tls.crt", "tls.key", "ca.crt", "trust.crt",
	port.AgentCertificateFile, port.AgentKeyFile, port.AgentTrustFile, port.RequiredFromFile, port.ClientsFile}

// Certificates returns the certificates of clusters.
func (s *Placement) Certificates() Certificates { return Certificates{s} }

func (s *Placement) tlsFolder(c port.Ref) string {
	return s.folder(c, "secret", string(sharedstorage.ServerCertificate))
}

// authoritiesOf returns by what the processes of a cluster are verified.
func (s *Placement) authoritiesOf(c port.Ref) (a transport.Authorities) {
	trust, err := os.ReadFile(filepath.Join(s.tlsFolder(c), port.AgentTrustFile))
	from, fromErr := os.ReadFile(filepath.Join(s.tlsFolder(c), port.RequiredFromFile))
	if err == nil {
		a.PEM = string(trust)
	}
	if fromErr == nil {
		a.From, _ = time.Parse(time.RFC3339, string(from)) // none: not required
	}
	return a
}

// Names implements sharedstorage.Certificates: the addresses of the instances are among them.
func (k Certificates) Names(_ context.Context, c port.Ref) ([]string, error) {
	names := []string{"localhost", "127.0.0.1"}
	all, err := k.placement.instancesOf(c)
	for _, r := range all {
		if !slices.Contains(names, r.Address) {
			names = append(names, r.Address)
		}
	}
	return names, err
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
func (k Certificates) Revision(_ context.Context, _ port.Ref, s v1alpha1.TLSSpec) (all string) {
	if s.Folder == "" {
		return ""
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
		if !slices.Contains(certificateFiles, entry.Name()) {
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
		return nil
	})
}
