package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Simulation simulates all ports. Its methods are safe for concurrent use.
type Simulation struct {
	o  Options
	mu sync.Mutex

	nodes    map[string]*node
	clusters map[string]*cluster
	rules    []*rule
	hung     map[string]bool
	seq      int64
	calls    []Call
	wrong    []string
	quota    int             // number of instances for which there is room; 0: no limit
	refused  map[string]bool // classes that no node takes
}

type node struct {
	port.Node
	lostAt time.Time // zero: it answers
}

// cluster is the state of one cluster.
type cluster struct {
	ref       port.Ref
	volume    volume
	instances map[string]*instance
	names     map[string]bool // all names that were ever used
	manager   manager
	strict    bool
	members   []string // the list that the agents know
	waits     []string // the part of members of which one must have a commit before it is answered
	acked     uint64   // bytes of log whose commits clients know as safe
	split     bool     // the test ordered two writers
}

type volume struct {
	port.Volume
	at     time.Time // when the state ends
	file   int64     // size of the file system
	data   bool      // it has a database
	cloned bool
	full   bool
	broken string
	lostAt time.Time // when its record was deleted; zero: the record exists
}

type instance struct {
	port.Instance
	upAt    time.Time // end of Pending
	goneAt  time.Time // end of Leaving
	killed  bool      // the instance does not run until Ensure
	ended   bool      // by Suspend: until Ensure or Recreate
	endAt   time.Time // end of the pod of one that Suspend ends
	created int       // how often it was created
	engine  engine
}

// engine is the database inside an instance. Its position is that of its log at the time `at`; the
// log of a writer grows by a byte per microsecond.
type engine struct {
	installed    bool
	installAt    time.Time
	installKey   string
	source       string
	running      bool
	startAt      time.Time // when it is ready
	started      time.Time
	role         port.Role
	promoteAt    time.Time
	stopped      bool // it was ordered to stop, and stays stopped
	clean        bool
	position     uint64
	streamSince  time.Time
	lag          int64 // lag that the test ordered
	upstream     string
	upstreamAt   string // address of the upstream, as it was told
	timeline     int64
	epoch        int64
	params       map[string]string
	pending      map[string]string // values that need a restart
	wanted       map[string]string // as they were last applied
	startFailure string            // why it does not start
	code         string
	message      string
}

type manager struct {
	present bool
	readyAt time.Time
	broken  bool // it runs and does not answer
	node    string
	spec    port.ManagerSpec
	ha      bool
	until   time.Time
	members map[string]port.Member
	missed  time.Time // since when the writer is missing
	sync    []string  // the readers for which the writer waits
	ask     []string  // the readers of which one has each answered commit, if safe; longer than sync until one of sync has caught up
	safe    bool
	of      int64                // the epoch whose writer used this list; 0: none yet
	seen    map[string]time.Time // when each reader last streamed
	code    string
	message string
	writer  string
	epoch   int64
}

// New returns a simulation.
func New(o Options) *Simulation {
	o.fill()
	w := &Simulation{o: o, nodes: map[string]*node{}, clusters: map[string]*cluster{}, hung: map[string]bool{}, refused: map[string]bool{}}
	for _, n := range o.Nodes {
		w.nodes[n.Name] = &node{Node: n}
	}
	w.Inject(o.Script...)
	return w
}

// Ports returns the four ports of the simulation.
func (w *Simulation) Ports() port.Ports {
	return port.Ports{Storage: storage{w}, Instances: instances{w}, Engine: engines{w}, Manager: managers{w}}
}

func (w *Simulation) cluster(ref port.Ref) *cluster {
	key := ref.Namespace + "/" + ref.Name
	c := w.clusters[key]
	if c == nil {
		c = &cluster{ref: ref.Cluster(), instances: map[string]*instance{}, names: map[string]bool{}, manager: manager{members: map[string]port.Member{}}}
		w.clusters[key] = c
	}
	return c
}

// Calls returns the calls so far, oldest first, as many as Options.Log keeps.
func (w *Simulation) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// ClearLog clears the log of calls.
func (w *Simulation) ClearLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
}

// Violations returns what happened and must never happen.
func (w *Simulation) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong)
}

func (w *Simulation) violation(c *cluster, format string, args ...any) {
	text := c.ref.String() + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(w.wrong, text) {
		w.wrong = append(w.wrong, text)
	}
}

// check looks for violations after a call.
func (w *Simulation) check(c *cluster, call Call) {
	if c.split {
		return
	}
	var writing []string
	for _, i := range c.sorted() {
		if w.accepts(c, i) {
			writing = append(writing, i.Name)
		}
	}
	if len(writing) > 1 {
		w.violation(c, "%s accept writes at once, after %s", strings.Join(writing, " and "), call)
	}
}

func (c *cluster) sorted() []*instance {
	all := make([]*instance, 0, len(c.instances))
	for _, i := range c.instances {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *instance) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// cut reports whether the node of an instance does not answer.
func (w *Simulation) cut(i *instance) bool {
	n := w.nodes[i.Node]
	return n != nil && !n.lostAt.IsZero()
}

// up reports whether the agent of an instance answers.
func (w *Simulation) up(i *instance) bool {
	return i != nil && i.State == port.Up && !w.cut(i)
}

// accepts reports whether an engine accepts writes: it is a primary under the grant, or it is cut
// off and does not know for a while that it lost the grant.
func (w *Simulation) accepts(c *cluster, i *instance) bool {
	e := &i.engine
	now := w.o.Now()
	if !e.running || e.role != port.Primary || now.Before(e.startAt) || now.Before(e.promoteAt) || c.volume.full || i.State == port.Leaving || i.killed {
		return false
	}
	if c.split {
		return true
	}
	if w.cut(i) {
		return now.Before(w.nodes[i.Node].lostAt.Add(w.o.Grant)) && e.epoch > 0
	}
	return c.volume.Writer == i.Name && c.volume.Epoch == e.epoch && (c.volume.lostAt.IsZero() || now.Before(c.volume.lostAt.Add(w.o.Grant)))
}

// ready reports whether an engine answers SQL, on whatever node.
func (w *Simulation) ready(i *instance) bool {
	now := w.o.Now()
	return w.up(i) && i.engine.running && !now.Before(i.engine.startAt) && !now.Before(i.engine.promoteAt)
}

// writer returns the instance that accepts writes and can be called.
func (w *Simulation) writer(c *cluster) *instance {
	for _, i := range c.sorted() {
		if w.ready(i) && w.accepts(c, i) {
			return i
		}
	}
	return nil
}

// known reports whether an instance is at the address that the manager was told.
func (c *cluster) known(i *instance) bool {
	m, member := c.manager.members[i.Name]
	return member && (m.Address == "" || m.Address == i.Address)
}

// point tells a follower its source and the source's address.
func (c *cluster) point(i *instance, to string, since time.Time) {
	e, address := &i.engine, ""
	if up := c.instances[to]; up != nil {
		address = up.Address
	}
	if e.upstream != to || e.upstreamAt != address {
		e.upstream, e.upstreamAt, e.streamSince = to, address, since
	}
}

// streams reports whether the source of a follower is a running writer.
func (w *Simulation) streams(c *cluster, i *instance) bool {
	up := c.instances[i.engine.upstream]
	return w.ready(i) && i.engine.role == port.Follower && up != nil && i.engine.upstreamAt == up.Address && w.ready(up) && up.engine.role == port.Primary && w.accepts(c, up)
}

// lagOf returns how far a follower is behind what it has received; -1 if unknown.
func (w *Simulation) lagOf(c *cluster, i *instance) int64 {
	if !w.streams(c, i) {
		return -1
	}
	if i.engine.lag > 0 {
		return i.engine.lag
	}
	if left := w.o.Times.CatchUp - w.o.Now().Sub(i.engine.streamSince); left > 0 {
		return int64(left/time.Second) << 20
	}
	return 0
}
