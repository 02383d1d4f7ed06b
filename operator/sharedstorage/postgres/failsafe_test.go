package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
)

// unreliable is a grant record that may be away.
type unreliable struct {
	Grant
	away bool
}

var errAway = errors.New("connection refused")

func (u *unreliable) Read(context.Context) (Grant, error) {
	if u.away {
		return Grant{}, errAway
	}
	return u.Grant, nil
}

func (u *unreliable) Renew(_ context.Context, r Renewal) (Grant, error) {
	if u.away {
		return Grant{}, errAway
	}
	g, err := u.Renewed(r, time.Now())
	if err == nil {
		u.Grant = g
	}
	return g, err
}

// failsafeFixture is a cluster of agents a, b and c with one record. No engine runs.
type failsafeFixture struct {
	t      *testing.T
	record *unreliable
	agents map[string]*Agent
	served map[string]*httptest.Server
}

func newFailsafeFixture(t *testing.T, lease time.Duration) *failsafeFixture {
	t.Helper()
	f := &failsafeFixture{t: t, record: &unreliable{Grant: Grant{Writer: "a", Epoch: 1}}, agents: map[string]*Agent{}, served: map[string]*httptest.Server{}}
	m := Membership{Version: 1, Names: []string{"a", "b", "c"}}
	for _, name := range m.Names {
		dir := t.TempDir()
		for _, folder := range []string{filepath.Dir(dir), dir} { // the user who runs PostgreSQL for root must enter it
			if err := os.Chmod(folder, 0o711); err != nil {
				t.Fatal(err)
			}
		}
		for _, secret := range []string{"token", "password"} {
			if err := os.WriteFile(filepath.Join(dir, secret), []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := NewAgent(dir, AgentOptions{Grants: f.record, Config: Config{
			Cluster: port.Ref{Namespace: "default", Name: "x", Instance: name}, Host: "127.0.0.1", Listen: "127.0.0.1:0", Port: 5432, Binaries: dir,
			TokenFile: filepath.Join(dir, "token"), PasswordFile: filepath.Join(dir, "password"),
			Lease: Duration(lease), Failsafe: Duration(time.Hour), Node: "node-" + name,
		}})
		if err != nil {
			t.Fatal(err)
		}
		f.agents[name], f.served[name] = a, httptest.NewServer(a.handler())
		t.Cleanup(func() { f.served[name].Close(); a.http.CloseIdleConnections() })
		m.Peers = append(m.Peers, Peer{Name: name, Node: "node-" + name, Agent: f.served[name].URL})
	}
	for _, a := range f.agents {
		if _, err := a.callMembers(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.agents["a"].acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	f.record.away = true
	return f
}

// goOn lets the writer a miss a renewal. It returns by how much it may write longer, and why not.
func (f *failsafeFixture) goOn() (time.Duration, error) {
	f.t.Helper()
	a := f.agents["a"]
	before := a.tenure.deadline
	err := a.acquire(f.t.Context(), 1)
	if !errors.Is(err, errAway) {
		f.t.Fatalf("the renewal: %v", err)
	}
	err = a.goOn(f.t.Context(), 1, err)
	return a.tenure.deadline - before, err
}

// A writer whose record is away goes on while all members confirm. None of them takes its place
// meanwhile, and it is recorded whom the writer asks.
func TestAWriterGoesOnWhileAllConfirm(t *testing.T) {
	f := newFailsafeFixture(t, time.Minute)
	if got := f.record.Lease.Failsafe; got == nil || strings.Join(got.Members, " ") != "a@node-a b@node-b c@node-c" || got.For != time.Hour {
		t.Errorf("recorded is %+v", got)
	}
	for range 3 {
		if longer, err := f.goOn(); err != nil || longer <= 0 {
			t.Fatalf("longer by %s: %v", longer, err)
		}
	}
	var n guardNote
	if err := ReadJSON(f.agents["a"].srv.path(guardName), &n); err != nil || n.Deadline <= f.agents["a"].tenure.deadline {
		t.Errorf("its guard stops it at %s, before %s: %v", n.Deadline, f.agents["a"].tenure.deadline, err)
	}

	f.record.away, f.record.Grant = false, Grant{Writer: "b", Epoch: 2} // even without a lease that it would have to wait for
	if err := f.agents["b"].acquire(t.Context(), 2); !errors.Is(err, port.SwitchRefused) || !strings.Contains(err.Error(), "has promised") {
		t.Errorf("b takes the lease: %v", err)
	}
	if err := f.agents["a"].acquire(t.Context(), 1); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("a renews its lease: %v", err)
	}
	if longer, err := func() (time.Duration, error) {
		a, before := f.agents["a"], f.agents["a"].tenure.deadline
		err := a.goOn(t.Context(), 1, port.SwitchRefused.Errorf("b has the grant"))
		return a.tenure.deadline - before, err
	}(); err == nil || longer != 0 {
		t.Errorf("a goes on though it was told that b has the grant: by %s, %v", longer, err)
	}
}

// A writer stops at the end of its lease if one member does not confirm.
func TestAWriterStopsWhenOneDoesNotConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *failsafeFixture)
		why    string
	}{
		"one does not answer": {func(f *failsafeFixture) { f.served["c"].Close() }, "c@node-c does not answer"},
		"one was moved":       {func(f *failsafeFixture) { f.agents["c"].cfg.Node = "node-d" }, "c@node-c: it is c@node-d"},
		"one is another one":  {func(f *failsafeFixture) { f.agents["c"].name = "d" }, "c@node-c: it is d@node-c"},
		"one is to be promoted": {
			func(f *failsafeFixture) { f.agents["c"].rec.Promote = 2 }, "c@node-c: it knows of epoch 2",
		},
		"one has written since": {func(f *failsafeFixture) { f.agents["c"].rec.Epoch = 2 }, "c@node-c: it knows of epoch 2"},
		"one is held":           {func(f *failsafeFixture) { f.agents["c"].rec.Hold = true }, "c@node-c: a failover is under way"},
		"a member came that may be recorded": {func(f *failsafeFixture) {
			r := f.agents["a"].rec.Members
			r.Names, r.Peers = append(r.Names, "d"), append(r.Peers, Peer{Name: "d", Node: "node-d", Agent: "http://127.0.0.1:1"})
			f.agents["a"].rec.Members = r
		}, "d@node-d does not answer"},
		"it took the lease before this agent": {func(f *failsafeFixture) { f.agents["a"].tenure.holder = failsafe.Holder{} }, "its last renewal is more than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFailsafeFixture(t, time.Minute)
			c.before(f)
			if longer, err := f.goOn(); longer != 0 || err == nil || !strings.Contains(err.Error(), c.why) || !errors.Is(err, errAway) {
				t.Errorf("longer by %s: %v; want %s", longer, err, c.why)
			}
		})
	}
}

// The loops of the agent stop such a writer before the end of its lease.
func TestAWriterThatIsNotConfirmedStopsInTime(t *testing.T) {
	f := newFailsafeFixture(t, 2*time.Second)
	f.served["c"].Close()
	a := f.agents["a"]
	end := a.tenure.deadline + a.margin() // of the lease
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { a.keepLease(ctx) })
	loops.Go(func() { a.watchLease(ctx) })
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		if _, on := a.writing(); !on {
			break
		}
		if <-every.C; sinceBoot() > end {
			t.Error("it writes longer than its lease")
			break
		}
	}
	cancel()
	loops.Wait()
	if why := fmt.Sprint(a.live.fault); !strings.Contains(why, "c@node-c does not answer") {
		t.Errorf("it says %s", why)
	}
}

// Without a node, without a limit, or with a member whose node is not known, it stops as before,
// and its lease makes nobody wait longer.
func TestAWriterThatCannotGoOnRecordsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before func(a *Agent)
		want   string
	}{
		"its node is not known": {func(a *Agent) { a.cfg.Node = "" }, ""},
		"it is turned off":      {func(a *Agent) { a.cfg.Failsafe = 0 }, "a@node-a"},
		"the node of a member is not known": {func(a *Agent) {
			a.rec.Members.Peers = []Peer{{Name: "a", Node: "node-a"}, {Name: "b"}, {Name: "c", Node: "node-c"}}
		}, "a@node-a"},
		"it is no member": {func(a *Agent) { a.rec.Members.Names = []string{"b", "c"} }, "a@node-a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFailsafeFixture(t, time.Minute)
			f.record.away, f.record.Lease = false, Lease{}
			c.before(f.agents["a"])
			if err := f.agents["a"].acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			got, members := f.record.Lease.Failsafe, ""
			if got != nil {
				members = strings.Join(got.Members, " ")
			}
			if members != c.want || got.Wait("b@node-b") != 0 {
				t.Errorf("recorded is %+v, want %q", got, c.want)
			}
			f.record.away = true
			if longer, err := f.goOn(); longer != 0 || err == nil {
				t.Errorf("longer by %s: %v", longer, err)
			}
		})
	}
}

// The manager sends the nodes that the agents have reported.
func TestNodesOfMembers(t *testing.T) {
	s := WatchState{Version: 4, Members: []WatchMember{{Member: port.Member{Name: "a", Node: "node-1"}, Agent: "http://a"}, {Member: port.Member{Name: "b", Node: "node-2"}}}}
	at := tick{seen: map[string]AgentStatus{"a": {Node: "node-3"}, "b": {}}}
	next := s.located(at)
	if p := next.membership().Peers[0]; next.Version != 5 || p != (Peer{Name: "a", Node: "node-3", Agent: "http://a"}) || next.Members[1].Node != "node-2" {
		t.Errorf("%+v of version %d", next.Members, next.Version)
	}
	if s.Members[0].Node != "node-1" || next.located(at).Version != 5 {
		t.Error("it changes the old state, or changes again")
	}
}
