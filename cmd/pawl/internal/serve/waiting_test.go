package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// door stands before a database: it is away, refuses, or leads to the server.
type door struct {
	ln net.Listener

	mu      sync.Mutex
	refusal *pgproto3.ErrorResponse
	target  string
	tried   chan string // what a connection met
	all     sync.WaitGroup
}

// newDoor listens on an address.
func newDoor(t *testing.T, addr string) *door {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{ln: ln, tried: make(chan string, 1000)}
	d.all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d.all.Go(func() { d.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		d.all.Wait()
	})
	return d
}

func (d *door) is(refusal *pgproto3.ErrorResponse, target string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusal, d.target = refusal, target
}

func (d *door) serve(in net.Conn) {
	defer in.Close()
	d.mu.Lock()
	refusal, target := d.refusal, d.target
	d.mu.Unlock()
	if refusal != nil {
		b := pgproto3.NewBackend(in, in)
		if _, err := b.ReceiveStartupMessage(); err == nil {
			b.Send(refusal)
			_ = b.Flush()
		}
		d.tried <- refusal.Message
		return
	}
	out, err := net.Dial("unix", target)
	if err != nil {
		return
	}
	defer out.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(out, in); out.Close() })
	both.Go(func() { _, _ = io.Copy(in, out); in.Close() })
	both.Wait()
}

// meets waits until the server has met a refusal.
func (d *door) meets(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case got := <-d.tried:
			if got == text {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("the server does not try any more: it has not met %q", text)
		}
	}
}

// answered waits until the server answers a path with a status and a text.
func answered(t *testing.T, url, path string, status int, text string) {
	t.Helper()
	var last string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + path)
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if last = fmt.Sprintf("%d %s", resp.StatusCode, body); resp.StatusCode == status && strings.Contains(last, text) {
			return
		}
	}
	t.Fatalf("%s is answered with %s, want %d and %q", path, last, status, text)
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// A server is started while its database is away. It lives, is not ready, says
// why, and serves once the database is there and lets it in.
func TestFinding4ServerWaitsForItsDatabase(t *testing.T) {
	config, err := pgx.ParseConfig(pgtest.New(t, pgtest.Options{NoSync: true}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	_, socket := pgconn.NetworkAddress(config.Host, config.Port)
	database, listen := freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	url := "http://" + listen
	var log lines
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- Run(ctx, Options{
			Store:  backend.StoreOptions{DSN: fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable", database, config.User, config.Database)},
			Listen: listen, Logger: slog.New(slog.NewTextHandler(&log, nil)), Ready: func(addr net.Addr, _, _ int) { ready <- addr },
		})
	}()

	answered(t, url, "/readyz", 503, "connection refused")
	answered(t, url, "/healthz", 200, `"ok"`)
	answered(t, url, "/v1/runs", 503, "waits for its database")

	d := newDoor(t, fmt.Sprintf("127.0.0.1:%d", database))
	for _, refusal := range []pgproto3.ErrorResponse{
		{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"},
		{Severity: "FATAL", Code: "53300", Message: "sorry, too many clients already"},
	} {
		d.is(&refusal, "")
		d.meets(t, refusal.Message)
		answered(t, url, "/readyz", 503, refusal.Message)
	}
	d.is(nil, socket)
	select {
	case addr := <-ready:
		if addr.String() != listen {
			t.Errorf("it listens on %s now, and on %s before", addr, listen)
		}
	case err := <-ended:
		t.Fatalf("the server has ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the server does not serve, although its database is there")
	}
	answered(t, url, "/readyz", 200, `"ok"`)
	answered(t, url, "/v1/runs", 200, "")
	for _, want := range []string{"the server waits for its database", "connection refused", "starting up", "too many clients"} {
		if !log.contains(want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What waiting does not mend ends the server, and what stops it while it waits is no failure.
func TestFinding4ServerEndsWhereWaitingDoesNotHelp(t *testing.T) {
	d := newDoor(t, "127.0.0.1:0")
	o := Options{
		Store:  backend.StoreOptions{DSN: fmt.Sprintf("host=127.0.0.1 port=%d user=pawl dbname=pawl sslmode=disable", d.ln.Addr().(*net.TCPAddr).Port)},
		Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	}
	for code, want := range map[string]*fault.Kind{"28P01": postgres.Refused, "3D000": postgres.Refused} {
		d.is(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no"}, "")
		if err := Run(t.Context(), o); fault.Of(err) != want {
			t.Errorf("%s: the server ended with %v, want %s", code, err, want.Code)
		}
	}
	d.is(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "starting"}, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	d.meets(t, "starting")
	d.meets(t, "starting")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a server that was stopped while it waited ended with %v", err)
	}
	o.Store.DSN = "postgres://pawl@127.0.0.1:notaport/pawl"
	if err := Run(t.Context(), o); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a wrong DSN: %v", err)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}
