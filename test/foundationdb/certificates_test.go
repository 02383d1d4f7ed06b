package foundationdb_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// Certificates in pods, from a Secret: TLS is switched on by an edit, for servers and sidecars; the operator talks to the
// sidecars by HTTPS with its own certificate, which they ask for. With an authority that has not signed theirs it is told
// what is wrong, and nothing restarts.
func TestCertificates(t *testing.T) {
	whole(t)
	l := newLife(t, foundationdb.Options{Kubelet: func(o *kubelet.Options) { o.FileDelay = time.Second }})
	l.name = "orders"
	ours, theirs := newAuthority(t), newAuthority(t)
	l.secret(ours)
	own := l.TempDir()
	for file, text := range ours.issue(t, "operator") {
		l.must(os.WriteFile(filepath.Join(own, file), text, 0o600))
	}
	l.environment.Env = append(l.environment.Env, "FDB_TLS_CERTIFICATE_FILE="+filepath.Join(own, "tls.crt"),
		"FDB_TLS_KEY_FILE="+filepath.Join(own, "tls.key"), "FDB_TLS_CA_FILE="+filepath.Join(own, "ca.crt"), "FDB_TLS_VERIFY_PEERS=S.CN=billing.example.org")
	l.operate()
	l.apply("../../examples/foundationdb/access.yaml")
	c := l.example("cluster.yaml", 0)
	c.Namespace = l.namespace
	c.Spec.ImageType = v1beta2.ImageTypeSplit
	c.Spec.SidecarContainer.EnableLivenessProbe = new(false)
	c.Spec.MainContainer.PeerVerificationRules, c.Spec.SidecarContainer.PeerVerificationRules = "S.CN=billing.example.org", "S.CN=operator"
	withCertificates(c, "foundationdb", "foundationdb-kubernetes-sidecar")
	l.must(l.admin.Create(t.Context(), c))
	l.reconciled("created", 2*time.Minute)
	l.hurry()
	l.reconciled("hurried", time.Minute)
	l.write("7.3.69")

	before := l.caused()
	l.change(func(s *v1beta2.FoundationDBClusterSpec) {
		s.MainContainer.EnableTLS, s.SidecarContainer.EnableTLS = true, true
	})
	l.reconciled("TLS", 3*time.Minute)
	l.database(func(d *sim.Cluster) {
		for _, a := range d.Connection().Coordinators {
			if !a.TLS {
				t.Errorf("coordinator %s", a)
			}
		}
	})
	for _, p := range l.pods() {
		l.sidecarAsks(p, ours)
	}
	l.judge(before+3, 2) // pods of the transaction system are made anew for their sidecar

	recoveries := l.caused()
	l.must(os.WriteFile(filepath.Join(own, "ca.crt"), theirs.pem, 0o600))
	knob := func(s *v1beta2.FoundationDBClusterSpec) {
		general := s.Processes["general"]
		general.CustomParameters = append(general.CustomParameters, "knob_max_trace_lines=1000000")
		s.Processes["general"] = general
	}
	l.change(knob)
	l.until("refused", time.Minute, func() error {
		c := meta.FindStatusCondition(l.cluster().Status.Conditions, condition.TypeProgressing)
		if c == nil || !strings.Contains(c.Message, "FDB_SIDECAR_UNREACHABLE") || !strings.Contains(c.Message, "certificate signed by unknown authority") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if c := l.cluster(); !slices.ContainsFunc(c.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool {
		return slices.ContainsFunc(g.ProcessGroupConditions, func(c v1beta2.ProcessGroupCondition) bool {
			return c.Type == v1beta2.SidecarUnreachable
		})
	}) {
		t.Errorf("no sidecar is unreachable: %+v", c.Status.ProcessGroups)
	}
	l.judge(recoveries, 0)
	l.must(os.WriteFile(filepath.Join(own, "ca.crt"), ours.pem, 0o600))
	l.reconciled("the right authority again", 2*time.Minute)
	commandLines("--knob_max_trace_lines=1000000")(l)
	l.judge(recoveries+1, 0)
	l.remove()
}

// secret is the certificate of the pods.
func (l *life) secret(a *authority) {
	l.Helper()
	l.must(l.admin.Create(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "fdb-certs"}, Data: a.issue(l.T, "billing.example.org"),
	}))
}

// withCertificates mounts the Secret, as the guide says, into containers.
func withCertificates(c *v1beta2.FoundationDBCluster, containers ...string) {
	general := c.Spec.Processes["general"]
	spec := &general.PodTemplate.Spec
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "fdb-certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "fdb-certs"}}})
	for i := range spec.Containers {
		if container := &spec.Containers[i]; slices.Contains(containers, container.Name) {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "fdb-certs", MountPath: "/tmp/fdb-certs"})
			container.Env = append(container.Env, corev1.EnvVar{Name: "FDB_TLS_CERTIFICATE_FILE", Value: "/tmp/fdb-certs/tls.crt"},
				corev1.EnvVar{Name: "FDB_TLS_KEY_FILE", Value: "/tmp/fdb-certs/tls.key"}, corev1.EnvVar{Name: "FDB_TLS_CA_FILE", Value: "/tmp/fdb-certs/ca.crt"})
		}
	}
	c.Spec.Processes["general"] = general
}

// sidecarAsks checks that a sidecar speaks HTTPS only, with a certificate of the authority, and answers nobody who has none.
func (l *life) sidecarAsks(pod corev1.Pod, a *authority) {
	l.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	ctx, cancel := context.WithTimeout(l.Context(), 10*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "billing.example.org", MinVersion: tls.VersionTLS12}}
	for scheme, want := range map[string]int{"https": http.StatusUnauthorized, "http": http.StatusBadRequest} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/substitutions", nil)
		l.must(err)
		answer, err := transport.RoundTrip(request)
		if err != nil {
			l.Errorf("%s of %s: %v", scheme, pod.Name, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			l.Errorf("%s of %s: %s", scheme, pod.Name, answer.Status)
		}
	}
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key, a.certificate, a.pem = sign(t, template, template, nil)
	return a
}

// issue returns a certificate with its key, and that of the authority, as files.
func (a *authority) issue(t *testing.T, name string) map[string][]byte {
	t.Helper()
	key, _, text := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, a.key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": text, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), "ca.crt": a.pem}
}

// sign makes a key, and a certificate for it; without the key of a parent it signs itself.
func sign(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
