package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
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

// fixture is a cluster of instances a, b and c with one record. No engine runs.
type fixture struct {
	t       *testing.T
	record  *unreliable
	names   []string
	peers   []Peer
	holders map[string]*Holder
	knows   map[string]int64 // epochs
	held    map[string]bool
	gone    map[string]bool // those that do not answer
	fault   error           // of the writer a
}

func newFixture(t *testing.T, lease time.Duration) *fixture {
	t.Helper()
	f := &fixture{
		t: t, record: &unreliable{Grant: Grant{Writer: "a", Epoch: 1}}, names: []string{"a", "b", "c"},
		holders: map[string]*Holder{}, knows: map[string]int64{}, held: map[string]bool{}, gone: map[string]bool{},
	}
	for _, name := range f.names {
		f.peers = append(f.peers, Peer{Name: name, Node: "node-" + name, Agent: name})
		f.holders[name] = New(Options{
			Name: name, Node: "node-" + name, Dir: t.TempDir(), Lease: lease, Failsafe: time.Hour, Grants: f.record, Log: slog.New(slog.DiscardHandler),
			Agent: Agent{
				Engine:  func() host.Process { return host.Process{} },
				State:   func() (int64, bool) { return f.knows[name], f.held[name] },
				Members: func() ([]string, []Peer) { return f.names, f.peers },
				Ask: func(_ context.Context, p Peer, q failsafe.Question) (failsafe.Answer, error) {
					k := f.holders[p.Agent]
					if k == nil || f.gone[p.Agent] {
						return failsafe.Answer{}, errAway
					}
					return k.Confirm(q), nil
				},
				Fenced: func(err error) { f.fault = err },
				Freed:  func() {},
			},
		})
	}
	if err := f.holders["a"].Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	f.record.away = true
	return f
}

// goOn lets the writer a miss a renewal. It returns by how much it may write longer, and why not.
func (f *fixture) goOn() (time.Duration, error) {
	f.t.Helper()
	a := f.holders["a"]
	before := a.deadline
	err := a.Acquire(f.t.Context(), 1)
	if !errors.Is(err, errAway) {
		f.t.Fatalf("the renewal: %v", err)
	}
	err = a.goOn(f.t.Context(), 1, err)
	return a.deadline - before, err
}

// A writer whose record is away goes on while all members confirm. None of them takes its place
// meanwhile, and it is recorded whom the writer asks.
func TestAWriterGoesOnWhileAllConfirm(t *testing.T) {
	f := newFixture(t, time.Minute)
	if got := f.record.Lease.Failsafe; got == nil || strings.Join(got.Members, " ") != "a@node-a b@node-b c@node-c" || got.For != time.Hour {
		t.Errorf("recorded is %+v", got)
	}
	for range 3 {
		if longer, err := f.goOn(); err != nil || longer <= 0 {
			t.Fatalf("longer by %s: %v", longer, err)
		}
	}
	var n guardNote
	if err := host.ReadJSON(f.holders["a"].path(guardName), &n); err != nil || n.Deadline <= f.holders["a"].deadline {
		t.Errorf("its guard stops it at %s, before %s: %v", n.Deadline, f.holders["a"].deadline, err)
	}

	f.record.away, f.record.Grant = false, Grant{Writer: "b", Epoch: 2} // even without a lease that it would have to wait for
	if err := f.holders["b"].Acquire(t.Context(), 2); !errors.Is(err, port.SwitchRefused) || !strings.Contains(err.Error(), "has promised") {
		t.Errorf("b takes the lease: %v", err)
	}
	if err := f.holders["a"].Acquire(t.Context(), 1); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("a renews its lease: %v", err)
	}
	if longer, err := func() (time.Duration, error) {
		a, before := f.holders["a"], f.holders["a"].deadline
		err := a.goOn(t.Context(), 1, port.SwitchRefused.Errorf("b has the grant"))
		return a.deadline - before, err
	}(); err == nil || longer != 0 {
		t.Errorf("a goes on though it was told that b has the grant: by %s, %v", longer, err)
	}
}

// A writer stops at the end of its lease if one member does not confirm.
func TestAWriterStopsWhenOneDoesNotConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *fixture)
		why    string
	}{
		"one does not answer": {func(f *fixture) { f.gone["c"] = true }, "c@node-c does not answer"},
		"one was moved":       {func(f *fixture) { f.holders["c"].o.Node = "node-d" }, "c@node-c: it is c@node-d"},
		"one is another one":  {func(f *fixture) { f.holders["c"].o.Name = "d" }, "c@node-c: it is d@node-c"},
		"one knows of another writer": {
			func(f *fixture) { f.knows["c"] = 2 }, "c@node-c: it knows of epoch 2",
		},
		"one is held": {func(f *fixture) { f.held["c"] = true }, "c@node-c: a failover is under way"},
		"a member came that may be recorded": {func(f *fixture) {
			f.names, f.peers = append(f.names, "d"), append(f.peers, Peer{Name: "d", Node: "node-d", Agent: "d"})
		}, "d@node-d does not answer"},
		"it took the lease before this agent": {func(f *fixture) {
			f.holders["a"].holder = failsafe.Holder{}
			f.holders["a"].o.Failsafe = time.Nanosecond // the machine may have booted a minute ago, and 0 is when it booted
		}, "its last renewal is more than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, time.Minute)
			c.before(f)
			if longer, err := f.goOn(); longer != 0 || err == nil || !strings.Contains(err.Error(), c.why) || !errors.Is(err, errAway) {
				t.Errorf("longer by %s: %v; want %s", longer, err, c.why)
			}
		})
	}
}

// The loops of the agent stop such a writer before the end of its lease.
func TestAWriterThatIsNotConfirmedStopsInTime(t *testing.T) {
	f := newFixture(t, 2*time.Second)
	f.gone["c"] = true
	a := f.holders["a"]
	end := a.deadline + a.margin() // of the lease
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { a.Run(ctx) })
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		if _, on := a.Writing(); !on {
			break
		}
		if <-every.C; host.SinceBoot() > end {
			t.Error("it writes longer than its lease")
			break
		}
	}
	cancel()
	loops.Wait()
	if why := fmt.Sprint(f.fault); !strings.Contains(why, "c@node-c does not answer") {
		t.Errorf("it says %s", why)
	}
}

// Without a node, without a limit, or with a member whose node is not known, it stops as before,
// and its lease makes nobody wait longer.
func TestAWriterThatCannotGoOnRecordsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *fixture)
		want   string
	}{
		"its node is not known": {func(f *fixture) { f.holders["a"].o.Node = "" }, ""},
		"it is turned off":      {func(f *fixture) { f.holders["a"].o.Failsafe = 0 }, "a@node-a"},
		"the node of a member is not known": {func(f *fixture) {
			f.peers = []Peer{{Name: "a", Node: "node-a"}, {Name: "b"}, {Name: "c", Node: "node-c"}}
		}, "a@node-a"},
		"it is no member": {func(f *fixture) { f.names = []string{"b", "c"} }, "a@node-a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, time.Minute)
			f.record.away, f.record.Lease = false, Lease{}
			c.before(f)
			if err := f.holders["a"].Acquire(t.Context(), 1); err != nil {
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
