package sim

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Cloud simulates the infrastructure. It embeds the client of Options.Installation. All
// methods are safe for concurrent use.
type Cloud struct {
	*Client
	o Options

	mu         sync.Mutex
	seq        int64
	resources  map[string]*resource // by id
	byName     map[name]*resource
	byKey      map[wantKey]*resource
	byKind     map[cluster.Kind]*index
	byInst     map[string]*index // by installation and kind
	byCluster  map[string]*index
	byNetwork  map[string]*index
	configs    map[configKey]configText // configurations that control nodes have reported
	names      map[name]int             // how often each name has been used
	jobs       map[string]*job
	byCall     map[string]*job
	due        queue // jobs that end
	heartbeats queue // heartbeats that are due
	used       map[string]*usage
	addresses  int // public addresses assigned so far
	networks   int
	hosts      int // addresses assigned so far to VMs without a network
	byIP       map[string]*resource

	rules       []*rule
	unreachable bool
	refused     bool
	calls       boundedLog[Entry]
	mutations   boundedLog[Mutation]
	wake        context.CancelFunc // ends Serve's sleep
	sleepsUntil time.Time          // Serve sleeps until then
	file        *file
}

var _ cluster.Provider = (*Cloud)(nil)

// New creates a cloud, or loads it from Options.File.
func New(o Options) (*Cloud, error) {
	o.fill()
	c := &Cloud{
		o: o, resources: map[string]*resource{}, byName: map[name]*resource{}, byKey: map[wantKey]*resource{}, byKind: map[cluster.Kind]*index{},
		byInst: map[string]*index{}, byCluster: map[string]*index{}, byNetwork: map[string]*index{}, names: map[name]int{},
		jobs: map[string]*job{}, byCall: map[string]*job{}, used: map[string]*usage{}, byIP: map[string]*resource{},
		calls: boundedLog[Entry]{limit: o.Log}, mutations: boundedLog[Mutation]{limit: o.Log},
	}
	c.Client = c.As(o.Installation)
	c.Inject(o.Script...)
	if o.File != "" {
		if err := c.load(o.File); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// As returns a client of another installation. List returns that installation's resources
// by default; the empty installation lists everything.
func (c *Cloud) As(installation string) *Client { return &Client{c, installation} }

// Close closes Options.File. The cloud must not be used afterwards.
func (c *Cloud) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	return c.file.close()
}

// addToIndexes adds a resource to every index.
func (c *Cloud) addToIndexes(t *resource) {
	c.resources[t.ID] = t
	c.byName[t.name()] = t
	if t.WantKey != (wantKey{}) {
		c.byKey[t.WantKey] = t
	}
	indexFor(c.byKind, t.Kind).add(t)
	c.addToTagIndexes(t)
	if t.Spec.Network != "" {
		indexFor(c.byNetwork, t.Spec.Network).add(t)
	}
	if t.Address != "" {
		c.byIP[t.Address] = t
	}
	c.addUsage(t, 1)
}

func (c *Cloud) addToTagIndexes(t *resource) {
	if t.Installation != "" {
		indexFor(c.byInst, t.Installation+"/"+string(t.Kind)).add(t)
	}
	if t.Cluster != "" {
		indexFor(c.byCluster, t.Cluster).add(t)
	}
}

func (c *Cloud) removeFromTagIndexes(t *resource, was *resource) {
	if was.Installation != "" && (t.gone || t.Installation != was.Installation) {
		removeFromIndex(c.byInst, was.Installation+"/"+string(t.Kind), func(x *resource) bool { return !x.gone && x.Installation == was.Installation })
	}
	if was.Cluster != "" && (t.gone || t.Cluster != was.Cluster) {
		removeFromIndex(c.byCluster, was.Cluster, func(x *resource) bool { return !x.gone && x.Cluster == was.Cluster })
	}
}

// remove deletes a resource and the resources that depend on it.
func (c *Cloud) remove(t *resource, by string) {
	if t.gone {
		return
	}
	t.gone = true
	delete(c.resources, t.ID)
	if c.byName[t.name()] == t {
		delete(c.byName, t.name())
	}
	if c.byKey[t.WantKey] == t {
		delete(c.byKey, t.WantKey)
	}
	if c.byIP[t.Address] == t {
		delete(c.byIP, t.Address)
	}
	removeFromIndex(c.byKind, t.Kind, isAlive)
	c.removeFromTagIndexes(t, t)
	if t.Spec.Network != "" {
		removeFromIndex(c.byNetwork, t.Spec.Network, isAlive)
	}
	c.addUsage(t, -1)
	c.recordMutation(Destroyed, by, t)
	c.persistRemoval(t)
	for _, other := range c.inNetwork(t) {
		switch {
		case t.Kind == cluster.VM && other.Kind == cluster.Balancer && slices.Contains(other.Spec.VMs, t.ID):
			other.Spec.VMs = without(other.Spec.VMs, t.ID)
			c.persist(other)
		case t.Kind == cluster.VM && other.Kind == cluster.Forward && other.Spec.VM == t.ID,
			t.Kind == cluster.Address && other.Spec.Address == t.ID,
			t.Kind == cluster.Network && other.Kind != cluster.VM:
			c.remove(other, by)
		}
	}
}

func isAlive(t *resource) bool { return !t.gone }

// inNetwork returns the resources of a network, or the other resources in the network of
// t.
func (c *Cloud) inNetwork(t *resource) []*resource {
	network := t.Spec.Network
	if t.Kind == cluster.Network {
		network = t.ID
	}
	x, ok := c.byNetwork[network]
	if !ok {
		return nil
	}
	var all []*resource
	for _, other := range x.items {
		if !other.gone && other != t {
			all = append(all, other)
		}
	}
	return all
}

func without(all []string, one string) []string {
	var rest []string
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

func indexFor[K comparable](m map[K]*index, key K) *index {
	x, ok := m[key]
	if !ok {
		x = &index{}
		m[key] = x
	}
	return x
}

func removeFromIndex[K comparable](m map[K]*index, key K, belongs func(*resource) bool) {
	x, ok := m[key]
	if !ok {
		return
	}
	if x.removed(belongs); len(x.items) == x.removedCount {
		delete(m, key)
	}
}

// An event is the end of a job or the heartbeat of a node.
type event struct {
	at   time.Time
	seq  int64
	id   string
	boot int64 // of a heartbeat: the VM start that it belongs to
}

type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

func (c *Cloud) next() int64 {
	c.seq++
	return c.seq
}

// settle ends the jobs that are over. Every call begins with it.
func (c *Cloud) settle(now time.Time) {
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		e := heap.Pop(&c.due).(event)
		if j, ok := c.jobs[e.id]; ok {
			c.end(j, e.at)
		}
	}
}

// Unreachable cuts off all clients, or connects them again.
func (c *Cloud) Unreachable(off bool) { c.mutate(func(time.Time) { c.unreachable = off }) }

// RefuseCredentials makes the credentials of all clients invalid, or valid again.
func (c *Cloud) RefuseCredentials(off bool) { c.mutate(func(time.Time) { c.refused = off }) }

// Outage returns the values that Unreachable and RefuseCredentials have set.
func (c *Cloud) Outage() (unreachable, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreachable, c.refused
}

// mutate changes the cloud without a client call.
func (c *Cloud) mutate(change func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	c.settle(now)
	change(now)
	if err := c.flush(); err != nil {
		panic(err) // the file was writable a moment ago, and the exported methods return no error
	}
	c.wakeServe()
}

// wakeServe ends Serve's sleep if an event is due before the sleep ends.
func (c *Cloud) wakeServe() {
	if next := c.nextDue(); c.wake != nil && !next.IsZero() && next.Before(c.sleepsUntil) {
		c.wake()
	}
}

// nextDue returns the time of the next event; zero if there is none.
func (c *Cloud) nextDue() time.Time {
	var next time.Time
	if len(c.due) > 0 {
		next = c.due[0].at
	}
	if len(c.heartbeats) > 0 && (next.IsZero() || c.heartbeats[0].at.Before(next)) {
		next = c.heartbeats[0].at
	}
	return next
}

func failure(code fault.Code, text string) error {
	kind, ok := fault.Lookup(string(code))
	if !ok {
		kind = cluster.ProviderRefused
	}
	return kind.Errorf("%s", text)
}
