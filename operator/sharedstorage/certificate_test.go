package sharedstorage_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// certificateStore keeps certificates in memory. Given is whatever somebody has put there.
type certificateStore struct {
	mu       sync.Mutex
	names    []string
	kept     map[string]map[sharedstorage.CertificateRole]map[string][]byte // by cluster
	given    map[string][]byte
	revision string
	loads    int
}

func newCertificateStore(names ...string) *certificateStore {
	return &certificateStore{names: names, kept: map[string]map[sharedstorage.CertificateRole]map[string][]byte{}}
}

func (s *certificateStore) give(files map[string][]byte, revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given, s.revision = files, revision
}

func (s *certificateStore) Names(context.Context, port.Ref) ([]sharedstorage.ServedName, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []sharedstorage.ServedName{{Part: sharedstorage.ServedWriter, Names: slices.Clone(s.names)}}, nil
}

func (s *certificateStore) Given(context.Context, port.Ref, v1alpha1.TLSSpec) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.given), nil
}

func (s *certificateStore) Revision(context.Context, port.Ref, v1alpha1.TLSSpec) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func (s *certificateStore) Load(_ context.Context, c port.Ref, role sharedstorage.CertificateRole) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	return maps.Clone(s.kept[c.Name][role]), nil
}

func (s *certificateStore) Store(_ context.Context, c port.Ref, role sharedstorage.CertificateRole, files map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[c.Name] == nil {
		s.kept[c.Name] = map[sharedstorage.CertificateRole]map[string][]byte{}
	}
	s.kept[c.Name][role] = maps.Clone(files)
	return nil
}

func (s *certificateStore) served(t *testing.T, cluster string) (files map[string][]byte, leaf *x509.Certificate) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	files = maps.Clone(s.kept[cluster][sharedstorage.ServerCertificate])
	return files, leafIn(t, files, "tls")
}

func leafIn(t *testing.T, files map[string][]byte, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(files[name+".crt"], files[name+".key"])
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// verified reports whether an instance that trusts one set of authorities accepts the certificate of another one.
func verified(trust []byte, leaf *x509.Certificate, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trust)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

// A certificate is renewed when two thirds of its life are over, and not before; an instance that has the former one
// and one that has the new one accept each other. A new name makes a new one at once. Passes in between ask nothing.
func TestACertificateIsRenewed(t *testing.T) {
	t.Parallel()
	s := newCertificateStore("blue-rw")
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) { o.Certificates, o.Now = s, now }}, func(l *harness) {
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.TLS = &v1alpha1.TLSSpec{} })
		l.awaitRunning("blue", 10*time.Minute)
		pass := func(after time.Duration) {
			ahead.Add(int64(after))
			l.notify("blue")
			time.Sleep(2 * time.Second)
		}
		pass(time.Minute)
		files, first := s.served(t, "blue")
		if err := verified(files["ca.crt"], first, "blue-rw", now()); err != nil {
			t.Fatal(err)
		}
		life := first.NotAfter.Sub(first.NotBefore)

		loads := s.loads
		for range 30 {
			pass(0)
		}
		if s.loads > loads+4 { // two in each look, one a minute
			t.Errorf("%d reads in a minute of passes", s.loads-loads)
		}

		pass(first.NotBefore.Add(life*2/3).Sub(now()) - 2*time.Minute)
		if _, served := s.served(t, "blue"); !served.Equal(first) {
			t.Errorf("renewed at %s of %s", now().Sub(first.NotBefore), life)
		}
		pass(5 * time.Minute)
		files, second := s.served(t, "blue")
		if second.Equal(first) || second.NotAfter.Sub(first.NotAfter) < life/2 {
			t.Fatalf("not renewed: valid until %s, before %s", second.NotAfter, first.NotAfter)
		}
		if err := verified(files["trust.crt"], first, "", now()); err != nil {
			t.Errorf("the former certificate: %v", err)
		}

		s.mu.Lock()
		s.names = append(s.names, "blue-ro")
		s.mu.Unlock()
		pass(time.Minute)
		files, third := s.served(t, "blue")
		if err := verified(files["ca.crt"], third, "blue-ro", now()); err != nil {
			t.Errorf("a new name: %v", err)
		}
	})
}

// A certificate that somebody gives is taken with the next pass after it changes. One that cannot be used changes
// nothing, and the condition says with which one the instances go on.
func TestAGivenCertificate(t *testing.T) {
	t.Parallel()
	s := newCertificateStore("blue-rw")
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) { o.Certificates = s }}, func(l *harness) {
		l.create("red", func(s *v1alpha1.SharedStorageClusterSpec) { s.TLS = &v1alpha1.TLSSpec{} }) // an authority that is not blue's
		l.awaitRunning("red", 10*time.Minute)
		files, leaf := s.served(t, "red")
		s.give(files, "1")
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.TLS = &v1alpha1.TLSSpec{Secret: "given"} })
		l.awaitRunning("blue", 10*time.Minute)
		told := func() string {
			l.notify("blue")
			time.Sleep(2 * time.Second)
			c := meta.FindStatusCondition(l.observe("blue").Status.Conditions, sharedstorage.TLSCondition)
			return c.Reason + ": " + c.Message
		}
		if text := told(); !strings.HasPrefix(text, "CertificateValid") {
			t.Fatal(text)
		}
		if _, now := s.served(t, "blue"); !now.Equal(leaf) {
			t.Errorf("served is %s", now.Subject)
		}
		if files, _ := s.served(t, "blue"); leafIn(t, files, "identity.manager").CheckSignatureFrom(leafIn(t, s.kept["blue"][sharedstorage.Authority], "tls")) != nil {
			t.Error("the certificate of the agents is not of the cluster's own authority")
		}

		broken := maps.Clone(files)
		broken["tls.key"] = []byte("none")
		s.give(broken, "2")
		if text := told(); !strings.HasPrefix(text, "CertificateInvalid") || !strings.Contains(text, "go on with the certificate that is valid until "+leaf.NotAfter.Format(time.RFC3339)) {
			t.Error(text)
		}
		if _, now := s.served(t, "blue"); !now.Equal(leaf) {
			t.Errorf("served is %s", now.Subject)
		}
		s.give(files, "2") // nothing tells, but what failed is tried with each pass
		if text := told(); !strings.HasPrefix(text, "CertificateValid") {
			t.Error(text)
		}
	})
}
