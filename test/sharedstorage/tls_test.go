package sharedstorage_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// verified connects as the application, and verifies the writer as the Service's name, by a ca.crt.
func (w *fixture) verified(ctx context.Context, authority []byte) (*pgx.Conn, error) {
	secret := &corev1.Secret{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "shop-app"}, secret); err != nil {
		return nil, err
	}
	if authority == nil {
		authority = secret.Data["ca.crt"]
	}
	pods, err := w.routedPods(ctx, "shop", "rw")
	if err != nil || len(pods) != 1 {
		return nil, fmt.Errorf("%d pods are writers: %w", len(pods), err)
	}
	cfg, err := pgx.ParseConfig(string(secret.Data["uri"]))
	if err != nil {
		return nil, errors.New("the uri cannot be read")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no authority in %q", authority)
	}
	cfg.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "shop-rw." + w.namespace + ".svc", MinVersion: tls.VersionTLS12}
	cfg.Host, cfg.Fallbacks = pods[0].Status.PodIP, nil
	return pgx.ConnectConfig(ctx, cfg)
}

// encrypted awaits a verified connection to the writer and a reader that streams with TLS.
func (w *fixture) encrypted(c *v1alpha1.SharedStorageCluster, authority []byte) (conn *pgx.Conn) {
	w.t.Helper()
	w.await(time.Minute, "a client verifies the writer", func(ctx context.Context) (err error) {
		conn, err = w.verified(ctx, authority)
		return err
	})
	w.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) })
	w.await(time.Minute, "the reader streams with TLS", func(ctx context.Context) error {
		text, err := queryRow[string](ctx, w, c.Name, c.Status.Instances[c.Status.Writer],
			"SELECT coalesce(string_agg(r.state || ' ' || s.ssl, ','), 'none') FROM pg_stat_replication r JOIN pg_stat_ssl s USING (pid) WHERE r.application_name NOT LIKE '%.copy'")
		if err == nil && text != "streaming true" {
			err = errors.New(text)
		}
		return err
	})
	return conn
}

// refusesPlainCalls fails unless agents and manager refuse a call without TLS and answer a probe without it.
func (w *fixture) refusesPlainCalls(cluster string) {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.client.List(w.t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/cluster": cluster}); err != nil {
		w.t.Fatal(err)
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	asked := 0
	for _, pod := range pods.Items {
		verb, port, identity := "/v1/status", "7298", "/instance/"+pod.Labels["pawl.dev/instance"]
		switch pod.Labels["pawl.dev/component"] {
		case "manager":
			verb, port, identity = "/v1/topology", "7297", "/manager"
		case "instance":
		default:
			continue
		}
		conn, err := tls.Dial("tcp", net.JoinHostPort(pod.Status.PodIP, port), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // its identity is read
		if err != nil {
			w.t.Error(err)
			continue
		}
		if is := conn.ConnectionState().PeerCertificates[0].URIs; len(is) != 1 || is[0].String() != "pawl://"+w.namespace+"/"+cluster+identity {
			w.t.Errorf("%s is %v", pod.Name, is)
		}
		_ = conn.Close()
		for path, want := range map[string]int{verb: http.StatusUpgradeRequired, "/healthz": http.StatusOK} {
			answer, err := plain.Get("http://" + net.JoinHostPort(pod.Status.PodIP, port) + path)
			if err != nil {
				w.t.Error(err)
				continue
			}
			_ = answer.Body.Close()
			if asked++; answer.StatusCode != want {
				w.t.Errorf("%s of %s without TLS: %d, want %d", path, pod.Name, answer.StatusCode, want)
			}
		}
	}
	if asked != 6 {
		w.t.Errorf("%d answers of two agents and a manager", asked)
	}
}

// plainClient logs in to the writer without TLS.
func (w *fixture) plainClient(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "shop-app"}, secret); err != nil {
		return err
	}
	pods, err := w.routedPods(ctx, "shop", "rw")
	if err != nil || len(pods) != 1 {
		return fmt.Errorf("%d pods are writers: %w", len(pods), err)
	}
	cfg, err := pgx.ParseConfig(string(secret.Data["uri"]) + "?sslmode=disable")
	if err != nil {
		return errors.New("the uri cannot be read")
	}
	cfg.Host = pods[0].Status.PodIP
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		err = conn.Close(ctx)
	}
	return err
}

// Without a word in the spec, agents and the cluster manager refuse calls without TLS. Clients verify the writer by the name of its Service before and after another certificate, a switch and a
// failover. No certificate restarts an engine or ends a connection, and one that cannot be used is a condition. From
// tls.require on no client logs in without TLS, and no engine restarts for that.
func TestTLS(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const head = "apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: shop}\nspec: {readers: 1, storage: {size: 1Gi, onDelete: Delete}"
	w.applyText(head + "}\n")
	c := w.awaitRunning("shop", 1, nil)
	w.turns(time.Minute, "shop", "TLSReady", "True CertificateValid")
	w.refusesPlainCalls("shop")
	w.await(time.Minute, "a client without TLS is served", w.plainClient)
	const start = "SELECT pg_postmaster_start_time()::text"
	asked := func(conn *pgx.Conn) (text string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), start).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	open := w.encrypted(c, nil)
	began := asked(open)

	authority, given := foreignCertificate(t, "shop-rw."+w.namespace+".svc", "shop-ro")
	given.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: "given", Labels: map[string]string{"pawl.dev/cluster": "shop"}}
	if err := w.client.Create(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	w.applyText(head + ", tls: {require: true}}\n")
	w.await(3*time.Minute, "a client without TLS is refused", func(ctx context.Context) error {
		var said *pgconn.PgError
		if err := w.plainClient(ctx); !errors.As(err, &said) || said.Code != "28000" {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	required, err := w.verified(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if now := asked(required); now != began || asked(open) != began {
		t.Errorf("the engine of %s was restarted for tls.require: %s", began, now)
	}
	var encrypted string
	if err := open.QueryRow(t.Context(), "SELECT coalesce(string_agg(backend_type, ','), 'all') FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE backend_type = 'walsender' AND NOT ssl").Scan(&encrypted); err != nil || encrypted != "all" {
		t.Errorf("without TLS: %s, %v", encrypted, err)
	}
	_ = required.Close(t.Context())
	w.applyText(head + ", tls: {secret: given}}\n")
	if now := asked(w.encrypted(c, authority)); now != began || asked(open) != began {
		t.Errorf("the engine of %s was restarted for a certificate: %s", began, now)
	}
	w.turns(time.Minute, "shop", "TLSReady", "True CertificateValid")

	w.kubectl("patch", "secret", "given", "-p", `{"data":{"tls.key":"`+base64.StdEncoding.EncodeToString([]byte("none"))+`"}}`)
	w.turns(30*time.Second, "shop", "TLSReady", "False CertificateInvalid") // the label wakes the operator
	if now := asked(w.encrypted(c, authority)); now != began {
		t.Errorf("the engine of %s was restarted by a certificate that cannot be used: %s", began, now)
	}
	w.turns(time.Second, "shop", "Ready", "True")
	_ = open.Close(t.Context())

	f, old := w.write("shop"), c.Status.Writer
	for id := range c.Status.Instances {
		if id != old {
			w.kubectl("annotate", "ssc", "shop", "pawl.dev/switch-writer="+id)
		}
	}
	switched := func(c *v1alpha1.SharedStorageCluster) error {
		if now := c.Status.Writer; now == "" || now == old { // empty: the frozen one has lost its lease, and nobody has it yet
			return fmt.Errorf("the writer is %q and was %q", now, old)
		}
		return nil
	}
	c = w.awaitRunning("shop", 1, switched)
	_ = w.encrypted(c, authority).Close(t.Context())

	w.turns(time.Minute, "shop", "HighAvailability", "True")
	old = c.Status.Writer
	pod := c.Status.Instances[old].Name
	w.signalPod(pod, syscall.SIGSTOP)
	w.await(time.Minute, "the reader takes over", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "shop")
		if err == nil {
			err = switched(c)
		}
		return err
	})
	w.signalPod(pod, syscall.SIGCONT)
	c = w.awaitRunning("shop", 1, switched)
	_ = w.encrypted(c, authority).Close(t.Context())
	rows, _ := f.end(c)
	t.Logf("%d rows were committed and are on all instances", rows)
}

// foreignCertificate makes a certificate for names by an authority that the operator does not have.
func foreignCertificate(t *testing.T, names ...string) (authority []byte, secret *corev1.Secret) {
	t.Helper()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter, DNSNames: names}
	var keys [2]*ecdsa.PrivateKey
	for n := range keys {
		var err error
		if keys[n], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, keys[0].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, keys[1].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	authority = text("CERTIFICATE", rootDER)
	return authority, &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": text("CERTIFICATE", leafDER), "tls.key": text("PRIVATE KEY", key), "ca.crt": authority}}
}
