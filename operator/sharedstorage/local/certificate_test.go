package local

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Clients verify the writer by ca.crt, and a reader streams encrypted. Another certificate reaches new connections
// without a restart, an open one goes on, and one that cannot be used changes nothing but a condition.
func TestCertificatesOfACluster(t *testing.T) {
	ctx, b, objects := served(t, func(o *sharedstorage.Options, s *Placement) {
		o.Secrets, o.Credentials, o.Certificates = Secret, s.Credentials(), s.Certificates()
	})
	cluster := port.Ref{Namespace: blue.Namespace, Name: blue.Name}
	apply := func(tls map[string]any) {
		t.Helper()
		spec := map[string]any{"readers": 1, "storage": map[string]any{"size": "1Gi"}, "parameters": map[string]string{"ssl": "on"}}
		if tls != nil {
			spec["tls"] = tls
		}
		raw, err := json.Marshal(spec)
		b.must(err)
		_, err = objects.Apply(ctx, control.Object{Ref: blue, Spec: raw})
		b.must(err)
	}
	awaits := func(reason, message string) (c *sharedstorage.Cluster) {
		t.Helper()
		eventually(t, time.Minute, reason+" "+message, func() error {
			o, err := objects.Get(ctx, blue)
			if err != nil {
				return err
			}
			if c, err = (ClusterStore{Objects: objects, Placement: b.Placement}).Of(o); err != nil {
				return err
			}
			is := meta.FindStatusCondition(c.Status.Conditions, sharedstorage.TLSCondition)
			if is == nil || is.Reason != reason || !strings.Contains(is.Message, message) || is.ObservedGeneration != o.Generation || !meta.IsStatusConditionTrue(c.Status.Conditions, sharedstorage.AvailableCondition) {
				return fmt.Errorf("%+v", c.Status.Conditions)
			}
			return nil
		})
		return c
	}
	apply(map[string]any{})
	c := awaits("CertificateValid", "valid until")
	var writer string
	for _, i := range c.Status.Instances {
		if i.Role == "rw" {
			writer = i.Name
		}
	}
	place, err := b.Instances().Locate(ctx, cluster.Of(writer))
	b.must(err)
	password, err := b.Password(cluster)
	b.must(err)
	authority := b.folder(cluster, "secret", "tls", "ca.crt")
	login := func(authority string) (*pgx.Conn, error) {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return pgx.Connect(limited, fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=verify-full sslrootcert=%s", place.Engine.Host, place.Engine.Port, password, authority))
	}
	ask := func(conn *pgx.Conn, query string) (text string) {
		t.Helper()
		b.must(conn.QueryRow(ctx, query).Scan(&text))
		return text
	}
	var open *pgx.Conn
	eventually(t, time.Minute, "a client verifies the writer", func() (err error) { open, err = login(authority); return err })
	defer open.Close(context.WithoutCancel(ctx))
	started := ask(open, "SELECT pg_postmaster_start_time()::text")
	eventually(t, time.Minute, "the reader streams encrypted", func() error {
		if text := ask(open, "SELECT coalesce(string_agg(r.state || ' ' || s.version, ','), '') FROM pg_stat_replication r JOIN pg_stat_ssl s USING (pid) WHERE s.ssl"); !strings.HasPrefix(text, "streaming TLSv1.") {
			return fmt.Errorf("%q", text)
		}
		return nil
	})

	// Somebody deletes the certificates: the same authority signs new ones, and nothing else changes.
	files, err := readFiles(b.tlsFolder(cluster))
	b.must(err)
	b.must(os.RemoveAll(b.tlsFolder(cluster)))
	eventually(t, time.Minute, "the certificates are made again", func() error {
		now, err := readFiles(b.tlsFolder(cluster))
		if err != nil || len(now) != len(files) {
			return fmt.Errorf("%d of %d files, %w", len(now), len(files), err)
		}
		for _, name := range []string{"ca.crt", port.AgentTrustFile, port.RequiredFromFile, port.NamedFromFile} {
			if string(now[name]) != string(files[name]) {
				t.Errorf("another %s", name)
			}
		}
		conn, err := login(authority)
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	})
	awaits("CertificateValid", "valid until")

	given := filepath.Join(filepath.Dir(b.folder(cluster)), "given")
	b.must(os.Mkdir(given, 0o700))
	records, err := b.instancesOf(cluster)
	b.must(err)
	var all []net.IP
	for _, at := range records {
		all = append(all, net.ParseIP(at.Address))
	}
	other := newIssuer(b)
	other.foreign(given, net.ParseIP(place.Engine.Host))
	apply(map[string]any{"folder": given})
	for _, at := range records {
		if at.Name != writer {
			awaits("CertificateNameMissing", "by "+at.Address+".")
		}
	}
	other.foreign(given, all...)
	awaits("CertificateValid", "valid until")
	eventually(t, time.Minute, "new connections get the given certificate", func() error {
		conn, err := login(filepath.Join(given, "ca.crt"))
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	})
	if now := ask(open, "SELECT pg_postmaster_start_time()::text"); now != started {
		t.Errorf("the engine was restarted: %s, %s before", now, started)
	}

	b.must(os.WriteFile(filepath.Join(given, "tls.key"), []byte("none"), 0o600))
	awaits("CertificateInvalid", "the instances go on")
	conn, err := login(filepath.Join(given, "ca.crt"))
	b.must(err)
	if now := ask(conn, "SELECT pg_postmaster_start_time()::text"); now != started {
		t.Errorf("the engine was restarted: %s, %s before", now, started)
	}
	b.must(conn.Close(ctx))
}

// What somebody removes or damages of the files of a cluster is told by another revision, so that it is made again in the
// next pass, and until then the authority's files are used: neither TLS nor identities are given up.
func TestDamagedCertificates(t *testing.T) {
	b := newFixture(t, Options{})
	k, other := b.Certificates(), newIssuer(b)
	at := other.root.NotBefore.UTC().Format(time.RFC3339)
	identity, key := port.ManagerIdentity(c1).Files()
	whole := map[string][]byte{
		"tls.crt": other.pem, "ca.crt": other.pem, identity: other.pem, key: []byte("key"),
		port.AgentTrustFile: append([]byte("present and former\n"), other.pem...), port.RequiredFromFile: []byte(at), port.NamedFromFile: []byte(at),
	}
	b.must(k.Store(t.Context(), c1, sharedstorage.Authority, map[string][]byte{"tls.crt": other.pem, port.RequiredFromFile: []byte(at), port.NamedFromFile: []byte(at)}))
	b.must(k.Store(t.Context(), c1, sharedstorage.ServerCertificate, whole))
	is := b.authoritiesOf(c1)
	if is.PEM != string(whole[port.AgentTrustFile]) || !is.Required() || !is.Named() {
		t.Fatalf("%+v", is)
	}
	holds := func(what, before string) {
		t.Helper()
		if a := b.authoritiesOf(c1); a.Roots() == nil || !a.From.Equal(is.From) || !a.NamedFrom.Equal(is.NamedFrom) {
			t.Errorf("%s: %+v", what, a)
		}
		if k.Revision(t.Context(), c1, v1alpha1.TLSSpec{}) == before {
			t.Errorf("%s: the revision is the same", what)
		}
	}
	for name := range whole {
		for what, damage := range map[string]func(string) error{
			"removed": os.Remove, "damaged": func(file string) error { return os.WriteFile(file, []byte("?"), 0o600) },
		} {
			b.must(k.Store(t.Context(), c1, sharedstorage.ServerCertificate, whole))
			before := k.Revision(t.Context(), c1, v1alpha1.TLSSpec{})
			b.must(damage(filepath.Join(b.tlsFolder(c1), name)))
			holds(name+" is "+what, before)
		}
	}
	b.must(k.Store(t.Context(), c1, sharedstorage.ServerCertificate, whole))
	before := k.Revision(t.Context(), c1, v1alpha1.TLSSpec{})
	b.must(os.RemoveAll(b.tlsFolder(c1)))
	holds("everything is removed", before)

	whole[port.RequiredFromFile] = []byte(port.PlainAllowed)
	b.must(k.Store(t.Context(), c1, sharedstorage.ServerCertificate, whole))
	if b.authoritiesOf(c1).Required() {
		t.Error("plain calls are allowed, and TLS is required")
	}
}

// issuer is an authority that the operator does not have.
type issuer struct {
	b    *fixture
	root *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newIssuer(b *fixture) *issuer {
	b.t.Helper()
	a := &issuer{b: b, root: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	a.pem, _ = a.issue(a.root)
	return a
}

// issue returns a certificate and its key. The first one is that of the authority.
func (a *issuer) issue(c *x509.Certificate) (certificate, secret []byte) {
	a.b.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.b.must(err)
	if a.key == nil {
		a.key = key
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(2), a.root.NotBefore, a.root.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, c, a.root, key.Public(), a.key)
	a.b.must(err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	a.b.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// foreign writes a certificate for these addresses.
func (a *issuer) foreign(dir string, ips ...net.IP) {
	a.b.t.Helper()
	certificate, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: ips})
	for name, text := range map[string][]byte{"ca.crt": a.pem, "tls.crt": certificate, "tls.key": key} {
		a.b.must(os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}
