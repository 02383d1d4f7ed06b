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

// validateParameters refuses what no engine takes, before anything is touched.
func validateParameters(_ context.Context, w *work) outcome.Outcome {
	for _, name := range slices.Sorted(maps.Keys(w.c.Spec.Parameters)) {
		if !parameterForm.MatchString(name) || strings.ContainsAny(w.c.Spec.Parameters[name], "\n\r\x00") {
			return outcome.Fail(port.ParameterInvalid.Errorf("spec.parameters.%s cannot be written into a configuration", name).With("parameter", name))
		}
	}
	return outcome.Done()
}

// serving are the instances in a place, the writer first.
func (w *work) serving() []*port.Instance {
	var all []*port.Instance
	if writer := w.f.writer(); writer != nil {
		all = append(all, writer)
	}
	return append(all, w.f.readers()...)
}

// apply sets parameters on every engine that answers, on the writer first. One
// that does not is made anew with them, or gets them at its next start.
func (w *work) apply(ctx context.Context, params map[string]string) outcome.Outcome {
	for _, i := range w.serving() {
		if _, asked := w.f.Engines[i.Name]; !asked {
			continue
		}
		if err := w.ask(ctx, func(ctx context.Context) error {
			_, err := w.ports().Engine.Apply(ctx, w.ref.Of(i.Name), params)
			return err
		}); err != nil {
			return outcome.Fail(tagged(err, i.Name))
		}
	}
	return outcome.Done()
}

func applyParameters(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.safe(ctx); !ok {
		return out
	}
	class, _ := w.f.class(w.sizeNow())
	params := w.c.parameters(class)
	if out := w.apply(ctx, params); !out.IsDone() {
		return out
	}
	return outcome.Fail(w.t.Set(map[string]string{"hash": port.Hash(params)}))
}

// sizeNow is the class the writer has.
func (w *work) sizeNow() string {
	if leader := w.f.leader(); leader != nil {
		return leader.Class.Name
	}
	return w.c.className()
}

// applyClassParameters sets those of the run's class on all engines, and records them.
func applyClassParameters(ctx context.Context, w *work) outcome.Outcome {
	params := w.c.parameters(w.in.Class)
	if out := w.apply(ctx, params); !out.IsDone() {
		return out
	}
	return outcome.Fail(w.save(ctx, func(c *Cluster) { c.Status.ParametersHash = port.Hash(params) }))
}

// restartIfNeeded restarts the engines whose parameters wait for it: readers
// first, one at a time, the writer last.
func restartIfNeeded(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.keepHA(ctx); !ok {
		return out
	}
	all := w.f.readers()
	if leader := w.f.leader(); leader != nil {
		all = append(all, leader)
	}
	for _, i := range all {
		st, asked := w.f.Engines[i.Name]
		switch {
		case !asked || st.Code != "" && !st.Running:
			if leader := w.f.leader(); asked && leader != nil && leader.Name == i.Name {
				return outcome.Fail(coded(st, i.Name))
			}
		case st.Running && st.Restart:
			if err := w.ask(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
				return outcome.Fail(err)
			}
			return outcome.Wait(soonLook, "Restarting", "instance %s restarts", i.ID)
		case !st.Running:
			if err := w.ask(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
				return outcome.Fail(tagged(err, i.Name))
			}
			return outcome.Wait(soonLook, "Restarting", "instance %s restarts", i.ID)
		case !st.Ready && w.waited() < unhealthy:
			return outcome.Wait(soonLook, "Restarting", "instance %s restarts", i.ID)
		}
	}
	if ok, out := w.alive(); !ok {
		return out
	}
	return outcome.Done()
}

// recordParameters notes what was applied.
func recordParameters(ctx context.Context, w *work) outcome.Outcome {
	var applied struct {
		Hash string `json:"hash"`
	}
	if err := w.t.Output("ApplyParameters", &applied); err != nil {
		if err := w.t.Output("HA/ApplyParameters", &applied); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Fail(w.save(ctx, func(c *Cluster) { c.Status.ParametersHash = applied.Hash }))
}

// restartInstance restarts the engine of a place, or of the writer. It is done
// when the engine was started later than when the run was asked for.
func restartInstance(ctx context.Context, w *work) outcome.Outcome {
	var p struct {
		Writer bool `json:"writer"`
	}
	if err := w.t.With(&p); err != nil {
		return outcome.Fail(err)
	}
	i := w.f.leader()
	if !p.Writer {
		holders := w.f.holders(w.which())
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
		if ok, out := w.safe(ctx); !ok {
			return out
		}
	} else if ok, out := w.keepHA(ctx); !ok {
		return out
	}
	st, asked := w.f.Engines[i.Name]
	before, known := w.in.Started[i.Name]
	switch {
	case i.State == port.Down:
		if err := w.ask(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, *i); return err }); err != nil {
			return outcome.Fail(tagged(err, i.Name))
		}
		return w.await(soonLook, port.PodLost, "Restarting", "instance %s is started", i.ID)
	case !asked:
		return w.await(soonLook, port.PodLost, port.PodLost.Reason(), "instance %s cannot be asked", i.ID)
	case st.Running && known && st.Started.Equal(before):
		if err := w.ask(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Wait(soonLook, "Restarting", "instance %s restarts", i.ID)
	case !st.Running:
		if err := w.ask(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
			return outcome.Fail(tagged(err, i.Name))
		}
		return outcome.Wait(soonLook, "Restarting", "instance %s restarts", i.ID)
	case !st.Ready:
		return w.await(soonLook, port.StartFailed, "EngineStarting", "the engine of instance %s starts", i.ID)
	}
	return outcome.Done()
}
