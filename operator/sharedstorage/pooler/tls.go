package pooler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// tlsSettings are how a pgbouncer speaks TLS to its clients and to the writer. The files have their hash in their names,
// so that another certificate is another configuration.
type tlsSettings struct {
	Certificate, Key string // empty: it has no certificate, and clients talk plain, or not at all
	Trust            string // authorities by which the writer is verified; empty: it is not yet
	Require          bool   // clients without TLS are refused
}

// hbaFile lets the supervisor in and nobody else: it is used while clients need TLS and there is no certificate.
// PgBouncer refuses whom no line names.
const hbaFile = "hba.conf"

const hba = "host " + adminDatabase + " " + adminUser + " 0.0.0.0/0 scram-sha-256\nhost " + adminDatabase + " " + adminUser + " ::/0 scram-sha-256\n"

// refuses reports whether no client is let in.
func (t tlsSettings) refuses() bool { return t.Require && t.Certificate == "" }

// values returns the parameters of pgbouncer.ini.
func (t tlsSettings) values() map[string]string {
	values := map[string]string{"client_tls_sslmode": "disable", "server_tls_sslmode": "prefer"}
	if t.Certificate != "" {
		values["client_tls_sslmode"], values["client_tls_cert_file"], values["client_tls_key_file"] = "allow", t.Certificate, t.Key
		if t.Require {
			values["client_tls_sslmode"] = "require"
		}
	}
	if t.Trust != "" {
		values["server_tls_sslmode"], values["server_tls_ca_file"] = "verify-ca", t.Trust
	}
	return values
}

// connection returns how the supervisor connects to the writer.
func (t tlsSettings) connection() string {
	if t.Trust == "" {
		return "sslmode=prefer"
	}
	return "sslmode=verify-ca sslrootcert='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(t.Trust) + "'"
}

// refuses reports whether pgbouncer is configured to let no client in.
func (b *bouncer) refuses() bool {
	last := b.configured.Load()
	return last != nil && last.refuses()
}

// tlsNow returns the present settings, and copies files to where the user of pgbouncer can read them. Files
// that do not fit together are not taken: what was taken before stays.
func (b *bouncer) tlsNow() tlsSettings {
	b.tlsLock.Lock()
	defer b.tlsLock.Unlock()
	files, err := postgres.ReadCertificate(b.config.TLSDir, port.PoolerCertificateFile, port.PoolerKeyFile)
	if errors.Is(err, errNotExist) { // the operator is of an earlier version: that of the engines
		files, err = postgres.ReadCertificate(b.config.TLSDir, postgres.CertificateFile, postgres.KeyFile)
	}
	if err == nil {
		sum := sha256.Sum256([]byte(strings.Join(files[:], "")))
		name := filepath.Join(b.dir, "tls-"+hex.EncodeToString(sum[:6]))
		next := tlsSettings{Certificate: name + ".crt", Key: name + ".key"}
		if next.Certificate != b.taken.Certificate {
			err = errors.Join(b.write(next.Certificate, files[0]), b.write(next.Key, files[1]), b.write(name+".ca", files[2]))
		}
		if err == nil {
			b.taken = next
		} else {
			b.log.Warn("storing the certificate", "error", err)
		}
	}
	now := b.taken
	now.Require = b.tls.ClientsRequired()
	if now.Certificate != "" && b.tls.Required() {
		now.Trust = strings.TrimSuffix(now.Certificate, ".crt") + ".ca"
	}
	return now
}

// forget deletes the files of former certificates: neither those that are configured nor those that were taken since.
func (b *bouncer) forget(configured tlsSettings) {
	b.tlsLock.Lock()
	defer b.tlsLock.Unlock()
	all, _ := filepath.Glob(filepath.Join(b.dir, "tls-*")) // the pattern is one
	for _, file := range all {
		if !configured.has(file) && !b.taken.has(file) {
			_ = os.Remove(file) // it is only litter
		}
	}
}

// has reports whether a file is one of the certificate's.
func (t tlsSettings) has(file string) bool {
	return t.Certificate != "" && strings.HasPrefix(file, strings.TrimSuffix(t.Certificate, "crt"))
}

// tlsEvery is how often a supervisor looks whether certificates or what is required have changed.
const tlsEvery = time.Second

// watchTLS configures pgbouncer anew when they have, until the context ends.
func (s *Supervisor) watchTLS(ctx context.Context, b *bouncer) {
	every := time.NewTicker(tlsEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if last := b.configured.Load(); last == nil || *last == b.tlsNow() {
			continue
		}
		if err := s.again(ctx); err != nil {
			s.log.Warn("pgbouncer was not configured for another certificate", "error", err)
		}
	}
}

// again configures pgbouncer with what it has.
func (s *Supervisor) again(ctx context.Context) error {
	s.order.Lock()
	defer s.order.Unlock()
	now, _ := s.seen()
	return s.backend.Configure(ctx, now.Settings, now.Target)
}
