package sharedstorage

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// restoredAfter is how long an undo waits for an instance to come back.
const restoredAfter = 5 * time.Minute

// choice is the output of ChooseCandidate.
type choice struct {
	Name string `json:"name,omitempty"` // of the reader that becomes the writer
	Old  string `json:"old,omitempty"`  // of the present writer, which is recreated after the switch
	Skip bool   `json:"skip,omitempty"`
}

// chooseCandidate chooses the reader that takes over before the writer is recreated: one that runs as
// the run wants and has caught up.
func chooseCandidate(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	writer := w.f.writer()
	if w.fits(writer) { // a failover has made a recreated reader the writer
		return outcome.Fail(w.t.Set(choice{Skip: true}))
	}
	var best *port.Instance
	for _, i := range w.f.readers() {
		st := w.f.Engines[i.Name]
		if i.State != port.Up || !w.fits(i) || !st.Ready || st.Role != port.Follower || !st.Streaming || st.Lag < 0 || st.Lag >= caughtUpBytes {
			continue
		}
		if best == nil || st.Lag < w.f.Engines[best.Name].Lag {
			best = i
		}
	}
	if best == nil {
		return w.await(pollSoon, port.SwitchRefused, "NoCandidate", "no recreated reader has caught up with the writer")
	}
	return outcome.Fail(w.t.Set(choice{Name: best.Name, Old: writer.Name}))
}

// wanted returns an instance as the run wants it to run. Its class is read anew, because it may have
// been mended since the run began.
func (w *work) wanted(i *port.Instance) port.Instance {
	want := w.want(i.Name, i.ID, i.Type, i)
	if class, known := w.f.class(want.Class.Name); known {
		want.Class = class
	}
	want.Template = w.c.template(want.Class, want.Version)
	return want
}

// fits reports whether an instance runs as the run wants.
func (w *work) fits(i *port.Instance) bool {
	want := w.wanted(i)
	if i.Template == "" {
		want.Template = "" // unknown: class and version decide
	}
	return i.RunsAs(want)
}

// recreateInstance makes an instance run as the run wants, on the data that it has.
//
//	with: {id: "3"}      the reader in this place
//	with: {old: true}    the former writer, after ChooseCandidate and the switch
//	with: {alone: true}  the only instance of the cluster: writes pause until it is back
func recreateInstance(ctx context.Context, w *work) outcome.Outcome {
	i, alone := w.recreated()
	if i == nil {
		return outcome.Done()
	}
	if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	if !alone {
		if ok, out := w.checkWriter(); !ok {
			return out
		}
		if w.f.writer().Name == i.Name || w.f.Volume.Writer == i.Name {
			return outcome.Done() // a failover has made it the writer: RecreateWriter, or a later run, recreates it
		}
		if i.Type == port.Writer {
			retyped := *i
			retyped.Type = port.Reader
			if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, retyped); return err }); err != nil {
				return outcome.Fail(err)
			}
		}
	}
	if !w.fits(i) {
		return w.runAs(ctx, i, w.wanted(i))
	}
	started := w.ensureUp(ctx, i)
	if why := w.failedAsWanted(i, started); why != "" {
		return w.giveBack(ctx, i, why)
	}
	return w.awaitBack(ctx, i, started)
}

// recreated returns the instance that a step recreates, and whether it is the only one. nil: it is
// gone, or there was no reason to recreate it.
func (w *work) recreated() (i *port.Instance, alone bool) {
	var p struct {
		ID    string `json:"id"`
		Old   bool   `json:"old"`
		Alone bool   `json:"alone"`
	}
	_ = w.t.With(&p) // the flows of this package name one of them
	switch {
	case p.Alone:
		return w.f.leader(), true
	case p.Old:
		var c choice
		if err := w.t.Output("ChooseCandidate", &c); err != nil || c.Skip {
			return nil, false
		}
		return w.f.named(c.Old), false
	}
	for _, i := range w.f.holders(p.ID) {
		return i, false
	}
	return nil, false
}

// runAs ends what runs of an instance and starts it again on its data. Its parameters come first: an
// engine starts with those that it was told last.
func (w *work) runAs(ctx context.Context, i *port.Instance, want port.Instance) outcome.Outcome {
	if st, asked := w.f.Engines[i.Name]; asked && st.Installed {
		if err := w.applyTo(ctx, i, w.c.parameters(want.Class)); err != nil {
			return outcome.Fail(err)
		}
	}
	if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Recreate(ctx, w.ref, want); return err }); err != nil {
		return outcome.Fail(withInstance(err, i.Name))
	}
	return w.await(pollSoon, port.PodLost, "Recreating", "instance %s is recreated on its data", i.ID)
}

// ensureUp starts an instance that is down. Its error is why nobody lets it start, such as a quota.
func (w *work) ensureUp(ctx context.Context, i *port.Instance) error {
	if i.State != port.Down {
		return nil
	}
	return w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, *i); return err })
}

// failedAsWanted returns why a recreated instance will not come up; empty: it may. started is the answer
// of ensureUp.
func (w *work) failedAsWanted(i *port.Instance, started error) string {
	st, asked := w.f.Engines[i.Name]
	switch {
	case i.State == port.Unscheduled && (w.o.now().Sub(i.Since) >= unscheduledAfter || w.waited() >= unscheduledAfter):
		return cmp.Or(i.Message, "no node takes it")
	case started != nil && w.waited() >= candidateDownAfter:
		return fault.Message(started)
	case i.State == port.Down && w.waited() >= candidateDownAfter:
		return cmp.Or(i.Message, "it does not run")
	case asked && !st.Ready && st.Code != "" && st.Code != string(port.WriterUnhealthy.Code) && w.waited() >= unhealthyAfter:
		return st.Code + ": " + st.Message
	}
	return ""
}

// giveBack makes an instance run as it did before the run, because its data serve nobody while it does
// not come up.
func (w *work) giveBack(ctx context.Context, i *port.Instance, why string) outcome.Outcome {
	former, known := w.in.Former[i.Name]
	if !known {
		return outcome.Fail(RecreateFailed.Errorf("instance %s: %s", i.ID, why).With("instance", i.Name))
	}
	if out := w.runAs(ctx, i, former); out.IsFail() {
		return out
	}
	return outcome.Fail(RecreateFailed.Errorf("instance %s: %s; it is given back its class %s", i.ID, why, former.Class.Name).With("instance", i.Name))
}

// awaitBack waits until a recreated instance answers, and its engine unless the step of a switch
// starts that.
func (w *work) awaitBack(ctx context.Context, i *port.Instance, started error) outcome.Outcome {
	st, asked := w.f.Engines[i.Name]
	switch {
	case started != nil:
		return w.await(pollSoon, port.PodLost, "Recreating", "instance %s is not started: %s", i.ID, fault.Message(started))
	case i.State != port.Up || !asked:
	case st.Ready, !st.Installed: // without data it gets them in the next step
		return outcome.Done()
	case !st.Running:
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
			return w.await(pollSoon, port.StartFailed, "EngineStarting", "the engine of instance %s does not start: %s", i.ID, err)
		}
	}
	return w.await(pollSoon, port.PodLost, "Recreating", "instance %s is recreated on its data", i.ID)
}

// restoreInstance is the undo of RecreateInstance: the instance runs as it did before, and follows the
// writer again before the next one is restored.
func restoreInstance(ctx context.Context, w *work) outcome.Outcome {
	i, alone := w.recreated()
	if i == nil {
		return outcome.Done()
	}
	former, known := w.in.Former[i.Name]
	writer := w.f.writer()
	if !known || !alone && (w.f.Volume.Writer == i.Name || writer != nil && writer.Name == i.Name) {
		return outcome.Done() // it was not recreated by this run, or a failover has made it the writer
	}
	if !i.RunsAs(former) {
		return w.runAs(ctx, i, former)
	}
	st := w.f.Engines[i.Name]
	if i.State == port.Up && st.Ready && (alone || st.Streaming || writer == nil) || w.waited() >= restoredAfter {
		return outcome.Done() // one that does not come back is repaired at rest
	}
	return w.awaitBack(ctx, i, w.ensureUp(ctx, i))
}
