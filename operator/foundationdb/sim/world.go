// Package sim is a simulated Kubernetes beside the simulated database of fdb/sim, on one virtual clock and made
// from one seed.
//
//	w := sim.New(sim.Options{Seed: 1, Nodes: 12, Zones: 3})
//	operator := w.As("operator")           // its Objects, Database and Sidecars
//	operator.Objects.Create(ctx, cluster)  // …, a config map, claims, pods
//	w.Advance(10 * time.Second)            // pods are scheduled, launchers start servers
//	status, err := operator.Database.Status(ctx, at, port.Short)
//
//	                 ┌ API server ── scheduler ── kubelet ── launcher, or sidecar and fdbmonitor ┐
//	As ── Objects ───┘                                                   fdbserver ──────────────┤
//	      Database ──── fdbcli, fdbbackup, fdbrestore ──────────────────────────────── fdb/sim ──┘
//	      Sidecars ──── sidecar
//
// The pods' programs read what a pod mounts as the real programs do, by code of their own, so that an operator is
// not checked by itself. What they take as fact comes from foundationdb 7.3.69: fdbkubernetesmonitor/,
// packaging/docker/sidecar.py and fdbmonitor/fdbmonitor.cpp.
//
// Faults are injected by Inject, hooks around every effect are set by Before and After, and the invariants of
// fdb/sim judge what each instance of the operator does. Nothing here reads a clock or starts a goroutine. A World
// is for one goroutine.
package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Operator is the instance of the operator whose ports World has itself.
const Operator = "operator"

// Options say how large a world is and how long its parts take. Zero fields have the default that stands beside
// them.
type Options struct {
	Seed     uint64
	Nodes    int            // 20
	Zones    int            // over which the nodes are spread: 3
	Families []int          // of the IPs of each pod, the first is that of podIP: 4
	Tools    []string       // lines of versions that there are tools for: 7.1, 7.3 and 7.4
	Database fdbsim.Options // its seed and its exits are set here
	Times    Times
}

// Times are how long the parts of Kubernetes take. Those with a random part take up to half as long again.
type Times struct {
	Schedule time.Duration // from the creation of a pod to its node, random: 1 s
	Bind     time.Duration // of a claim, from the moment a pod with a node wants it: 1 s
	Boot     time.Duration // from its node to the start of its containers, random: 2 s
	Image    time.Duration // from a changed image to the restart of its container, random: 2 s
	Stop     time.Duration // from the end of a pod's programs to the end of the pod: 2 s
	Sync     time.Duration // from a changed config map to the files of a pod, random: 60 s
	Nudge    time.Duration // from a changed annotation of a pod to its files: 1 s
	Restart  time.Duration // from the end of a server to its next start: 1 s
	Watch    time.Duration // how often a launcher looks at the cluster file: 5 s
	NodeLost time.Duration // from the loss of a node to its condition: 40 s
	Evict    time.Duration // from that condition to the eviction of its pods: 5 min
	Collect  time.Duration // until what has no owner any more is deleted: 1 s
}

func (o Options) withDefaults() Options {
	or(&o.Nodes, 20)
	or(&o.Zones, 3)
	if len(o.Families) == 0 {
		o.Families = []int{4}
	}
	if len(o.Tools) == 0 {
		o.Tools = []string{"7.1", "7.3", "7.4"}
	}
	t := &o.Times
	or(&t.Schedule, time.Second)
	or(&t.Bind, time.Second)
	or(&t.Boot, 2*time.Second)
	or(&t.Image, 2*time.Second)
	or(&t.Stop, 2*time.Second)
	or(&t.Sync, time.Minute)
	or(&t.Nudge, time.Second)
	or(&t.Restart, time.Second)
	or(&t.Watch, 5*time.Second)
	or(&t.NodeLost, 40*time.Second)
	or(&t.Evict, 5*time.Minute)
	or(&t.Collect, time.Second)
	return o
}

func or[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// World is a simulated Kubernetes with a database.
type World struct {
	options  Options
	database *fdbsim.Cluster
	random   *rand.Rand
	store    *store
	events   []Event
	watchers []func(before, now port.Object)

	// Its parts, each with its own state. What the embedded ones export is what a World can do.
	nodes
	kubelet
	claims
	deployments
	hooks
	faults
	schemas
	scheduler scheduler
	network   network
}

// Instance is the ports of one instance of the operator. What it does is judged as its doing.
type Instance struct {
	Owner    string
	Objects  port.Objects
	Database port.Database
	Sidecars port.Sidecars
}

// New returns a world with nodes and nothing else.
func New(o Options) *World {
	o = o.withDefaults()
	w := &World{options: o, random: rand.New(rand.NewPCG(o.Seed, ^o.Seed))} //nolint:gosec // a seed repeats a run
	w.nodes = nodes{w: w, of: map[string]*node{}}
	w.scheduler = scheduler{w: w, spread: map[spreadKey]map[string]int{}, waiting: map[types.UID]*pod{}}
	w.kubelet = kubelet{w: w, pods: map[types.UID]*pod{}, servers: map[string]*server{}, mounters: map[name]map[types.UID]*pod{}}
	w.claims = claims{w: w, users: map[name]map[types.UID]bool{}, binding: map[types.UID]bool{}, deleters: map[types.UID]string{}, folders: map[types.UID]map[string]bool{}}
	w.deployments = deployments{w: w, backing: map[types.UID]*pod{}}
	w.schemas = schemas{specs: map[types.UID]any{}}
	w.hooks = hooks{w: w, calls: map[Call]int{}, dead: map[string]bool{}}
	w.faults = faults{w: w}
	w.network = network{w: w}
	o.Database.Seed = o.Seed
	o.Database.Exits = w.kubelet.exits
	o.Database.Resolves = w.network.leads
	w.database = fdbsim.New(o.Database)
	w.store = newStore(w)
	for n := range o.Nodes {
		w.nodes.add(n)
	}
	w.kubelet.watchFiles()
	return w
}

// Cluster is the database.
func (w *World) Cluster() *fdbsim.Cluster { return w.database }

// Now returns the time of the world.
func (w *World) Now() time.Time { return w.database.Now() }

// Advance lets time pass: everything that is due until then happens, in order.
func (w *World) Advance(d time.Duration) { w.database.Advance(d) }

// Until lets time pass until something is so, a second at a time and at most for a while. It reports whether it is.
func (w *World) Until(atMost time.Duration, so func() bool) bool {
	for end := w.Now().Add(atMost); !so(); w.Advance(time.Second) {
		if !w.Now().Before(end) {
			return false
		}
	}
	return true
}

// As returns the ports for an instance of the operator. The empty owner is a person: what it does is an accident,
// and no hook is called.
func (w *World) As(owner string) Instance {
	return Instance{Owner: owner, Objects: &objects{w, owner}, Database: &tools{w, owner}, Sidecars: &sidecars{w, owner}}
}

// Objects returns the objects as the instance Operator sees them.
func (w *World) Objects() port.Objects { return w.As(Operator).Objects }

// Database returns the database as the instance Operator sees it.
func (w *World) Database() port.Database { return w.As(Operator).Database }

// Sidecars returns the sidecars as the instance Operator sees them.
func (w *World) Sidecars() port.Sidecars { return w.As(Operator).Sidecars }

// Transcript returns what has happened, in Kubernetes and in the database, a line an event, for people.
func (w *World) Transcript() []string { return w.database.Transcript() }

// after has something happen after some time.
func (w *World) after(d time.Duration, do func()) { w.database.After(d, do) }

// around returns a time up to half as long again.
func (w *World) around(d time.Duration) time.Duration {
	return d + time.Duration(w.random.Int64N(int64(d)/2+1))
}

// word returns random characters as Kubernetes adds them to names.
func (w *World) word(length int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	text := make([]byte, length)
	for i := range text {
		text[i] = alphabet[w.random.IntN(len(alphabet))]
	}
	return string(text)
}

// sorted returns the keys of pods in the order of their names, so that a seed repeats a run.
func sorted(pods map[types.UID]*pod) []*pod {
	return slices.SortedFunc(maps.Values(pods), func(a, b *pod) int { return a.name.compare(b.name) })
}
