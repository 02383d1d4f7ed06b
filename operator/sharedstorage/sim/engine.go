package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

type engines struct{ w *Simulation }

// at makes a call to the agent of an instance.
func at[T any](ctx context.Context, w *Simulation, method string, id port.Ref, detail, key string, effect func(c *cluster, i *instance) (T, error)) (T, error) {
	return do(ctx, w, Call{Port: "Engine", Method: method, Ref: id, Detail: detail, Key: key}, func(c *cluster) (T, error) {
		i := c.instances[id.Instance]
		if !w.up(i) {
			var none T
			return none, port.PodLost.Errorf("instance %s cannot be asked", id.Instance).With("instance", id.Instance)
		}
		return effect(c, i)
	})
}

func callEngine(ctx context.Context, w *Simulation, method string, id port.Ref, detail, key string, effect func(c *cluster, i *instance) error) error {
	_, err := at(ctx, w, method, id, detail, key, func(c *cluster, i *instance) (struct{}, error) { return struct{}{}, effect(c, i) })
	return err
}

// Status implements port.Engine.
func (s engines) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	w := s.w
	return at(ctx, w, "Status", id, "", "", func(c *cluster, i *instance) (port.Status, error) {
		e := &i.engine
		st := port.Status{
			Installed: e.installed, Running: e.running, Ready: w.ready(i), Role: e.role, Version: i.Version,
			Position: e.position, Received: e.position, Timeline: e.timeline, Clean: e.clean && !e.running, Wrote: e.epoch,
			Parameters: port.Hash(e.wanted), Restart: len(e.pending) > 0, Started: e.started, Code: e.code, Message: e.message, TLS: true, Identity: port.InstanceIdentity(id).String(),
		}
		switch e.role {
		case port.Primary:
			st.Epoch, st.Followers = e.epoch, []string{}
			waits := slices.DeleteFunc(slices.Clone(c.waits), func(name string) bool { return name == i.Name })
			st.Stalled = c.strict && len(waits) > 0
			for _, f := range c.sorted() {
				if w.streams(c, f) && f.engine.upstream == i.Name {
					st.Followers = append(st.Followers, f.Name)
					st.Stalled = st.Stalled && !slices.Contains(waits, f.Name)
				}
			}
			if !w.accepts(c, i) && c.volume.full {
				st.Ready, st.Code, st.Message = false, string(port.StorageFull.Code), "no space left on device"
			}
		case port.Follower:
			st.Upstream, st.Streaming, st.Lag = e.upstream, w.streams(c, i), w.lagOf(c, i)
			if e.lag > 0 && st.Streaming {
				st.Position -= min(st.Position, uint64(e.lag))
			}
		}
		return st, nil
	})
}

// Install implements port.Engine.
func (s engines) Install(ctx context.Context, id port.Ref, from port.Source, key string) error {
	w := s.w
	return callEngine(ctx, w, "Install", id, from.From, key, func(c *cluster, i *instance) error {
		e := &i.engine
		if e.installed || e.installKey == key {
			return nil
		}
		if from.From != "" {
			if source := c.instances[from.From]; !w.ready(source) {
				return fmt.Errorf("the source %s does not answer", from.From)
			}
		} else if c.acked > 0 && !w.o.Shared && !c.volume.cloned {
			w.violation(c, "%s was given an empty database, and there were data", i.Name)
		}
		e.code, e.message = "", ""
		e.installKey, e.source, e.installAt = key, from.From, w.o.Now().Add(w.o.Times.Install)
		w.advance(c)
		return nil
	})
}

// Start implements port.Engine.
func (s engines) Start(ctx context.Context, id port.Ref) error {
	w := s.w
	return callEngine(ctx, w, "Start", id, "", "", func(c *cluster, i *instance) error {
		e := &i.engine
		switch {
		case e.running:
			return nil
		case !e.installed:
			return port.StartFailed.Errorf("%s has no data", i.Name)
		}
		w.run(c, i, w.o.Now())
		switch e.code {
		case string(port.StorageFull.Code):
			return port.StorageFull.Errorf("%s", e.message)
		case "":
			return nil
		}
		return port.StartFailed.Errorf("%s", e.message).With("instance", i.Name)
	})
}

// Stop implements port.Engine.
func (s engines) Stop(ctx context.Context, id port.Ref, mode port.StopMode) error {
	w := s.w
	return callEngine(ctx, w, "Stop", id, string(mode), "", func(c *cluster, i *instance) error {
		e := &i.engine
		if e.running {
			e.clean = mode == port.Fast
		}
		e.running, e.role, e.stopped = false, port.NoRole, true
		primaries := 0
		for _, other := range c.instances {
			if other.engine.running && other.engine.role == port.Primary {
				primaries++
			}
		}
		c.split = c.split && primaries > 1
		return nil
	})
}

// Promote implements port.Engine.
func (s engines) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	w := s.w
	return callEngine(ctx, w, "Promote", id, fmt.Sprint(epoch), "", func(c *cluster, i *instance) error {
		e := &i.engine
		switch {
		case c.volume.Writer != i.Name || c.volume.Epoch != epoch:
			return port.SwitchRefused.Errorf("%s has no grant of epoch %d", i.Name, epoch)
		case e.role == port.Primary && e.epoch == epoch:
			return nil
		case !w.ready(i):
			return port.SwitchRefused.Errorf("%s does not run", i.Name)
		}
		for _, other := range c.sorted() {
			if other != i && other.engine.running && other.engine.role == port.Primary && !w.cut(other) && !c.split {
				w.violation(c, "%s was promoted while %s ran as the writer", i.Name, other.Name)
			}
		}
		w.promote(c, i, epoch, w.o.Now())
		return nil
	})
}

// Follow implements port.Engine.
func (s engines) Follow(ctx context.Context, id port.Ref, writer string) error {
	w := s.w
	return callEngine(ctx, w, "Follow", id, writer, "", func(c *cluster, i *instance) error {
		e := &i.engine
		if !e.installed {
			return port.StartFailed.Errorf("%s has no data", i.Name)
		}
		if c.volume.Writer == i.Name {
			return port.SwitchRefused.Errorf("%s holds the grant", i.Name)
		}
		if e.role == port.Primary { // the data are rewound
			e.running, e.role = false, port.NoRole
		}
		c.point(i, writer, w.o.Now())
		if up := c.instances[writer]; w.ready(up) {
			e.position, e.timeline = min(e.position, up.engine.position), up.engine.timeline
		}
		if !e.running {
			w.run(c, i, w.o.Now())
			c.point(i, writer, w.o.Now())
		}
		return nil
	})
}

// Apply implements port.Engine.
func (s engines) Apply(ctx context.Context, id port.Ref, params map[string]string) (bool, error) {
	w := s.w
	return at(ctx, w, "Apply", id, port.Hash(params), "", func(_ *cluster, i *instance) (bool, error) {
		for name := range params {
			if strings.HasPrefix(name, "bad") {
				return false, port.ParameterInvalid.Errorf("unrecognized configuration parameter %q", name).With("parameter", name)
			}
		}
		e := &i.engine
		next, pending := map[string]string{}, map[string]string{}
		for name := range union(e.params, params) {
			old, had := e.params[name]
			value, wanted := params[name]
			if slices.Contains(w.o.RestartFor, name) && e.running && (old != value || had != wanted) {
				pending[name] = value
				if had {
					next[name] = old
				}
				continue
			}
			if wanted {
				next[name] = value
			}
		}
		e.params, e.pending, e.wanted = next, pending, maps.Clone(params)
		return len(pending) > 0, nil
	})
}

func union(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for name := range maps.Keys(a) {
		all[name] = true
	}
	for name := range maps.Keys(b) {
		all[name] = true
	}
	return all
}
