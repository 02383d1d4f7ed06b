package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// advance computes what happens without a call until now.
func (w *Simulation) advance(c *cluster) {
	now := w.o.Now()
	for _, i := range c.sorted() {
		w.advanceInstance(c, i, now)
	}
	v := &c.volume
	if !v.at.IsZero() && !now.Before(v.at) {
		switch v.State {
		case port.VolumePending, port.VolumeCloning:
			v.State, v.data = port.VolumeReady, v.data || v.cloned
		}
		v.at = time.Time{}
	}
	w.advanceLog(c)
	w.advanceManager(c, now)
}

func (w *Simulation) advanceInstance(c *cluster, i *instance, now time.Time) {
	switch {
	case i.State == port.Leaving:
		if !now.Before(i.goneAt) && !w.cut(i) {
			delete(c.instances, i.Name)
		}
		return
	case i.ended && !w.cut(i):
		if i.engine.running { // its agent stops it fast
			i.engine.running, i.engine.role, i.engine.clean = false, port.NoRole, true
		}
		if !now.Before(i.endAt) {
			i.killed = false
			w.state(i, port.Suspended, "", now)
		}
		return
	case i.State == port.Unscheduled:
		if name := w.choose(c, i.Instance); name != "" {
			i.Node, i.upAt = name, now.Add(w.o.Times.Create)
			w.state(i, port.Pending, "", now)
		}
	case i.killed:
		w.state(i, port.Down, "it does not run", now)
		i.engine.running, i.engine.role = false, port.NoRole
		return
	case w.cut(i):
		w.state(i, port.Lost, "node "+i.Node+" does not answer", now)
	case i.State == port.Lost:
		w.state(i, port.Up, "", now)
		w.restartEngine(c, i, now)
	}
	if i.State == port.Pending && !now.Before(i.upAt) {
		w.state(i, port.Up, "", i.upAt)
		if e := &i.engine; e.installed && !e.stopped {
			w.run(c, i, i.upAt)
		}
	}
	e := &i.engine
	if e.installKey != "" && !e.installed && !now.Before(e.installAt) && w.up(i) {
		w.installed(c, i)
	}
	if e.running && e.role == port.Primary && !w.cut(i) && !c.split && (c.volume.Writer != i.Name || c.volume.Epoch != e.epoch) {
		e.running, e.role, e.clean = false, port.NoRole, false // the agent stops an engine without the grant
		e.message = "stopped: the grant is another's"
	}
	if lost := c.volume.lostAt; !lost.IsZero() && e.running && e.role == port.Primary && !now.Before(lost.Add(w.o.Grant)) {
		e.running, e.role, e.clean = false, port.NoRole, true
		e.message = "stopped: its lease could not be renewed"
	}
	if w.cut(i) && e.role == port.Primary && !now.Before(w.nodes[i.Node].lostAt.Add(w.o.Grant)) {
		e.running, e.role, e.clean = false, port.NoRole, true // the agent stops it when the lease cannot be renewed
	}
}

func (w *Simulation) state(i *instance, s port.InstanceState, message string, at time.Time) {
	if i.State != s {
		i.State, i.Since = s, at
	}
	i.Message = message
}

// restartEngine does what an agent does when its node is back: it starts the engine in the role
// that the grant gives.
func (w *Simulation) restartEngine(c *cluster, i *instance, now time.Time) {
	if i.engine.installed && !i.engine.stopped && !i.engine.running {
		w.run(c, i, now)
	}
}

// installed ends an installation: the instance has the data of its source, or of the volume.
func (w *Simulation) installed(c *cluster, i *instance) {
	e := &i.engine
	e.installed = true
	switch from := c.instances[e.source]; {
	case e.source == "":
		e.position = max(e.position, 1<<24)
		e.timeline = max(e.timeline, 1)
		if c.volume.data { // a database that existed before: on the volume, or cloned
			e.position = max(e.position, c.acked)
		}
		c.volume.data = true
	case from == nil || !from.engine.installed:
		e.installed, e.installKey = false, ""
		e.code, e.message = string(port.PodLost.Code), "the source "+e.source+" is gone"
	default:
		e.position, e.timeline = from.engine.position, from.engine.timeline
		c.point(i, e.source, w.o.Now())
	}
}

// run starts an engine in the role that the grant gives.
func (w *Simulation) run(c *cluster, i *instance, now time.Time) {
	e := &i.engine
	e.stopped = false
	if e.startFailure != "" {
		e.running, e.role, e.code, e.message = false, port.NoRole, string(port.StartFailed.Code), e.startFailure
		return
	}
	if c.volume.full && c.volume.Writer == i.Name {
		e.running, e.code, e.message = false, string(port.StorageFull.Code), "no space left on device"
		return
	}
	e.code, e.message = "", ""
	e.running, e.clean, e.started, e.startAt, e.promoteAt = true, false, now, now.Add(w.o.Times.Start), time.Time{}
	if e.params == nil {
		e.params = map[string]string{}
	}
	for name, value := range e.pending {
		e.params[name] = value
		if value == "" {
			delete(e.params, name)
		}
	}
	e.pending = nil
	e.role, e.streamSince = port.Follower, e.startAt
	if c.volume.Writer == i.Name {
		e.role, e.epoch = port.Primary, c.volume.Epoch
	} else if c.volume.Writer != "" && c.instances[e.upstream] == nil {
		c.point(i, c.volume.Writer, e.startAt)
	}
}

// advanceLog makes the log of the writer grow and reach the followers that stream.
func (w *Simulation) advanceLog(c *cluster) {
	writer := w.writer(c)
	if writer == nil {
		return
	}
	writer.engine.position += 100
	strict, streaming := c.strict, false
	for _, i := range c.sorted() {
		if w.streams(c, i) && i.engine.upstream == writer.Name {
			i.engine.position, i.engine.timeline = writer.engine.position, writer.engine.timeline
			streaming = streaming || slices.Contains(c.waits, i.Name)
		}
	}
	if streaming || !strict || !slices.ContainsFunc(c.waits, func(name string) bool { return name != writer.Name }) {
		c.acked = writer.engine.position
	}
}

// advanceManager is one round of the manager over its members.
func (w *Simulation) advanceManager(c *cluster, now time.Time) {
	m := &c.manager
	if !m.present || m.broken || now.Before(m.readyAt) {
		return
	}
	if n := w.nodes[m.node]; n != nil && !n.lostAt.IsZero() {
		return
	}
	if !m.ha && !m.until.IsZero() && !now.Before(m.until) {
		m.ha, m.until = true, time.Time{}
	}
	c.members = slices.Sorted(maps.Keys(m.members))
	if writer := w.writer(c); writer != nil && c.known(writer) {
		m.writer, m.epoch, m.missed, m.code, m.message = writer.Name, writer.engine.epoch, time.Time{}, "", ""
		readers := slices.DeleteFunc(slices.Clone(c.members), func(name string) bool { return name == writer.Name })
		if m.of != writer.engine.epoch || m.seen == nil {
			m.of, m.sync, m.ask, m.safe, m.seen = writer.engine.epoch, readers, readers, false, map[string]time.Time{}
		}
		before, streaming := m.sync, false
		m.sync = nil
		for _, i := range c.sorted() {
			if w.ready(i) && c.known(i) && i.engine.role == port.Follower && i.engine.upstream == writer.Name {
				c.point(i, writer.Name, now) // the writer may have got another address
			}
			if w.streams(c, i) && c.known(i) {
				m.seen[i.Name] = now
				streaming = streaming || slices.Contains(readers, i.Name)
			}
			// The manager counts on a member that is gone until the writer knows the new list.
			if slices.Contains(readers, i.Name) && !m.seen[i.Name].IsZero() && now.Sub(m.seen[i.Name]) < time.Second {
				m.sync = append(m.sync, i.Name)
			}
		}
		if len(m.sync) == 0 { // commits wait for one of the former list
			m.sync = slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !slices.Contains(readers, name) })
		}
		if len(m.sync) == 0 {
			m.sync = readers
		}
		if streaming {
			m.ask, m.safe = m.sync, true
		} else {
			m.ask = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(m.ask), m.sync...))))
		}
		c.waits = m.sync
		return
	}
	if c.volume.Writer == "" || !c.volume.lostAt.IsZero() {
		return
	}
	if m.missed.IsZero() {
		m.missed = now
	}
	if m.ha && !now.Before(m.missed.Add(w.o.Misses)) {
		w.failover(c, now)
	}
}

// failover promotes the most advanced reader, if no answered commit can be lost.
func (w *Simulation) failover(c *cluster, now time.Time) {
	m := &c.manager
	if old := c.instances[c.volume.Writer]; old != nil && w.cut(old) && now.Before(w.nodes[old.Node].lostAt.Add(w.o.Grant)) {
		return // the old writer may still write
	}
	var best *instance
	for _, i := range c.sorted() {
		if !c.known(i) || !w.ready(i) || i.engine.role != port.Follower {
			continue
		}
		if best == nil || i.engine.position > best.engine.position {
			best = i
		}
	}
	if best == nil {
		return
	}
	if c.strict {
		if m.of != c.volume.Epoch {
			m.code, m.message = string(port.FailoverUnsafe.Code), "the writer of this epoch was never seen with its readers"
			return
		}
		if !m.safe {
			m.code, m.message = string(port.FailoverUnsafe.Code), "none of its readers had caught up with the writer yet"
			return
		}
		for _, name := range m.ask {
			if i := c.instances[name]; !w.ready(i) || !c.known(i) {
				m.code, m.message = string(port.FailoverUnsafe.Code), "reader "+name+" cannot be asked, and may have what no other has"
				return
			}
		}
	}
	c.volume.Writer, c.volume.Epoch = best.Name, c.volume.Epoch+1
	w.promote(c, best, c.volume.Epoch, now)
	for _, i := range c.sorted() {
		if i != best && w.ready(i) && c.known(i) && i.engine.role == port.Follower {
			c.point(i, best.Name, now)
		}
	}
	m.missed, m.writer, m.epoch, m.code, m.message = time.Time{}, best.Name, c.volume.Epoch, "", ""
}

func (w *Simulation) promote(c *cluster, i *instance, epoch int64, now time.Time) {
	e := &i.engine
	if c.strict && e.position < c.acked {
		w.violation(c, "%s was promoted at %d, and %d bytes of log were answered", i.Name, e.position, c.acked)
	}
	e.role, e.epoch, e.upstream, e.lag, e.promoteAt = port.Primary, epoch, "", 0, now.Add(w.o.Times.Promote)
	e.timeline++
	c.waits = slices.DeleteFunc(slices.Clone(c.members), func(name string) bool { return name == i.Name }) // until the manager has observed it
}
