package sim

import (
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// touch changes a cluster without a call of the operator.
func (w *Simulation) touch(ref port.Ref, change func(c *cluster)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cluster(ref)
	w.advance(c)
	change(c)
	w.advance(c)
}

func (w *Simulation) changeInstance(ref port.Ref, name string, change func(c *cluster, i *instance)) {
	w.touch(ref, func(c *cluster) {
		if i := c.instances[name]; i != nil {
			change(c, i)
		}
	})
}

// KillEngine ends the process of an engine. Nothing restarts it without a call.
func (w *Simulation) KillEngine(ref port.Ref, name string) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) {
		i.engine.running, i.engine.role, i.engine.clean, i.engine.stopped = false, port.NoRole, false, true
	})
}

// BreakEngine kills an engine and keeps it from starting; an empty reason ends that.
func (w *Simulation) BreakEngine(ref port.Ref, name, reason string) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) {
		if i.engine.startFailure = reason; reason != "" {
			i.engine.running, i.engine.role, i.engine.clean, i.engine.stopped = false, port.NoRole, false, true
			i.engine.code, i.engine.message = string(port.StartFailed.Code), reason
		}
	})
}

// KillInstance stops an instance until it is ensured again. Its data stay.
func (w *Simulation) KillInstance(ref port.Ref, name string) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) { i.killed, i.engine.clean = true, false })
}

// RefuseClass says whether no node takes an instance of a class.
func (w *Simulation) RefuseClass(class string, refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[class] = refused
}

// DropInstance deletes an instance with its data.
func (w *Simulation) DropInstance(ref port.Ref, name string) {
	w.touch(ref, func(c *cluster) { delete(c.instances, name) })
}

// LoseNode cuts a node off: what runs there goes on for a while, unobserved.
func (w *Simulation) LoseNode(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[name]; n != nil && n.lostAt.IsZero() {
		n.lostAt = w.o.Now()
	}
	for _, c := range w.clusters {
		w.advance(c)
	}
}

// ReturnNode brings a lost node back.
func (w *Simulation) ReturnNode(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		w.advance(c)
	}
	if n := w.nodes[name]; n != nil {
		n.lostAt = time.Time{}
	}
}

// Cordon sets whether a node accepts new instances.
func (w *Simulation) Cordon(name string, cordoned bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[name]; n != nil {
		n.Schedulable = !cordoned
	}
}

// SetCapacity sets how many instances a node accepts; 0: no limit.
func (w *Simulation) SetCapacity(perNode int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.o.PerNode = perNode
}

// Lag keeps a follower this many bytes behind; 0 lets it catch up.
func (w *Simulation) Lag(ref port.Ref, name string, bytes int64) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) { i.engine.lag = bytes })
}

// Fill fills the volume until it is grown.
func (w *Simulation) Fill(ref port.Ref) { w.touch(ref, func(c *cluster) { c.volume.full = true }) }

// Free gives the volume space again, as if somebody had removed data.
func (w *Simulation) Free(ref port.Ref) { w.touch(ref, func(c *cluster) { c.volume.full = false }) }

// Misplace makes the record of an instance name another place.
func (w *Simulation) Misplace(ref port.Ref, name, id string) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) { i.ID = id })
}

// BreakVolume makes the volume unusable; an empty reason ends that.
func (w *Simulation) BreakVolume(ref port.Ref, reason string) {
	w.touch(ref, func(c *cluster) { c.volume.broken = reason })
}

// LoseGrant deletes the record of who may write. A writer continues until it would have to renew
// its lease.
func (w *Simulation) LoseGrant(ref port.Ref) {
	w.touch(ref, func(c *cluster) {
		if c.volume.State != "" && c.volume.lostAt.IsZero() {
			c.volume.lostAt = w.o.Now()
		}
	})
}

// BreakManager keeps the manager from answering until it is created again.
func (w *Simulation) BreakManager(ref port.Ref) {
	w.touch(ref, func(c *cluster) { c.manager.broken = true })
}

// DropManager deletes the manager.
func (w *Simulation) DropManager(ref port.Ref) {
	w.touch(ref, func(c *cluster) { c.manager = manager{members: map[string]port.Member{}} })
}

// SplitBrain makes a follower a second writer, against all rules.
func (w *Simulation) SplitBrain(ref port.Ref, name string) {
	w.changeInstance(ref, name, func(c *cluster, i *instance) {
		c.split = true
		i.engine.role, i.engine.running, i.engine.epoch = port.Primary, true, c.volume.Epoch-1
	})
}

// Hang makes all calls about a cluster hang, or ends that.
func (w *Simulation) Hang(ref port.Ref, hung bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung[ref.Namespace+"/"+ref.Name] = hung
}

// Instances returns the instances of a cluster, without a call.
func (w *Simulation) Instances(ref port.Ref) []port.Instance {
	var all []port.Instance
	w.touch(ref, func(c *cluster) {
		for _, i := range c.sorted() {
			all = append(all, i.Instance)
		}
	})
	return all
}

// Writer returns the name of the instance that accepts writes, "" if there is none.
func (w *Simulation) Writer(ref port.Ref) (name string) {
	w.touch(ref, func(c *cluster) {
		if i := w.writer(c); i != nil {
			name = i.Name
		}
	})
	return name
}

// Streaming returns the names of the followers that stream from the writer.
func (w *Simulation) Streaming(ref port.Ref) (names []string) {
	w.touch(ref, func(c *cluster) {
		for _, i := range c.sorted() {
			if w.streams(c, i) {
				names = append(names, i.Name)
			}
		}
	})
	return names
}

// Topology returns the topology of the manager, without a call.
func (w *Simulation) Topology(ref port.Ref) (t port.Topology) {
	w.touch(ref, func(c *cluster) { t = w.topology(c) })
	return t
}

// Volume returns the volume, without a call.
func (w *Simulation) Volume(ref port.Ref) (v port.Volume) {
	w.touch(ref, func(c *cluster) { v = c.volume.seen() })
	return v
}

// Parameters returns the parameters with which an engine runs.
func (w *Simulation) Parameters(ref port.Ref, name string) (params map[string]string) {
	w.changeInstance(ref, name, func(_ *cluster, i *instance) { params = i.engine.params })
	return params
}
