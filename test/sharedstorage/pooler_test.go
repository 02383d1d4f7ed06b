package sharedstorage_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// Clients of the pooler of a cluster see a delay and no error while its writer is switched, and the
// pooler sends them to the new one.
func TestAPooledSwitch(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	if _, err := os.Stat("/usr/sbin/pgbouncer"); err != nil {
		t.Skip("PgBouncer of Debian is not installed: apt-get install pgbouncer")
	}
	t.Parallel()
	w := newFixture(t)
	w.applyText(`apiVersion: pawl.dev/v1alpha1
kind: SharedStorageCluster
metadata: {name: pooled}
spec:
  readers: 1
  storage: {size: 64Mi, onDelete: Delete}
  pooler: {image: "pgbouncer:dev"}
`)
	healthy := func(c *v1alpha1.SharedStorageCluster) error {
		writer := c.Status.Instances[c.Status.Writer]
		if p := c.Status.Poolers; len(p) != 1 || p[0].Health != "Healthy" || p[0].Writer != fmt.Sprintf("%s:%d", writer.Address, writer.Port) {
			return fmt.Errorf("the poolers are %+v", p)
		}
		return nil
	}
	c := w.awaitRunning("pooled", 1, healthy)
	ctx := t.Context()
	password, err := w.password(ctx, "pooled")
	if err != nil {
		t.Fatal(err)
	}
	w.await(time.Minute, "the Service selects the pooler", func(ctx context.Context) error {
		pods, err := w.routedPods(ctx, "pooled", "pooler-rw")
		if err == nil && (len(pods) != 1 || pods[0].Status.PodIP != c.Status.Poolers[0].Address) {
			err = fmt.Errorf("it selects %d pods", len(pods))
		}
		return err
	})
	at := v1alpha1.InstanceStatus{Address: c.Status.Poolers[0].Address, Port: c.Status.Poolers[0].Port}
	config, err := pgx.ParseConfig(connString(password, at))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	connect := func() *pgx.Conn {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	app := &corev1.Secret{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "pooled-app"}, app); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(app.Data["ca.crt"])
	for name, refused := range map[string]bool{"pooled-pooler-rw": false, "pooled-pooler-rw." + w.namespace + ".svc": false, "pooled-rw": true} {
		verified := config.Copy()
		verified.TLSConfig, verified.Fallbacks = &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}, nil
		conn, err := pgx.ConnectConfig(ctx, verified)
		if (err != nil) != refused {
			t.Errorf("verify-full of the pooler as %s: %v", name, err)
		}
		if err == nil {
			_ = conn.Close(ctx)
		}
	}
	first := connect()
	if _, err := first.Exec(ctx, "CREATE TABLE pooled (client int, n int, PRIMARY KEY (client, n))"); err != nil {
		t.Fatal(err)
	}
	const clients = 4
	var mu sync.Mutex
	var all sync.WaitGroup
	var wrong error
	rows, longest := 0, time.Duration(0)
	done := make(chan struct{})
	for client := range clients {
		conn := connect()
		all.Go(func() {
			defer func() { _ = conn.Close(context.Background()) }()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				began := time.Now()
				_, err := conn.Exec(context.Background(), "INSERT INTO pooled VALUES ($1, $2)", client, n)
				mu.Lock()
				longest = max(longest, time.Since(began))
				if wrong = errors.Join(wrong, err); err == nil {
					rows++
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	old, target := c.Status.Writer, ""
	for id := range c.Status.Instances {
		if id != old {
			target = id
		}
	}
	w.kubectl("annotate", "ssc", "pooled", "pawl.dev/switch-writer="+target)
	w.awaitRunning("pooled", 1, func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != target {
			return fmt.Errorf("%s writes", c.Status.Writer)
		}
		return healthy(c)
	})
	close(done)
	all.Wait()
	if wrong != nil {
		t.Errorf("clients of the pooler met %v", wrong)
	}
	// The gate of two seconds is measured on a machine without other work (bench/README.md). Beside the other
	// tests a whole switch has taken 15 s, and a statement 11.6 s; one that hangs is what this finds.
	if longest > 30*time.Second {
		t.Errorf("a statement took %s", longest)
	}
	have := 0
	if err := first.QueryRow(ctx, "SELECT count(*) FROM pooled").Scan(&have); err != nil || have != rows {
		t.Errorf("%d rows were answered, and there are %d: %v", rows, have, err)
	}
	t.Logf("%d rows, longest delay %s", rows, longest.Round(time.Millisecond))
	_ = first.Close(ctx)
	w.kubectl("patch", "ssc", "pooled", "--type=merge", "-p", `{"spec":{"pooler":null}}`)
	w.await(time.Minute, "the poolers are gone", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "pooled")
		if err == nil && len(c.Status.Poolers) > 0 {
			err = fmt.Errorf("%+v", c.Status.Poolers)
		}
		return err
	})
	w.kubectl("delete", "ssc", "pooled")
}
