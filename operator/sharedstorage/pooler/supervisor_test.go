package pooler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// scripted is a pgbouncer whose transactions end when drain is closed, before a writer that accepts
// writes at a time.
type scripted struct {
	drain chan struct{}

	mu     sync.Mutex
	calls  []string
	writes time.Time
}

func (b *scripted) note(call string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
}

func (b *scripted) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.calls, " ")
}

func (b *scripted) Configure(_ context.Context, _ port.PoolerSettings, target string) error {
	b.note("to:" + target)
	return nil
}

func (b *scripted) Pause(ctx context.Context) error {
	b.note("pause")
	select {
	case <-b.drain:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *scripted) Resume(context.Context) error {
	b.note("resume")
	return nil
}

func (b *scripted) Writes(context.Context, string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.writes) {
		return errors.New("it does not write")
	}
	return nil
}

func start(t *testing.T) (*Supervisor, *scripted) {
	b := &scripted{drain: make(chan struct{})}
	s, err := newSupervisor(b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set(t.Context(), port.PoolerSettings{}, "old:5432"); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// A pause that nobody ends is over at its limit, at the writer that was known.
func TestAPauseEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := start(t)
		close(b.drain)
		if !s.Pause(t.Context(), time.Second, 30*time.Second) {
			t.Error("it is not settled")
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if _, paused := s.seen(); !paused {
			t.Error("the pause was over before its limit")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, paused := s.seen(); paused || b.said() != "to:old:5432 pause resume" {
			t.Errorf("paused %t, calls: %s", paused, b.said())
		}
	})
}

// Clients go on when the new writer accepts writes, and not before. A transaction that does not end holds
// up the order to pause for the time given, and nothing else.
func TestResumeWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := start(t)
		began := time.Now()
		if s.Pause(t.Context(), 3*time.Second, 30*time.Second) || time.Since(began) != 3*time.Second {
			t.Errorf("settled after %s", time.Since(began))
		}
		b.writes = began.Add(5 * time.Second)
		if err := s.Resume(t.Context(), "new:5432"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if took := time.Since(began); took < 5*time.Second || took > 5*time.Second+2*writesEvery {
			t.Errorf("clients went on after %s", took)
		}
		if got := b.said(); got != "to:old:5432 pause to:new:5432 resume" {
			t.Error(got)
		}
	})
}

// The settings of a spec come into the file; what belongs to the supervisor cannot be set.
func TestSettings(t *testing.T) {
	for _, wrong := range []port.PoolerSettings{
		{Mode: "statement"}, {MaxClients: -1},
		{Parameters: map[string]string{"auth_type": "any"}}, {Parameters: map[string]string{"query_timeout": "1\nauth_type = any"}},
	} {
		if wrong.Check() == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	s := port.PoolerSettings{Mode: port.SessionPooling, MaxClients: 7, Parameters: map[string]string{"query_wait_timeout": "9"}}
	text := configuration(Config{Host: "127.0.0.1", Port: 6432}, s, "10.0.0.1:5432", "/u", tlsSettings{})
	for _, line := range []string{"* = host=10.0.0.1 port=5432", "pool_mode = session", "max_client_conn = 7", "default_pool_size = 20", "query_wait_timeout = 9", "auth_type = scram-sha-256"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if s.Hash() == (port.PoolerSettings{}).Hash() {
		t.Error("two settings have one hash")
	}
}

// A pooler takes TLS from clients as soon as it has a certificate and speaks it to the writer wherever that can; what
// is required is required on both sides.
func TestTLSSettings(t *testing.T) {
	for name, c := range map[string]struct {
		tls  tlsSettings
		want []string
	}{
		"no certificate":      {tlsSettings{}, []string{"client_tls_sslmode = disable", "server_tls_sslmode = prefer"}},
		"a certificate":       {tlsSettings{Certificate: "/c", Key: "/k"}, []string{"client_tls_sslmode = allow", "client_tls_cert_file = /c", "client_tls_key_file = /k", "server_tls_sslmode = prefer"}},
		"the writer verified": {tlsSettings{Certificate: "/c", Key: "/k", Trust: "/t"}, []string{"client_tls_sslmode = allow", "server_tls_sslmode = verify-ca", "server_tls_ca_file = /t"}},
		"clients, too":        {tlsSettings{Certificate: "/c", Key: "/k", Trust: "/t", Require: true}, []string{"client_tls_sslmode = require", "server_tls_sslmode = verify-ca", "auth_type = scram-sha-256"}},
		"required, and none":  {tlsSettings{Require: true}, []string{"client_tls_sslmode = disable", "auth_type = hba", "auth_hba_file = /d/hba.conf"}},
	} {
		text := configuration(Config{Host: "127.0.0.1", Port: 6432}, port.PoolerSettings{}, "10.0.0.1:5432", "/d/u", c.tls)
		for _, line := range c.want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s: %q is missing in\n%s", name, line, text)
			}
		}
	}
}
