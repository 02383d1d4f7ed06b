package postgres

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// secrets are those of the cluster of TestReportHasNoSecrets: one of them cannot be told from other words.
var secrets = []string{"correct horse", `q"u\ote/&?`, "0123456789abcdef0123456789abcdef"}

// leaky has the secrets and a row in everything that a report reads.
type leaky struct {
	host  // what a report is given: its secrets
	asked []string
}

func (l *leaky) run(_ context.Context, i instance, program string, args []string, s streams) (int, error) {
	l.asked = append(l.asked, i.id+" "+program)
	if strings.Contains(strings.Join(args, " "), "'streams'") {
		_, err := fmt.Fprint(s.out, `{"streams":[],"slots":[],"archive":{"mode":"off"}}`)
		return 0, err
	}
	return 0, json.NewEncoder(s.out).Encode(map[string]string{"setting": "password=" + secrets[0], "plain": secrets[1], "url": "postgres://app:" + secrets[2] + "@db/shop", "other": url.QueryEscape(secrets[1])})
}

func (l *leaky) sources(i instance) []source {
	return []source{logOf(i.id, nil,
		`{"time":"2026-11-26T11:59:00Z","level":"ERROR","msg":"duplicate key","logger":"postgres","user":"app","database":"shop"}`,
		`{"time":"2026-11-26T11:59:00Z","level":"DETAIL","msg":"Key (card)=(4111-1111) exists","logger":"postgres"}`,
		`{"time":"2026-11-26T11:59:01Z","level":"LOG","msg":"statement: SELECT '4111-1111'","logger":"postgres","user":"app","database":"shop"}`,
		`{"time":"2026-11-26T11:59:02Z","level":"LOG","msg":"checkpoint complete","logger":"postgres"}`,
		`{"time":"2026-11-26T11:59:03Z","level":"INFO","msg":"token `+secrets[2]+`"}`,
		`{"time":"2020-01-01T00:00:00Z","level":"INFO","msg":"long ago"}`)}
}

func (l *leaky) manager(context.Context) ([]source, error) {
	return nil, errors.New("no manager " + secrets[2])
}

func (l *leaky) metrics(context.Context, instance) ([]byte, error) {
	return []byte("# " + secrets[0] + "\npawl_postgres_up 1\npawl_custom_orders{card=\"4111-1111\"} 1\n"), nil
}

func (l *leaky) more(context.Context) (map[string]any, error) {
	return map[string]any{"events.json": []string{secrets[0], "API_KEY=unknownkey1", "-----BEGIN RSA PRIVATE KEY-----\nunknownkey2\n-----END RSA PRIVATE KEY-----", "SCRAM-SHA-256$4096:unknownkey3", `"unknown"`}}, nil
}

// leakyRuns are the runs of a cluster.
type leakyRuns struct{ backend.Backend }

func (leakyRuns) List(_ context.Context, q runstore.Query) (view.Runs, error) {
	if strings.Count(q.Subject, "/") == 2 {
		return view.Runs{}, nil
	}
	return view.Runs{Items: []view.Run{{ID: "gk3vabcdefgh", Flow: "SwitchWriter", Seq: 1}}}, nil
}

func (leakyRuns) Run(context.Context, string) (view.Run, error) {
	return view.Run{ID: "gk3vabcdefgh", Flow: "SwitchWriter", Seq: 1, Input: json.RawMessage(`{"password":"unknownkey4"}`)}, nil
}

func (leakyRuns) History(context.Context, string, int64, int) ([]view.Event, error) {
	return nil, errors.New("history " + secrets[0])
}

// No secret of the cluster, nothing that looks like one, no statement and no row is in a report; what is left says
// what happened, and contents.json lists it.
func TestReportHasNoSecrets(t *testing.T) {
	c, _ := read(t, "healthy")
	c.object.UID = "uid-1"
	c.object.Spec = json.RawMessage(`{"parameters":{"shop.password":"unknownkey5","work_mem":"8MB"}}`)
	c.object.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "unknownkey6", "note": secrets[1]}
	host := &leaky{}
	c.host, c.backend = host, leakyRuns{}
	packed, err := c.collect(t.Context(), newRedactor(secrets), 24*time.Hour).pack()
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, packed)
	var all strings.Builder
	for name, text := range files {
		all.WriteString(name + "\n" + text + "\n")
		for _, secret := range append(secrets, strings.Trim(quoted(secrets[1]), `"`), url.QueryEscape(secrets[1]), "4111-1111", "unknownkey", "long ago", "duplicate key") {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q:\n%s", name, secret, text)
			}
		}
	}
	for _, stays := range []string{"checkpoint complete", `"level":"ERROR"`, `"work_mem": "8MB"`, "SwitchWriter", "pawl_postgres_up 1", `"name": "logs/manager.jsonl"`, "no manager"} {
		if !strings.Contains(all.String(), stays) {
			t.Errorf("%q is not in the report", stays)
		}
	}
	var contents Contents
	if err := json.Unmarshal([]byte(files["shop-orders/contents.json"]), &contents); err != nil {
		t.Fatal(err)
	}
	if len(contents.Files)+1 != len(files) || len(files) < 18 || len(host.asked) != 7 {
		t.Errorf("%d files are listed, %d are there; %v was asked", len(contents.Files), len(files), host.asked)
	}
	for _, f := range contents.Files {
		if len(files["shop-orders/"+f.Name]) != f.Bytes || f.What == "" {
			t.Errorf("%+v", f)
		}
	}
}

func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// What is no secret stays as it is, so that a report can be read.
func TestRedactorKeepsTheRest(t *testing.T) {
	r := newRedactor([]string{"", "abc", "a longer secret"})
	for _, text := range []string{
		`{"tokenFile":"/etc/pawl/secret/token","passwordFile":"/etc/pawl/secret/password"}`, `"name": "password_encryption",`, "abc", "http://127.0.0.1:7298/metrics",
		"pawl_engine_up 1", `"msg":"storing the password of the cluster"`, "user@host", "md5 of it",
	} {
		if got := string(r.text([]byte(text))); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}
