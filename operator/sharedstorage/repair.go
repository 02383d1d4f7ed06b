package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// repair does what needs no run. Each action is one idempotent call that brings the cluster closer
// to its spec; the next pass repeats it until it has succeeded. While a run works, repair only
// fences a second writer. It reports whether it made a call.
func (o *Operator) repair(ctx context.Context, c *Cluster, p machine.Position, run *runtype.Run) bool {
	t := &repairer{o: o, c: c, f: c.Facts, ctx: ctx}
	t.fence()
	rests := p.State == Running || p.Held && (run == nil || run.Phase == runtype.Paused)
	if !rests || sleeps(p) || p.Ending != nil || !c.DeletedAt.IsZero() {
		return t.acted
	}
	if p.State == Running {
		t.lock(p)
	}
	t.addresses()
	if errors.Is(t.f.Unknown[factVolume], port.GrantLost) {
		t.startNeeded()
	}
	if c.Refused != nil || !t.f.known(factVolume) || t.f.Volume.Writer == "" {
		return t.acted
	}
	t.manager(p)
	t.writer()
	if p.State == Running && t.f.known(factInstances) && t.f.writer() != nil {
		t.removeUnplaced()
		t.types()
		t.members()
		t.archive()
		t.gap()
		t.schedule()
		t.declared()
	}
	t.poolers()
	return t.acted
}

type repairer struct {
	o     *Operator
	c     *Cluster
	f     *Facts
	ctx   context.Context
	acted bool
}

// do makes one call that changes something. The next pass repeats a call that failed.
func (t *repairer) do(what string, call func(ctx context.Context) error) {
	t.acted = true
	_ = t.ask(what, call) // it is logged
}

// ask makes one call that changes nothing.
func (t *repairer) ask(what string, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.options.CallTimeout)
	defer cancel()
	err := port.Guard(func() error { return call(ctx) })
	if err != nil && t.ctx.Err() == nil {
		t.o.options.Logger.Warn("a cluster could not be repaired", "cluster", t.c.Ref.String(), "what", what, "error", err)
	}
	return err
}

// declared makes users, databases, publications and subscriptions of the writer as the spec declares them. What cannot
// be done is a condition, and holds up nothing else.
func (t *repairer) declared() {
	if t.c.Kind != Kind {
		return
	}
	t.f.declared = t.o.declared.Reconcile(t.ctx, declared.Cluster{
		Ref: t.c.Ref, Generation: t.c.Generation, Writer: t.f.writer().Name, CA: t.f.authority(), Spec: &t.c.Spec, Status: &t.c.Status,
	}, t.f.At)
	for _, e := range t.f.declared.Events {
		t.o.emit(t.c, Event(e))
	}
}

// declaredConditions returns what is known of declared objects. A pass that has not looked at them knows nothing new,
// but that there is no writer.
func (c *Cluster) declaredConditions() []metav1.Condition {
	switch f := c.Facts; {
	case f.declared != nil:
		return f.declared.Conditions
	case f.known(factInstances) && f.writer() == nil:
		return declared.Unasked(&c.Status)
	}
	return nil
}

// fence stops all writers but the one with the newest epoch.
func (t *repairer) fence() {
	many := t.f.primaries()
	if len(many) < 2 {
		return
	}
	for _, i := range many[1:] {
		t.o.emit(t.c, Event{Warning: true, Reason: port.TwoWriters.Reason(), Message: "instance " + i.Name + " is fenced: " + many[0].Name + " has a newer epoch"})
		t.do("fence "+i.Name, func(ctx context.Context) error {
			return t.o.options.Ports.Engine.Stop(ctx, t.c.Ref.Of(i.Name), port.Immediate)
		})
	}
}

// lock releases the topology lock that a run took and no run will release, because the run was
// dropped or a rebuild took its place. The cluster is at rest, so no run needs it. A lock that is
// younger than this rest may belong to a run which this pass does not know yet, and stays.
func (t *repairer) lock(p machine.Position) {
	text, stored := t.c.storedLock()
	if r := stored.Record; r == nil || r.Owner != t.c.lockOwner() || renewed(r).After(p.Since) {
		return
	}
	t.do("the lock on the topology", func(ctx context.Context) error {
		return t.o.stores[t.c.Kind].Annotate(ctx, t.c, TopologyLock, text, "")
	})
}

// manager keeps the cluster manager running with the failover and durability of the spec, away
// from the writer's node.
func (t *repairer) manager(p machine.Position) {
	running := p.State == Running
	wanted := running || p.Previous != Creating && p.Previous != Cloning && p.Previous != Restoring && p.Previous != Recreating // in these states the run creates the manager, and one run removes it first
	was, topology := t.c.Status.Manager, t.f.Topology
	ignorant := t.f.known(factManager) && topology.Present && !topology.Ready && was.Health == string(Starting) && t.f.At.Sub(was.Since.Time) >= unknownClusterAfter
	lost := !t.f.known(factManager) && (t.o.watches.silent(t.c.Ref) || was.Health == string(Unknown) && t.f.At.Sub(was.Since.Time) >= t.o.options.FailedAfter)
	switch {
	case wanted && t.f.known(factManager) && !topology.Present:
		t.o.emit(t.c, managerRestored)
		t.ensure("make the cluster manager")
	case lost, wanted && ignorant:
		t.ensure("make the cluster manager")
	case !t.f.known(factManager) || !topology.Present || !topology.Ready:
	case topology.HA != t.c.haEnabled(), !topology.HA && !topology.Until.IsZero():
		t.do("failover as wanted", func(ctx context.Context) error {
			return t.o.options.Ports.Manager.SetHA(ctx, t.c.Ref, t.c.haEnabled(), time.Time{})
		})
	case cmp.Or(topology.Durability, strict) != t.c.durability(), topology.SameNode != t.c.sameNode():
		t.ensure("durability and sameNode as wanted")
	case running && topology.Template != "" && topology.Template != hash(string(t.c.managerPod())):
		t.ensure("the pod of the cluster manager as wanted")
	case running && t.onWriterNode():
		t.ensure("the cluster manager away from the writer")
	case running && t.f.certificate != nil && topology.Identity == "":
		t.convertManager()
	}
}

// convertManager gives a manager of an earlier version the folder of its certificate, once each IdleInterval.
func (t *repairer) convertManager() {
	cluster, now := t.c.Ref.Namespace+"/"+t.c.Ref.Name, t.o.now()
	if _, _, found := t.o.managerConverted.Get(cluster, t.c.Ref.UID, now); found {
		return
	}
	t.o.managerConverted.Put(cluster, t.c.Ref.UID, now.Add(t.o.options.IdleInterval), struct{}{})
	t.ensure("the certificate of the cluster manager")
}

var managerRestored = Event{Warning: true, Reason: "ManagerRestored", Message: "the cluster manager was gone, and is created again"}

// unknownClusterAfter is how long a manager may run without knowing its cluster. After that it has
// lost its state, and the operator must configure it again because nobody else does.
const unknownClusterAfter = 10 * time.Second

func (t *repairer) ensure(what string) {
	t.do(what, func(ctx context.Context) error {
		_, err := t.o.options.Ports.Manager.Ensure(ctx, t.c.Ref, t.c.managerSpec())
		return err
	})
}

// managerMoveCooldown is how long the operator waits before it moves a manager off the writer's
// node again. A move may restart the manager, so frequent moves would harm.
const managerMoveCooldown = 3 * time.Minute

// onWriterNode reports whether to move the manager now: it stands on the writer's node, as after a
// failover, and could stand elsewhere.
func (t *repairer) onWriterNode() bool {
	writer, cluster := t.f.writer(), t.c.Ref.Namespace+"/"+t.c.Ref.Name
	if writer == nil || writer.Node == "" || writer.Node != t.f.Topology.Node {
		t.o.managerMoves.Forget(cluster)
		return false
	}
	if _, _, moved := t.o.managerMoves.Get(cluster, t.c.Ref.UID, t.f.At); moved || !t.otherNode(writer.Node) {
		return false
	}
	t.o.managerMoves.Put(cluster, t.c.Ref.UID, t.f.At.Add(managerMoveCooldown), struct{}{})
	return true
}

// otherNode reports whether another node than this one accepts instances.
func (t *repairer) otherNode(beside string) bool {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.options.CallTimeout)
	defer cancel()
	var nodes []port.Node
	err := port.Guard(func() (err error) { nodes, err = t.o.options.Ports.Instances.Nodes(ctx, t.c.Ref); return })
	return err == nil && slices.ContainsFunc(nodes, func(n port.Node) bool { return n.Ready && n.Schedulable && n.Name != beside })
}

// writer starts instances that are down while there is no writer: failover is off or would not be
// safe, and some instance has not failed, so no rebuild will happen. An engine without the grant
// starts as a follower.
func (t *repairer) writer() {
	if !t.f.known(factInstances) || len(t.f.primaries()) > 0 {
		return
	}
	for n := range t.f.Instances {
		i := &t.f.Instances[n]
		since, before := t.c.failedSince(i, Failed)
		if !before || t.f.At.Sub(since) < 2*t.o.options.FailedAfter {
			continue
		}
		st, asked := t.f.Engines[i.Name]
		switch {
		case i.State == port.Down:
			t.do("bring back "+i.Name, func(ctx context.Context) error {
				_, err := t.o.options.Ports.Instances.Ensure(ctx, t.c.Ref, *i)
				return err
			})
		case i.State == port.Up && asked && st.Installed && !st.Running && st.Code == "":
			t.do("start "+i.Name, func(ctx context.Context) error { return t.o.options.Ports.Engine.Start(ctx, t.c.Ref.Of(i.Name)) })
		}
	}
}

// startNeeded starts the instances whose answers are needed to restore the record of the grant.
func (t *repairer) startNeeded() {
	for n := range t.f.Instances {
		if i := &t.f.Instances[n]; i.State == port.Down {
			t.do("bring back "+i.Name, func(ctx context.Context) error {
				_, err := t.o.options.Ports.Instances.Ensure(ctx, t.c.Ref, *i)
				return err
			})
		}
	}
}

// removeUnplaced removes instances without a place, which a run left behind when it was dropped in
// the middle of a replacement.
func (t *repairer) removeUnplaced() {
	writer := t.f.writer()
	for _, i := range t.f.temporaries() {
		if i.Name == writer.Name { // a failover promoted it: it takes over a place instead
			want := *i
			want.ID, want.Type = strconv.FormatInt(t.c.nextPlace(), 10), port.Writer
			t.c.Status.NextID = t.c.nextPlace() + 1
			t.do("a place for "+i.Name, func(ctx context.Context) error {
				_, err := t.o.options.Ports.Instances.Ensure(ctx, t.c.Ref, want)
				return err
			})
			continue
		}
		t.removeInstance(i)
	}
	for n := range t.f.Instances {
		i := &t.f.Instances[n]
		if i.State == port.Leaving || i.Type == port.Temporary {
			continue
		}
		for _, other := range t.f.holders(i.ID) {
			if other.Name != i.Name && other.Type != port.Temporary && (other.Name == writer.Name || i.Name != writer.Name && t.f.preferred(other, i)) {
				t.removeInstance(i)
				break
			}
		}
	}
}

func (t *repairer) removeInstance(i *port.Instance) {
	t.do("remove "+i.Name, func(ctx context.Context) error {
		if err := t.o.options.Ports.Manager.Remove(ctx, t.c.Ref, i.Name); err != nil {
			return err
		}
		return t.o.options.Ports.Instances.Remove(ctx, t.c.Ref, i.Name)
	})
}

// types sets the recorded types by the actual roles, after a failover.
func (t *repairer) types() {
	writer := t.f.writer()
	for _, i := range append(t.f.readers(), writer) {
		want := port.Reader
		if i.Name == writer.Name {
			want = port.Writer
		}
		if i.Type == want || i.Type == port.Temporary {
			continue
		}
		t.do("the type of "+i.Name, func(ctx context.Context) error {
			retyped := *i
			retyped.Type = want
			_, err := t.o.options.Ports.Instances.Ensure(ctx, t.c.Ref, retyped)
			return err
		})
	}
}

// addresses tells the manager the current addresses of its members. It does so without a writer,
// too: a failover may wait for the one member that has come back.
func (t *repairer) addresses() {
	if !t.f.known(factInstances) || !t.f.known(factManager) || !t.f.Topology.Ready {
		return
	}
	for _, m := range t.f.Topology.Members {
		i := t.f.named(m.Name)
		if i == nil || i.Address == "" || i.State != port.Up || i.Address == m.Address && i.Port == m.Port && i.Domain == m.Domain {
			continue
		}
		m.Node, m.Address, m.Port, m.Domain = i.Node, i.Address, i.Port, i.Domain
		t.do("the address of "+m.Name, func(ctx context.Context) error { return t.o.options.Ports.Manager.Add(ctx, t.c.Ref, m) })
	}
}

// members makes the members of the manager equal to the placed instances.
func (t *repairer) members() {
	if !t.f.known(factManager) || !t.f.Topology.Ready {
		return
	}
	here := map[string]bool{}
	for _, i := range append(t.f.readers(), t.f.writer()) {
		here[i.Name] = true
		if m := t.f.member(i.Name); i.Type != port.Temporary && (m == nil || m.ID != i.ID) {
			t.do("membership of "+i.Name, func(ctx context.Context) error {
				return t.o.options.Ports.Manager.Add(ctx, t.c.Ref, memberOf(i))
			})
		}
	}
	for _, m := range t.f.Topology.Members {
		if !here[m.Name] && t.f.named(m.Name) == nil {
			t.do("membership of "+m.Name, func(ctx context.Context) error {
				return t.o.options.Ports.Manager.Remove(ctx, t.c.Ref, m.Name)
			})
		}
	}
}

func memberOf(i *port.Instance) port.Member {
	return port.Member{Name: i.Name, ID: i.ID, Node: i.Node, Address: i.Address, Port: i.Port, Domain: i.Domain, Routed: true}
}

// managerSpec returns the desired cluster manager, with all placed instances as members.
func (c *Cluster) managerSpec() port.ManagerSpec {
	spec := port.ManagerSpec{Present: true, HA: c.haEnabled(), SameNode: c.sameNode(), Durability: c.durability(), Version: c.Spec.Engine.Version, Pod: c.managerPod()}
	spec.Template = hash(string(spec.Pod))
	leader := c.Facts.leader()
	if leader != nil {
		spec.AwayFrom = leader.Node
		spec.Members = append(spec.Members, memberOf(leader))
	}
	for _, i := range c.Facts.readers() {
		spec.Members = append(spec.Members, memberOf(i))
	}
	return spec
}
