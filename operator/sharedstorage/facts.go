package sharedstorage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

type faultCode = fault.Code

// authority returns the authorities of the certificates of the instances; nil: they have none.
func (f *Facts) authority() []byte {
	if f.certificate == nil {
		return nil
	}
	return f.certificate.authority
}

// Keys of Facts.Unknown.
const (
	factInstances = "instances"
	factManager   = "manager"
	factVolume    = "volume"
	factClasses   = "classes"
	factNodes     = "nodes"
	factEngine    = "engine/"

	factRepository = "repository"
	factPoolers    = "poolers"
)

// observe asks all ports once. Each call has Options.CallTimeout; what does not answer is in
// Unknown.
func (o *Operator) observe(ctx context.Context, c *Cluster) *Facts {
	f := &Facts{At: o.now(), Engines: map[string]port.Status{}, Unknown: map[string]error{}}
	var mu sync.Mutex
	var asking sync.WaitGroup
	ask := func(what string, question func(ctx context.Context) error) {
		limit := o.options.CallTimeout
		if what == factManager || strings.HasPrefix(what, factEngine) {
			limit = min(limit, answerLimit)
		}
		asking.Go(func() {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if err := port.Guard(func() error { return question(limited) }); err != nil {
				mu.Lock()
				f.Unknown[what] = err
				mu.Unlock()
			}
		})
	}
	ports, ref := o.options.Ports, c.Ref
	ask(factManager, func(ctx context.Context) (err error) { f.Topology, err = ports.Manager.Topology(ctx, ref); return })
	ask(factVolume, func(ctx context.Context) (err error) { f.Volume, err = ports.Storage.Observe(ctx, ref); return })
	ask(factClasses, func(ctx context.Context) (err error) {
		f.Classes, err = o.stores[c.Kind].Classes(ctx, ref.Namespace)
		return
	})
	ask(factInstances, func(ctx context.Context) (err error) {
		f.Instances, err = ports.Instances.List(ctx, ref)
		return
	})
	if c.Spec.Backup != nil {
		ask(factRepository, func(ctx context.Context) (err error) {
			if err := o.checkArchive(ctx, c); err != nil {
				return err
			}
			f.Repository, err = o.Repository(ctx, c)
			return
		})
	}
	if ports.Pooler != nil && (c.Spec.Pooler != nil || len(c.Status.Poolers) > 0) {
		ask(factPoolers, func(ctx context.Context) (err error) { f.Poolers, err = ports.Pooler.Observe(ctx, ref); return })
	}
	asking.Wait()
	turn := make(chan struct{}, o.options.ParallelCalls)
	if f.oneNode() {
		ask(factNodes, func(ctx context.Context) (err error) {
			f.Nodes, err = ports.Instances.Nodes(ctx, ref)
			return
		})
	}
	for _, i := range f.Instances {
		if i.State != port.Up {
			continue
		}
		ask(factEngine+i.Name, func(ctx context.Context) error {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			status, err := ports.Engine.Status(ctx, ref.Of(i.Name))
			if err == nil {
				mu.Lock()
				f.Engines[i.Name] = status
				mu.Unlock()
			}
			return err
		})
	}
	asking.Wait()
	return f
}

// answerLimit is how long an agent or a cluster manager may take for its status: one that is frozen
// must be known for it well within the lease of a writer.
const answerLimit = 3 * time.Second

// known reports whether the port answered.
func (f *Facts) known(what string) bool { return f != nil && f.Unknown[what] == nil }

// named returns the instance of this name, or nil.
func (f *Facts) named(name string) *port.Instance {
	for i := range f.Instances {
		if f.Instances[i].Name == name && f.Instances[i].State != port.Leaving {
			return &f.Instances[i]
		}
	}
	return nil
}

// holders returns the instances that hold a place, without those that are leaving.
func (f *Facts) holders(id string) []*port.Instance {
	var found []*port.Instance
	for i := range f.Instances {
		if f.Instances[i].ID == id && f.Instances[i].State != port.Leaving {
			found = append(found, &f.Instances[i])
		}
	}
	return found
}

// primaries returns the instances whose engine runs as a writer, the newest epoch first.
func (f *Facts) primaries() []*port.Instance {
	var found []*port.Instance
	for i := range f.Instances {
		if st := f.Engines[f.Instances[i].Name]; st.Running && st.Role == port.Primary && f.Instances[i].State != port.Leaving {
			found = append(found, &f.Instances[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *port.Instance) int {
		return int(f.Engines[b.Name].Epoch - f.Engines[a.Name].Epoch)
	})
	return found
}

// splitBrain returns the fault TWO_WRITERS if two engines accept writes, otherwise nil.
func (f *Facts) splitBrain() error {
	many := f.primaries()
	if len(many) < 2 {
		return nil
	}
	return port.TwoWriters.Errorf("%s accepts writes under epoch %d, and %s under epoch %d", many[0].Name, f.Engines[many[0].Name].Epoch, many[1].Name, f.Engines[many[1].Name].Epoch)
}

// writer returns the instance that accepts writes and answers, or nil.
func (f *Facts) writer() *port.Instance {
	for _, i := range f.primaries() {
		if f.Engines[i.Name].Ready {
			return i
		}
	}
	return nil
}

// leader returns the writer, or without one the instance that had the grant last.
func (f *Facts) leader() *port.Instance {
	if i := f.writer(); i != nil {
		return i
	}
	if i := f.named(f.Volume.Writer); i != nil && f.Volume.Writer != "" {
		return i
	}
	for i := range f.Instances {
		if f.Instances[i].Type == port.Writer && f.Instances[i].State != port.Leaving {
			return &f.Instances[i]
		}
	}
	return nil
}

// readers returns the instances in the places of readers, one for each place, in the order of
// their ids.
func (f *Facts) readers() []*port.Instance {
	leader := f.leader()
	places := map[string]*port.Instance{}
	for i := range f.Instances {
		in := &f.Instances[i]
		if in.State == port.Leaving || in.Type == port.Temporary || leader != nil && (in.Name == leader.Name || in.ID == leader.ID) {
			continue
		}
		if other := places[in.ID]; other == nil || f.preferred(in, other) {
			places[in.ID] = in
		}
	}
	found := slices.Collect(maps.Values(places))
	slices.SortFunc(found, func(a, b *port.Instance) int { return compareIDs(a.ID, b.ID) })
	return found
}

// preferred reports whether a, rather than b, represents the place that both hold: first the one
// that clients are sent to, then the healthy one.
func (f *Facts) preferred(a, b *port.Instance) bool {
	if x, y := f.member(a.Name) != nil, f.member(b.Name) != nil; x != y {
		return x
	}
	if x, y := f.healthy(a), f.healthy(b); x != y {
		return x
	}
	return a.Name < b.Name
}

func (f *Facts) member(name string) *port.Member {
	for i := range f.Topology.Members {
		if f.Topology.Members[i].Name == name {
			return &f.Topology.Members[i]
		}
	}
	return nil
}

// temporaries returns the instances that hold no place.
func (f *Facts) temporaries() []*port.Instance {
	var found []*port.Instance
	for i := range f.Instances {
		if f.Instances[i].Type == port.Temporary && f.Instances[i].State != port.Leaving {
			found = append(found, &f.Instances[i])
		}
	}
	return found
}

// managerFault returns why the cluster manager does not fail over. It is DATA_LOST rather than
// FAILOVER_UNSAFE when neither the writer nor any reader with the newest rows exists any more.
func (f *Facts) managerFault() (code, message string) {
	t := f.Topology
	if faultCode(t.Code) != port.FailoverUnsafe.Code || len(t.Sync) == 0 || !f.known(factInstances) || !f.known(factVolume) || f.Volume.Writer == "" {
		return t.Code, t.Message
	}
	for _, name := range append([]string{f.Volume.Writer}, t.Sync...) {
		if f.named(name) != nil {
			return t.Code, t.Message
		}
	}
	return string(port.DataLost.Code), t.Message
}

// epoch returns the newest epoch that any port has reported.
func (f *Facts) epoch() int64 {
	newest := max(f.Volume.Epoch, f.Topology.Epoch)
	for _, st := range f.Engines {
		newest = max(newest, st.Epoch)
	}
	return newest
}

// Health is the state of health of an instance.
type Health string

// The values of Health.
const (
	Healthy  Health = "Healthy"
	Starting Health = "Starting"
	Failed   Health = "Failed"
	Unknown  Health = "Unknown"
	Stopped  Health = "Stopped" // it is kept from running, because the cluster is hibernated
)

func (f *Facts) healthy(i *port.Instance) bool {
	health, _ := f.health(i)
	return health == Healthy
}

// health judges an instance and says why.
func (f *Facts) health(i *port.Instance) (Health, string) {
	switch i.State {
	case port.Pending:
		return Starting, "the instance is being made"
	case port.Unscheduled:
		return Failed, cmp.Or(i.Message, "no node takes it")
	case port.Down:
		return Failed, cmp.Or(i.Message, "the instance does not run")
	case port.Lost:
		return Failed, cmp.Or(i.Message, "its node does not answer")
	case port.Suspended:
		return Stopped, "the cluster is hibernated"
	}
	st, asked := f.Engines[i.Name]
	switch {
	case !asked:
		return Unknown, "the engine cannot be asked"
	case st.Code != "":
		return Failed, st.Code + ": " + st.Message
	case !st.Installed:
		return Starting, "it has no data yet"
	case !st.Running:
		return Failed, cmp.Or(st.Message, "the engine does not run")
	case !st.Ready:
		return Starting, "the engine starts"
	case st.Role == port.Follower && !st.Streaming && f.writer() == nil:
		return Starting, "there is no writer to follow"
	case st.Role == port.Follower && (!st.Streaming || !f.streamedTo(i)):
		return Failed, "it does not stream from the writer"
	}
	return Healthy, ""
}

// streamedTo reports whether the writer says that it streams to an instance, or says nothing.
func (f *Facts) streamedTo(i *port.Instance) bool {
	writer := f.writer()
	if writer == nil || writer.Name == i.Name {
		return true
	}
	followers := f.Engines[writer.Name].Followers
	return followers == nil || slices.Contains(followers, i.Name)
}

// compareIDs orders places: numbers by value, then everything else.
func compareIDs(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return x - y
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
