package local

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// plainly calls without TLS, with the token of the cluster.
func (b *fixture) plainly(c port.Ref, address, path string) (code int, body string) {
	b.t.Helper()
	token, err := os.ReadFile(b.folder(c, "secret", "token"))
	b.must(err)
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+address+path, nil)
	b.must(err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	b.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	b.must(err)
	return answer.StatusCode, string(text)
}

// endpoints returns the addresses of the HTTP of agents, manager and poolers.
func (b *fixture) endpoints(c port.Ref) (all []string) {
	b.t.Helper()
	records, err := b.instancesOf(c)
	b.must(err)
	for _, r := range records {
		all = append(all, join(r.Address, r.Agent))
	}
	if h, err := (&Managers{b.Placement}).load(c); err == nil && h != nil {
		all = append(all, join(h.Address, h.Port))
	}
	poolers, err := (poolers{b.Placement}).load(c)
	b.must(err)
	for _, r := range poolers {
		all = append(all, join(r.Address, r.Control))
	}
	return all
}

// Without a word in the spec all calls go over TLS: one without it is refused, with a code and for its token as well, and
// probes need none. tls.require refuses clients of engines and poolers without TLS, and takes that back, while the
// engines run; a switch with it ends like one without.
func TestTLSOfACluster(t *testing.T) {
	needsPooler(t)
	ctx, b, objects := served(t, func(o *sharedstorage.Options, s *Placement) {
		o.Secrets, o.Credentials, o.Certificates = Secret, s.Credentials(), s.Certificates()
		t.Cleanup(func() { // when the operator has ended
			if err := s.Pooler().Ensure(context.Background(), port.Ref{Namespace: blue.Namespace, Name: blue.Name}, port.PoolerSpec{}); err != nil {
				t.Error(err)
			}
		})
	})
	cluster := port.Ref{Namespace: blue.Namespace, Name: blue.Name}
	apply := func(tls, annotations map[string]any) {
		t.Helper()
		spec := map[string]any{"readers": 1, "storage": map[string]any{"size": "1Gi"}, "pooler": map[string]any{"instances": 1}}
		if tls != nil {
			spec["tls"] = tls
		}
		raw, err := json.Marshal(spec)
		b.must(err)
		object := control.Object{Ref: blue, Spec: raw, Annotations: map[string]string{}}
		for name, value := range annotations {
			object.Annotations[name] = value.(string)
		}
		_, err = objects.Apply(ctx, object)
		b.must(err)
	}
	rests := func(what string, holds func(c *sharedstorage.Cluster) error) (c *sharedstorage.Cluster) {
		t.Helper()
		eventually(t, time.Minute, what, func() error {
			o, err := objects.Get(ctx, blue)
			if err != nil {
				return err
			}
			if c, err = (ClusterStore{Objects: objects, Placement: b.Placement}).Of(o); err != nil {
				return err
			}
			for _, kind := range []string{sharedstorage.TLSCondition, sharedstorage.AvailableCondition} {
				if !meta.IsStatusConditionTrue(c.Status.Conditions, kind) {
					return fmt.Errorf("%+v", c.Status.Conditions)
				}
			}
			if len(c.Status.Poolers) != 1 || c.Status.Poolers[0].Health != "Healthy" || len(c.Status.Instances) != 2 || c.Status.State != "Running" {
				return fmt.Errorf("%+v", c.Status)
			}
			return holds(c)
		})
		return c
	}
	anything := func(*sharedstorage.Cluster) error { return nil }
	apply(nil, nil)
	c := rests("the cluster runs", anything)
	writerOf := func(c *sharedstorage.Cluster) string {
		for _, i := range c.Status.Instances {
			if i.Role == "rw" {
				return i.Name
			}
		}
		return ""
	}
	all := b.endpoints(cluster)
	if len(all) != 4 {
		t.Fatalf("%q", all)
	}
	for _, address := range all {
		for _, path := range []string{"/v1/status", "/v1/topology"} {
			if code, body := b.plainly(cluster, address, path); code != http.StatusUpgradeRequired && code != http.StatusNotFound || code == http.StatusUpgradeRequired && !strings.Contains(body, "TLS_REQUIRED") {
				t.Errorf("%s of %s without TLS: %d %s", path, address, code, body)
			}
		}
		if code, _ := b.plainly(cluster, address, "/healthz"); code != http.StatusOK {
			t.Errorf("a probe of %s: %d", address, code)
		}
	}

	password, err := b.Password(cluster)
	b.must(err)
	login := func(host string, number int32, mode string) (*pgx.Conn, error) {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=%s", host, number, password, mode))
		if err != nil {
			return nil, err
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		return pgx.ConnectConfig(limited, config)
	}
	ask := func(conn *pgx.Conn, query string) (text string) {
		t.Helper()
		b.must(conn.QueryRow(ctx, query).Scan(&text))
		return text
	}
	place, err := b.Instances().Locate(ctx, cluster.Of(writerOf(c)))
	b.must(err)
	open, err := login(place.Engine.Host, place.Engine.Port, "disable")
	b.must(err)
	defer open.Close(context.WithoutCancel(ctx))
	const start = "SELECT pg_postmaster_start_time()::text"
	began, verify := ask(open, start), "verify-full sslrootcert="+b.folder(cluster, "secret", "tls", "ca.crt")
	targets := func(c *sharedstorage.Cluster) map[string]port.Member {
		at, err := b.Instances().Locate(ctx, cluster.Of(writerOf(c)))
		b.must(err)
		return map[string]port.Member{"engine": {Address: at.Engine.Host, Port: at.Engine.Port}, "pooler": {Address: c.Status.Poolers[0].Address, Port: c.Status.Poolers[0].Port}}
	}
	clients := func(c *sharedstorage.Cluster, refused bool) {
		t.Helper()
		for name, at := range targets(c) {
			eventually(t, time.Minute, fmt.Sprintf("clients of the %s without TLS are refused: %t", name, refused), func() error {
				conn, err := login(at.Address, at.Port, "disable")
				if err == nil {
					b.must(conn.Close(ctx))
				}
				if (err != nil) != refused {
					return fmt.Errorf("%w", err)
				}
				return nil
			})
			eventually(t, time.Minute, "a client of the "+name+" with TLS", func() error {
				conn, err := login(at.Address, at.Port, verify)
				if err == nil {
					_, err = conn.Exec(ctx, "SELECT 1")
					b.must(conn.Close(ctx))
				}
				return err
			})
		}
	}
	clients(c, false)
	for name, at := range targets(c) { // libpq verifies the name as well, and refuses another one
		for host, refused := range map[string]bool{"": false, "blue.example.com": true} {
			query := fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=%s connect_timeout=10", at.Address, at.Port, b.folder(cluster, "secret", "tls", "ca.crt"))
			if host != "" {
				query = strings.Replace(query, "host=", "host="+host+" hostaddr=", 1)
			}
			psql := exec.CommandContext(ctx, "psql", "-XAtc", "SELECT 1", query)
			psql.Env = append(os.Environ(), "PGPASSWORD="+password)
			text, err := psql.CombinedOutput()
			if (err != nil) != refused || refused && !strings.Contains(string(text), `"blue.example.com"`) {
				t.Errorf("psql to the %s as %q: %s, %v", name, host, text, err)
			}
		}
	}
	apply(map[string]any{"require": true}, nil)
	c = rests("the spec is taken", anything)
	clients(c, true)
	if ask(open, start) != began {
		t.Error("the engine was restarted")
	}
	eventually(t, 30*time.Second, "reader and pooler use TLS", func() error {
		const query = "SELECT string_agg(DISTINCT a.backend_type || ' ' || s.ssl, ',' ORDER BY a.backend_type || ' ' || s.ssl) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) WHERE a.client_addr IS NOT NULL AND a.pid <> pg_backend_pid()"
		if text := ask(open, query); text != "client backend true,walsender true" {
			return fmt.Errorf("%s", text)
		}
		return nil
	})

	old := writerOf(c)
	for id, i := range c.Status.Instances {
		if i.Name != old {
			apply(map[string]any{"require": true}, map[string]any{"pawl.dev/switch-writer": id})
		}
	}
	c = rests("the writer is another one", func(c *sharedstorage.Cluster) error {
		if now := writerOf(c); now == "" || now == old {
			return fmt.Errorf("the writer is %s", now)
		}
		return nil
	})
	clients(c, true)
	apply(map[string]any{}, nil)
	clients(rests("the spec is taken", anything), false)
}

// Processes that run without certificates get them, and later refuse calls without TLS, while the writer writes: nothing
// starts anew and nothing fails over. Between the two times everybody is still served.
func TestARunningClusterIsConverted(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	ensure := func() (port.Topology, error) {
		return b.ports.Manager.Ensure(b.ctx(), c1, port.ManagerSpec{Present: true, HA: true, Durability: "strict", Members: []port.Member{{Name: "a", ID: "a", Node: "node-1"}, {Name: "b", ID: "b", Node: "node-2"}}})
	}
	manages := func(tls bool) {
		t.Helper()
		eventually(t, time.Minute, "the manager knows its cluster", func() error {
			top, err := ensure()
			if err == nil && (!top.Ready || top.Writer != "a" || top.Epoch != b.epoch || top.Code != "" || len(top.Sync) != 1 || top.TLS != tls) {
				err = fmt.Errorf("%+v", top)
			}
			return err
		})
	}
	manages(false)
	var running []string
	for _, name := range []string{"a", "b"} {
		running = append(running, fmt.Sprint(b.agentOf(name).PID, b.engineOf(name).PID))
	}
	open, err := b.connect("a")
	b.must(err)
	defer open.Close(context.WithoutCancel(t.Context()))
	_, err = open.Exec(b.ctx(), "CREATE TABLE conversion (n int)")
	b.must(err)
	stop, written, stopped := make(chan struct{}), 0, make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := open.Exec(t.Context(), "INSERT INTO conversion VALUES (1)"); err != nil {
				stopped <- err
				return
			}
			written++
		}
	}()
	place, err := b.Instances().Locate(b.ctx(), c1.Of("a"))
	b.must(err)
	given := t.TempDir()
	authority := newIssuer(b)
	authority.foreign(given, net.ParseIP(place.Engine.Host))
	files, err := readFiles(given)
	b.must(err)
	maps.Copy(files, map[string][]byte{"trust.crt": files["ca.crt"], port.AgentCertificateFile: files["tls.crt"], port.AgentKeyFile: files["tls.key"], port.AgentTrustFile: files["ca.crt"]})
	store := func(from time.Time) {
		t.Helper()
		files[port.RequiredFromFile] = []byte(from.Format(time.RFC3339))
		b.must(b.Certificates().Store(b.ctx(), c1, sharedstorage.ServerCertificate, files))
	}
	store(time.Now().Add(time.Hour))
	for _, name := range []string{"a", "b"} {
		b.until(name, "has a certificate", func(s port.Status) bool { return s.TLS })
	}
	manages(true)
	for _, address := range b.endpoints(c1) {
		if code, _ := b.plainly(c1, address, "/v1/status"); code != http.StatusOK && code != http.StatusNotFound {
			t.Errorf("a call of %s without TLS, before it is refused: %d", address, code)
		}
	}

	store(time.Now().Add(-time.Second))
	eventually(t, time.Minute, "calls without TLS are refused", func() error {
		for _, address := range b.endpoints(c1) {
			if code, body := b.plainly(c1, address, "/v1/status"); code != http.StatusUpgradeRequired && code != http.StatusNotFound {
				return fmt.Errorf("%s: %d %s", address, code, body)
			}
		}
		return nil
	})
	manages(true)
	eventually(t, time.Minute, "the reader verifies the writer", func() error {
		text, err := os.ReadFile(filepath.Join(b.folder(c1, "instances", "b"), "conf", "postgresql.conf"))
		if err == nil && !strings.Contains(string(text), "sslmode=verify-ca") {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	b.until("b", "streams", func(s port.Status) bool { return s.Streaming && s.Upstream == "a" })

	// Each gets its own certificate, and only then callers verify whom they call.
	certify := func(as, who port.Identity) {
		certificate, key := as.Files()
		files[certificate], files[key] = authority.issue(&x509.Certificate{URIs: []*url.URL{who.URL()}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	}
	all := map[string]port.Identity{"a": port.InstanceIdentity(c1.Of("a")), "b": port.InstanceIdentity(c1.Of("b")), "manager": port.ManagerIdentity(c1)}
	for _, who := range all {
		certify(who, who)
	}
	files[port.NamedFromFile] = []byte(time.Now().Add(time.Hour).Format(time.RFC3339))
	store(time.Now().Add(-time.Minute))
	for _, name := range []string{"a", "b"} {
		b.until(name, "has its own certificate", func(s port.Status) bool { return s.Identity == all[name].String() })
	}
	eventually(t, time.Minute, "the manager has its own certificate", func() error {
		if top, err := ensure(); err != nil || top.Identity != all["manager"].String() {
			return fmt.Errorf("%q, %w", top.Identity, err)
		}
		return nil
	})
	delete(files, port.AgentCertificateFile)
	delete(files, port.AgentKeyFile)
	files[port.NamedFromFile] = []byte(time.Now().Add(-time.Second).Format(time.RFC3339))
	store(time.Now().Add(-time.Minute))
	manages(true)
	b.until("b", "streams", func(s port.Status) bool { return s.Streaming && s.Upstream == "a" })
	certify(all["b"], all["a"]) // as if b's address were a's
	store(time.Now().Add(-time.Minute))
	eventually(t, time.Minute, "somebody else at b is refused", func() error {
		anew := postgres.Engine{Locator: b.Instances(), Clients: &transport.Clients{}} // on a connection of its own
		if _, err := anew.Status(b.ctx(), c1.Of("b")); err == nil || !strings.Contains(err.Error(), all["b"].String()+" was called, and "+all["a"].String()+" answers there") {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	certify(all["b"], all["b"])
	store(time.Now().Add(-time.Minute))
	b.until("b", "is itself again", func(s port.Status) bool { return s.Streaming })
	close(stop)
	if err := <-stopped; err != nil || written == 0 {
		t.Errorf("%d rows, %v", written, err)
	}
	for n, name := range []string{"a", "b"} {
		if now := fmt.Sprint(b.agentOf(name).PID, b.engineOf(name).PID); now != running[n] {
			t.Errorf("%s was started anew: %s, %s before", name, now, running[n])
		}
	}
	if s := b.status("a"); s.Epoch != b.epoch || s.Role != port.Primary {
		t.Errorf("%+v", s)
	}

	// An agent that starts without its files takes no plain calls, and goes on when they are there again.
	b.must(os.RemoveAll(b.tlsFolder(c1)))
	former := b.agentOf("b")
	former.Kill()
	eventually(t, time.Minute, "the agent of b starts anew", func() error {
		if _, err := b.Instances().Ensure(b.ctx(), c1, port.Instance{Name: "b"}); err != nil {
			return err
		}
		if now := b.agentOf("b"); now.PID == former.PID || now.PID == 0 {
			return fmt.Errorf("process %d", now.PID)
		}
		return nil
	})
	record, err := b.load(c1, "b")
	b.must(err)
	eventually(t, time.Minute, "a plain call without files is refused", func() error {
		conn, err := net.DialTimeout("tcp", join(record.Address, record.Agent), time.Second)
		if err != nil {
			return err // it starts
		}
		_ = conn.Close()
		if code, body := b.plainly(c1, join(record.Address, record.Agent), "/v1/status"); code != http.StatusUpgradeRequired {
			t.Errorf("%d %s", code, body)
		}
		return nil
	})
	store(time.Now().Add(-time.Minute))
	b.until("b", "is called again", func(s port.Status) bool { return s.Identity == all["b"].String() })
	if transport.Open(transport.FolderOptions{Dir: b.tlsFolder(c1), Own: all["a"]}).Roots() == nil {
		t.Error("the folder has no authorities")
	}
}
