package records

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// A reading corrects the offset only as far as it proves.
func TestClockReading(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name                   string
		ahead                  time.Duration
		before, shared, behind time.Duration
		want                   time.Duration
	}{
		{"the same clock", 0, 0, time.Second, 2 * time.Second, 0},
		{"the same moment", 0, 0, 0, 0, 0},
		{"a minute ahead, asked in no time", 0, 0, time.Minute, 0, time.Minute},
		{"a minute ahead, asked in ten seconds", 0, 0, time.Minute, 10 * time.Second, 50 * time.Second},
		{"an hour behind", 0, 0, -time.Hour, time.Second, -time.Hour},
		{"what is known already", time.Minute, 0, time.Minute + time.Second, 2 * time.Second, time.Minute},
		{"an answer that took an hour says little", time.Minute, 0, 30 * time.Minute, time.Hour, time.Minute},
		{"somebody has set a clock back", time.Minute, 0, 0, 0, 0},
	} {
		k := clock{ahead: c.ahead}
		k.observe(at.Add(c.before), at.Add(c.shared), at.Add(c.behind))
		if k.ahead != c.want {
			t.Errorf("%s: ahead by %s, want %s", c.name, k.ahead, c.want)
		}
	}
}

// skewedBackend is a lock backend whose clock differs from that of the process.
type skewedBackend struct {
	lock.Memory
	by time.Duration
}

func (m *skewedBackend) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	return m.Memory.Transact(ctx, name, func(now time.Time, old []byte) ([]byte, bool) { return change(now.Add(m.by), old) })
}

func skewedStore(records cluster.Store, by time.Duration) *clockStore {
	c := &clock{local: time.Now}
	return &clockStore{records, clockBackend{&skewedBackend{by: by}, c}, c}
}

// A process that writes and reads times does not see the shared clock.
func TestClockStore(t *testing.T) {
	clustertest.Run(t, func(testing.TB) cluster.Store { return skewedStore(memory.New(), 3*time.Hour) })
}

// A time that one server wrote a minute ago by its own clock is a minute old for
// another server by its own clock.
func TestTimesBetweenServers(t *testing.T) {
	const tolerance = 10 * time.Second // for the duration of the test itself
	records := memory.New()
	fast, slow := skewedStore(records, -time.Hour), skewedStore(records, 20*time.Minute)
	now := time.Now().UTC()
	clockOf := map[*clockStore]time.Time{fast: now.Add(time.Hour), slow: now.Add(-20 * time.Minute)}
	fast.clock.local = func() time.Time { return time.Now().Add(time.Hour) }
	slow.clock.local = func() time.Time { return time.Now().Add(-20 * time.Minute) }
	fast.backend = clockBackend{&skewedBackend{}, fast.clock}
	slow.backend = clockBackend{&skewedBackend{}, slow.clock}

	c := &cluster.Cluster{UUID: "u", Name: "blue", State: cluster.Starting, Desired: cluster.WantRunning, Provider: "sim"}
	row := &cluster.JournalRow{Key: "k", Kind: cluster.VM, Name: "n", Phase: cluster.Intent, IntentAt: clockOf[fast].Add(-time.Minute)}
	node := &cluster.Node{Name: "n", Key: "k", HeartbeatAt: clockOf[fast].Add(-time.Minute)}
	given := row.IntentAt
	if err := fast.Commit(t.Context(), &cluster.Change{Cluster: c, Journal: []*cluster.JournalRow{row}, Nodes: []*cluster.Node{node}}); err != nil {
		t.Fatal(err)
	}
	if !row.IntentAt.Equal(given) {
		t.Errorf("a commit has changed what it was given: %s", row.IntentAt)
	}
	age := func(what string, of *clockStore, at time.Time, want time.Duration) {
		t.Helper()
		if got := clockOf[of].Sub(at); (got - want).Abs() > tolerance {
			t.Errorf("%s is %s old, want %s", what, got, want)
		}
	}
	for _, of := range []*clockStore{fast, slow} {
		b, err := of.Record(t.Context(), "u")
		if err != nil {
			t.Fatal(err)
		}
		age("the intent", of, b.Journal[0].IntentAt, time.Minute)
		age("the heartbeat", of, b.Nodes[0].HeartbeatAt, time.Minute)
		if !b.Journal[0].GoneAt.IsZero() {
			t.Errorf("a time that is not there has become %s", b.Journal[0].GoneAt)
		}
	}
	if err := slow.Heartbeats(t.Context(), []cluster.NodeHeartbeat{{NodeID: node.ID, At: clockOf[slow], Ready: true}}); err != nil {
		t.Fatal(err)
	}
	nodes, err := fast.Nodes(t.Context(), []int64{c.ID})
	if err != nil {
		t.Fatal(err)
	}
	age("the newer heartbeat", fast, nodes[c.ID][0].HeartbeatAt, 0)
	rows, _, err := slow.Rows(t.Context(), cluster.RowQuery{})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	age("the row", slow, rows[0].IntentAt, time.Minute)
}

// As long as the shared clock cannot be read, nothing is read or written.
func TestUnknownTime(t *testing.T) {
	c := &clock{local: time.Now}
	records := &clockStore{memory.New(), clockBackend{silentBackend{}, c}, c}
	if err := records.Commit(t.Context(), &cluster.Change{Cluster: &cluster.Cluster{UUID: "u"}}); fault.Of(err) != runstore.StoreUnavailable {
		t.Errorf("commit: %v", err)
	}
	if _, err := records.Record(t.Context(), "u"); fault.Of(err) != runstore.StoreUnavailable {
		t.Errorf("record: %v", err)
	}
}

type silentBackend struct{ lock.Backend }

func (silentBackend) Transact(context.Context, string, func(time.Time, []byte) ([]byte, bool)) error {
	return runstore.StoreUnavailable.Errorf("no answer")
}
