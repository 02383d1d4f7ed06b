package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Simulation is everything below the operator. All methods may be called from several goroutines.
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
	quota    int // instances for which there is room; 0: any number
}

type node struct {
	port.Node
	lostAt time.Time // zero: it answers
}

// cluster is what there is of one cluster.
type cluster struct {
	ref       port.Ref
	volume    volume
	instances map[string]*instance
	names     map[string]bool // all that were ever given
	manager   manager
	strict    bool
	members   []string // as the agents were told last
	waits     []string // of them: one must have a commit before it is answered
	acked     uint64   // bytes of log that clients were told are safe
	split     bool     // two writers by order of the test
}

type volume struct {
	port.Volume
	at     time.Time // when the state comes to its end
	file   int64     // size of the file system
	data   bool      // there is a database on it
	cloned bool
	full   bool
	broken string
	lostAt time.Time // when the record of it was deleted; zero: it is there
}

type instance struct {
	port.Instance
	upAt   time.Time // of Pending
	goneAt time.Time // of Leaving
	killed bool      // the place does not run until Ensure
	lives  int       // how often it was made anew
	engine engine
}

// engine is the database inside an instance. Its position is that of its log
// at `at`; a writer's log grows by a byte a microsecond of being written to.
type engine struct {
	installed   bool
	installAt   time.Time
	installKey  string
	source      string
	running     bool
	startAt     time.Time // when it is ready
	started     time.Time
	role        port.Role
	promoteAt   time.Time
	stopped     bool // it was told to stop, and stays so
	clean       bool
	position    uint64
	streamSince time.Time
	lag         int64 // held behind by order of the test
	upstream    string
	upstreamAt  string // its address, as it was told
	timeline    int64
	epoch       int64
	params      map[string]string
	pending     map[string]string // values that wait for a restart
	wanted      map[string]string // as they were applied last
	unwilling   string            // why it does not start
	code        string
	message     string
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
	missed  time.Time // since when there is no writer
	sync    []string  // those the writer waits for
	ask     []string  // those of whom one has each answered commit, if safe: longer than sync until one of that has caught up
	safe    bool
	of      int64                // the epoch whose writer was seen with them; 0: none was
	seen    map[string]time.Time // when each reader streamed last
	code    string
	message string
	writer  string
	epoch   int64
}

// New makes a world.
func New(o Options) *Simulation {
	o.fill()
	w := &Simulation{o: o, nodes: map[string]*node{}, clusters: map[string]*cluster{}, hung: map[string]bool{}}
	for _, n := range o.Nodes {
		w.nodes[n.Name] = &node{Node: n}
	}
	w.Inject(o.Script...)
	return w
}

// Ports are the four ports of the world.
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

// Calls are the calls so far, oldest first, as far as Options.Log keeps them.
func (w *Simulation) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// ClearLog forgets the calls.
func (w *Simulation) ClearLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
}

// Violations is what must never be, and was.
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

// check looks for what must never be, after a call.
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

// cut reports an instance whose node does not answer.
func (w *Simulation) cut(i *instance) bool {
	n := w.nodes[i.Node]
	return n != nil && !n.lostAt.IsZero()
}

// up reports an instance whose agent answers.
func (w *Simulation) up(i *instance) bool {
	return i != nil && i.State == port.Up && !w.cut(i)
}

// accepts reports an engine that takes writes: a primary under the grant, or
// one that is cut off and believes so for a while.
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

// ready reports an engine that answers SQL, wherever it stands.
func (w *Simulation) ready(i *instance) bool {
	now := w.o.Now()
	return w.up(i) && i.engine.running && !now.Before(i.engine.startAt) && !now.Before(i.engine.promoteAt)
}

// writer is the instance that takes writes and can be asked.
func (w *Simulation) writer(c *cluster) *instance {
	for _, i := range c.sorted() {
		if w.ready(i) && w.accepts(c, i) {
			return i
		}
	}
	return nil
}

// known reports an instance that the manager finds at the address it was told.
func (c *cluster) known(i *instance) bool {
	m, member := c.manager.members[i.Name]
	return member && (m.Address == "" || m.Address == i.Address)
}

// point tells a follower of its source, and where that is.
func (c *cluster) point(i *instance, to string, since time.Time) {
	e, address := &i.engine, ""
	if up := c.instances[to]; up != nil {
		address = up.Address
	}
	if e.upstream != to || e.upstreamAt != address {
		e.upstream, e.upstreamAt, e.streamSince = to, address, since
	}
}

// streams reports a follower whose source is a writer at work.
func (w *Simulation) streams(c *cluster, i *instance) bool {
	up := c.instances[i.engine.upstream]
	return w.ready(i) && i.engine.role == port.Follower && up != nil && i.engine.upstreamAt == up.Address && w.ready(up) && up.engine.role == port.Primary && w.accepts(c, up)
}

// lagOf is how far a follower is behind what it has received, -1 if that is not known.
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
