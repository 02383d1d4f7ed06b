package sharedstorage

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

var parameterForm = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// validateParameters rejects parameters that cannot be written into a configuration, before the
// run changes anything.
func validateParameters(_ context.Context, w *work) outcome.Outcome {
	for _, name := range slices.Sorted(maps.Keys(w.c.Spec.Parameters)) {
		if !parameterForm.MatchString(name) || strings.ContainsAny(w.c.Spec.Parameters[name], "\n\r\x00") {
			return outcome.Fail(port.ParameterInvalid.Errorf("spec.parameters.%s cannot be written into a configuration", name).With("parameter", name))
		}
	}
	return outcome.Done()
}

// desiredHash returns the hash of the parameters that the spec wants.
func (c *Cluster) desiredHash() string {
	class, _ := c.Facts.class(c.className())
	return port.Hash(c.parameters(class))
}

// parametersDiffer compares with the engines themselves: the record in status would not show an
// engine that missed a change or went back to old values. An engine that does not answer gets them
// when it does. It asks for a restart only for parameters that are not recorded yet, not for other
// changes that an engine has pending.
func parametersDiffer(c *Cluster) (bool, error) {
	if c.oldest(FlushParameters) != nil {
		return true, nil
	}
	return whenStable(func(c *Cluster) bool {
		hash := c.desiredHash()
		return c.Facts.any(func(i *port.Instance) bool {
			st, asked := c.Facts.Engines[i.Name]
			return asked && (st.Parameters != hash || c.Status.ParametersHash != hash && st.Running && st.Restart)
		})
	}, ofClass)(c)
}

// applied returns the hash of the parameters that every placed engine has. ok is false if they
// differ, if one waits for a restart, or if one does not answer.
func (f *Facts) applied() (hash string, ok bool) {
	leader := f.leader()
	if !f.known(factInstances) || leader == nil {
		return "", false
	}
	hash = f.Engines[leader.Name].Parameters
	return hash, !f.any(func(i *port.Instance) bool {
		st, asked := f.Engines[i.Name]
		return !asked || st.Parameters != hash || st.Running && st.Restart
	})
}

// parametersNow returns the parameters of the spec for the class that the writer has now.
func (w *work) parametersNow() map[string]string {
	name := w.c.className()
	leader := w.f.leader()
	if leader != nil {
		name = leader.Class.Name
	}
	class, known := w.f.class(name)
	if !known && leader != nil {
		class = leader.Class
	}
	return w.c.parameters(class)
}

// serving returns the placed instances, the writer first.
func (w *work) serving() []*port.Instance {
	var all []*port.Instance
	if writer := w.f.writer(); writer != nil {
		all = append(all, writer)
	}
	return append(all, w.f.readers()...)
}

// apply sets parameters on every engine that answers, on the writer first. An engine that does not
// answer is rebuilt with them or gets them later; until then recordParameters records nothing.
func (w *work) apply(ctx context.Context, params map[string]string) outcome.Outcome {
	for _, i := range w.serving() {
		if _, asked := w.f.Engines[i.Name]; !asked {
			continue
		}
		if err := w.applyTo(ctx, i, params); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

func (w *work) applyTo(ctx context.Context, i *port.Instance, params map[string]string) error {
	err := w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Engine.Apply(ctx, w.ref.Of(i.Name), params)
		return err
	})
	if err != nil {
		return withInstance(err, i.Name)
	}
	return nil
}

func applyParameters(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	return w.apply(ctx, w.parametersNow())
}

// applyClassParameters sets the parameters of the run's class on all engines, because the spec may
// have changed since they started. A later run of FlushParameters does the restart that some need.
func applyClassParameters(ctx context.Context, w *work) outcome.Outcome {
	return w.apply(ctx, w.c.parameters(w.in.Class))
}

// restartIfNeeded restarts the engines that need it to use their parameters: readers first, one at
// a time, the writer last. It also sets the parameters of an engine that missed them.
func restartIfNeeded(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	all := w.f.readers()
	if leader := w.f.leader(); leader != nil {
		all = append(all, leader)
	}
	params := w.parametersNow()
	for _, i := range all {
		st, asked := w.f.Engines[i.Name]
		switch {
		case asked && !st.Installed: // it will start with them, once it has data or is rebuilt
		case asked && st.Parameters != port.Hash(params) && (st.Ready || !st.Running):
			if err := w.applyTo(ctx, i, params); err != nil {
				return outcome.Fail(err)
			}
			return outcome.Wait(pollSoon, "Applying", "instance %s is told its parameters", i.ID)
		case !asked || st.Code != "" && !st.Running:
			if leader := w.f.leader(); asked && leader != nil && leader.Name == i.Name {
				return outcome.Fail(engineFault(st, i.Name))
			}
		case st.Running && st.Restart:
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
				return outcome.Fail(err)
			}
			return outcome.Wait(pollSoon, "Restarting", "instance %s restarts", i.ID)
		case !st.Running:
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
				return outcome.Fail(withInstance(err, i.Name))
			}
			return outcome.Wait(pollSoon, "Restarting", "instance %s restarts", i.ID)
		case !st.Ready && w.waited() < unhealthyAfter:
			return outcome.Wait(pollSoon, "Restarting", "instance %s restarts", i.ID)
		}
	}
	if ok, out := w.checkWriter(); !ok {
		return out
	}
	return outcome.Done()
}

// recordParameters records the hash of the parameters that all engines have. If an engine did not
// answer, a later pass records it.
func recordParameters(ctx context.Context, w *work) outcome.Outcome {
	hash, ok := w.f.applied()
	if !ok {
		return outcome.Done()
	}
	return outcome.Fail(w.save(ctx, func(c *Cluster) { c.Status.ParametersHash = hash }))
}

// restartInstance restarts the engine of a place, or of the writer. It is done when the engine
// started after the run was requested.
func restartInstance(ctx context.Context, w *work) outcome.Outcome {
	var p struct {
		Writer bool `json:"writer"`
	}
	if err := w.t.With(&p); err != nil {
		return outcome.Fail(err)
	}
	i := w.f.leader()
	if !p.Writer {
		holders := w.f.holders(w.placeID())
		if len(holders) == 0 {
			return outcome.Done()
		}
		i = holders[0]
	}
	if i == nil {
		return outcome.Fail(port.WriterUnhealthy.Errorf("there is no writer"))
	}
	leads := w.f.leader() != nil && w.f.leader().Name == i.Name
	if !leads {
		if ok, out := w.checkHA(ctx); !ok {
			return out
		}
	} else if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	st, asked := w.f.Engines[i.Name]
	before, known := w.in.Started[i.Name]
	switch {
	case i.State == port.Down:
		if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, *i); return err }); err != nil {
			return outcome.Fail(withInstance(err, i.Name))
		}
		return w.await(pollSoon, port.PodLost, "Restarting", "instance %s is started", i.ID)
	case !asked:
		return w.await(pollSoon, port.PodLost, port.PodLost.Reason(), "instance %s cannot be asked", i.ID)
	case st.Running && known && st.Started.Equal(before):
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Wait(pollSoon, "Restarting", "instance %s restarts", i.ID)
	case !st.Running:
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
			return outcome.Fail(withInstance(err, i.Name))
		}
		return outcome.Wait(pollSoon, "Restarting", "instance %s restarts", i.ID)
	case !st.Ready:
		return w.await(pollSoon, port.StartFailed, "EngineStarting", "the engine of instance %s starts", i.ID)
	}
	return outcome.Done()
}
