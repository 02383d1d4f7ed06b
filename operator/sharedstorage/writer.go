package sharedstorage

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// candidate returns the name of the instance that becomes the writer: the recreated reader that was
// chosen, the temporary reader of a replacement, or the instance in the requested place.
func (w *work) candidate() (name string, skip bool, err error) {
	var chosen choice
	if err := w.t.Output("ChooseCandidate", &chosen); err == nil {
		return chosen.Name, chosen.Skip, nil
	}
	if a, err := w.allocated(); err == nil {
		if !a.Skip && w.f.named(a.Name) == nil {
			return "", false, w.temporaryLost(a, a.Name)
		}
		return a.Name, a.Skip, nil
	}
	holders := w.f.holders(w.in.ID)
	if len(holders) == 0 {
		return "", false, w.refusal("").Errorf("there is no instance %s", w.in.ID)
	}
	return holders[0].Name, false, nil
}

// refusal returns the fault of a switch whose candidate cannot take over. A candidate with the
// grant counts as the writer: no other instance may write before a person decides.
func (w *work) refusal(candidate string) *fault.Kind {
	if granted := w.f.Volume.Writer; granted != "" && (granted == candidate || w.f.named(granted) == nil) {
		return port.WriterUnhealthy
	}
	return port.SwitchRefused
}

// checkCandidate rejects a reader that cannot take over now. It restarts one that has just gone
// down, since the writer still works.
func checkCandidate(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip {
		return outcome.Fail(err)
	}
	if writer := w.f.writer(); writer != nil && writer.Name == name {
		return outcome.Done() // it is the writer already
	}
	switch st := w.f.Engines[name]; {
	case !st.Ready:
		return w.bringBack(ctx, name)
	case st.Role != port.Follower:
		return outcome.Fail(port.SwitchRefused.Errorf("instance %s is no reader", name))
	case w.f.writer() != nil && !st.Streaming:
		return w.awaitStreaming(ctx, name)
	case w.f.writer() != nil && st.Lag >= 16*caughtUpBytes:
		return outcome.Fail(port.SwitchRefused.Errorf("instance %s is %d bytes behind", name, st.Lag))
	}
	return outcome.Done()
}

// awaitStreaming waits a short time for a candidate that does not stream from the writer: it may
// have just started.
func (w *work) awaitStreaming(ctx context.Context, name string) outcome.Outcome {
	if w.waited() < unhealthyAfter {
		writer := w.f.writer().Name // the writer may have got another address
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(name), writer) }); err != nil {
			return outcome.Fail(withInstance(err, name))
		}
		return outcome.Wait(pollSoon, "CandidateBehind", "instance %s does not stream from the writer yet", name)
	}
	return outcome.Fail(port.SwitchRefused.Errorf("instance %s does not stream from the writer", name))
}

// fenced is the output of FenceOldWriter.
type fenced struct {
	Old string `json:"old,omitempty"`
	End uint64 `json:"end,omitempty"`
}

// fenceOldWriter stops the writer, so that its log ends.
func fenceOldWriter(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip {
		return outcome.Fail(err)
	}
	if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	if w.promoted(name) {
		return outcome.Done()
	}
	// The writer stops only if the candidate can take over.
	switch st := w.f.Engines[name]; {
	case !st.Ready:
		return w.bringBack(ctx, name)
	case st.Role != port.Follower:
		return outcome.Fail(port.SwitchRefused.Errorf("instance %s does not answer as a reader", name))
	case w.f.writer() != nil && !st.Streaming:
		return w.awaitStreaming(ctx, name)
	}
	old, stopped, out := w.stopWriter(ctx, name)
	if !out.IsDone() || !stopped {
		return out
	}
	return outcome.Fail(w.t.Set(fenced{Old: old, End: w.f.Engines[old].Position}))
}

// promoted reports whether the instance writes already.
func (w *work) promoted(name string) bool {
	st := w.f.Engines[name]
	return st.Running && st.Role == port.Primary && w.f.Volume.Writer == name
}

// stopWriter stops every engine that writes, except the candidate's. stopped means that none
// writes any more; old is the instance that had the grant.
func (w *work) stopWriter(ctx context.Context, candidate string) (old string, stopped bool, out outcome.Outcome) {
	for _, i := range w.f.primaries() {
		if i.Name == candidate {
			continue
		}
		w.ordered(false)
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) }); err != nil {
			return "", false, outcome.Fail(err)
		}
		return i.Name, false, w.await(w.soon(), port.SwitchRefused, "WriterStopping", "the engine of instance %s stops", i.Name)
	}
	old = w.f.Volume.Writer
	if i := w.f.named(old); i != nil && i.State == port.Up {
		st, asked := w.f.Engines[old]
		if !asked {
			return old, false, w.await(pollSoon, port.SwitchRefused, "WriterNotAsked", "instance %s cannot be asked whether it has stopped", old)
		}
		if old != candidate && st.Running && st.Role == port.NoRole { // it is stopping or starting: its log has no end yet
			if w.sinceOrder() >= unhealthyAfter {
				if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(old), port.Immediate) }); err != nil {
					return "", false, outcome.Fail(err)
				}
			}
			return old, false, w.await(w.soon(), port.SwitchRefused, "WriterStopping", "the engine of instance %s stops", old)
		}
	}
	return old, true, outcome.Done()
}

// unfenceOldWriter starts the old writer again, if no other instance became the writer.
func unfenceOldWriter(ctx context.Context, w *work) outcome.Outcome {
	old := w.f.Volume.Writer
	if len(w.f.primaries()) > 0 || old == "" || w.f.named(old) == nil {
		return outcome.Done()
	}
	if st, asked := w.f.Engines[old]; !asked || st.Running {
		return outcome.Done()
	}
	if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(old)) }); err != nil {
		return outcome.Fail(withInstance(err, old))
	}
	return outcome.Done()
}

// awaitCandidateComplete waits until the candidate has the whole log. A failover may have happened
// while the run was paused; then it stops the newer writer first.
func awaitCandidateComplete(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip || w.promoted(name) {
		return outcome.Fail(err)
	}
	if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	return w.complete(ctx, name)
}

// complete is Done when nobody writes and the candidate has the whole log.
func (w *work) complete(ctx context.Context, name string) outcome.Outcome {
	st, asked := w.f.Engines[name]
	ready := asked && st.Ready
	writer := w.f.Volume.Writer
	if is := w.f.Engines[writer]; writer != name && is.Running && !(ready && st.Streaming && st.Upstream == writer && st.Lag < caughtUpBytes) &&
		(is.Role != port.NoRole || w.sinceOrder() < unhealthyAfter) { // otherwise it hangs
		return w.catchUp(ctx, name, writer)
	}
	old, stopped, out := w.stopWriter(ctx, name)
	if !out.IsDone() || !stopped {
		return out
	}
	if !ready {
		return w.bringBack(ctx, name)
	}
	if old == name {
		return outcome.Done()
	}
	if end, ok := w.f.Engines[old]; ok && end.Clean {
		if st.Position >= end.Position {
			return outcome.Done()
		}
		if max(st.Received, st.Position) < end.Position {
			return w.resendLog(ctx, name, old)
		}
		return w.await(w.soon(), port.SwitchRefused, "CandidateBehind", "instance %s has not replayed all that %s has written", name, old)
	}
	return w.checkWithoutLogEnd(name, old)
}

// resendLog starts the old writer again, so that the candidate receives the end of the log that it
// missed. Before that the candidate has some time to reach the end by itself.
func (w *work) resendLog(ctx context.Context, name, old string) outcome.Outcome {
	if last, _ := w.lastOrder(); last.starts < 2 && w.sinceOrder() >= candidateBehindAfter { // no other instance can send it
		w.ordered(true)
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(old)) }); err != nil {
			return outcome.Fail(withInstance(err, old))
		}
	}
	return w.await(pollSoon, port.SwitchRefused, "CandidateBehind", "instance %s has not all that %s has written", name, old)
}

// catchUp makes the candidate follow a writer that writes or starts again: a failover happened, or
// the candidate missed the end of the log.
func (w *work) catchUp(ctx context.Context, name, writer string) outcome.Outcome {
	st := w.f.Engines[name]
	switch {
	case !st.Ready:
		return w.bringBack(ctx, name)
	case st.Upstream != writer || !st.Streaming: // repeated on every poll: the writer may have got another address
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(name), writer) }); err != nil {
			return outcome.Fail(withInstance(err, name))
		}
	}
	return w.await(pollSoon, port.SwitchRefused, "CandidateBehind", "instance %s catches up with %s", name, writer)
}

// bringBack starts a candidate that went down as a follower again. Nobody may write meanwhile, so
// it waits only briefly: a run that gives up closes its bracket, and that starts the old writer.
func (w *work) bringBack(ctx context.Context, name string) outcome.Outcome {
	st, asked := w.f.Engines[name]
	i, refused := w.f.named(name), w.refusal(name)
	switch {
	case i == nil:
		return outcome.Fail(refused.Errorf("instance %s is not there any more", name).With("instance", name))
	case st.Code != "":
		return outcome.Fail(refused.Errorf("instance %s has fallen: %w", name, engineFault(st, name)).With("instance", name))
	case asked && !st.Installed:
		return outcome.Fail(refused.Errorf("instance %s has lost its data", name).With("instance", name))
	case w.waited() >= candidateDownAfter:
		return outcome.Fail(refused.Errorf("instance %s has fallen, and is not back after %s", name, candidateDownAfter).With("instance", name))
	}
	var err error
	switch {
	case !asked:
		err = w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, *i); return err })
	case st.Installed && !st.Running:
		err = w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(name)) })
	}
	if err != nil {
		return outcome.Fail(withInstance(err, name))
	}
	return w.await(pollSoon, refused, "CandidateNotReady", "instance %s does not answer", name)
}

// checkWithoutLogEnd judges a candidate when the old writer cannot say where its log ends.
func (w *work) checkWithoutLogEnd(name, old string) outcome.Outcome {
	mine := w.f.Engines[name]
	for _, i := range w.f.Instances {
		st, asked := w.f.Engines[i.Name]
		switch {
		case i.Name == name, i.Name == old && st.Role != port.Follower: // it cannot say where its log ends
		case asked && st.Installed && max(st.Position, st.Received) > max(mine.Position, mine.Received):
			return outcome.Fail(port.SwitchRefused.Errorf("instance %s has more of the log than %s", i.Name, name))
		case !asked && contains(w.f.Topology.Sync, i.Name) && w.c.Spec.Durability != "available":
			return outcome.Fail(port.FailoverUnsafe.Errorf("reader %s cannot be asked, and may have what %s lacks", i.Name, name))
		}
	}
	return outcome.Done()
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// promoteCandidate gives the grant to the candidate and promotes it. After this only another
// switch leads back.
func promoteCandidate(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip {
		return outcome.Fail(err)
	}
	if ok, out := w.extendHAOff(ctx); !ok {
		return out
	}
	made := w.f.named(name)
	if !w.promoted(name) {
		// The run may have been paused after AwaitCandidateComplete, and somebody may write again.
		if out := w.complete(ctx, name); !out.IsDone() {
			return out
		}
		if out := w.awaitNoStart(ctx, name); !out.IsDone() {
			return out
		}
		if err := w.grant(ctx, name); err != nil {
			return outcome.Fail(err)
		}
		if err := w.observe(ctx); err != nil {
			return outcome.Fail(err)
		}
		if err := w.call(ctx, func(ctx context.Context) error {
			return w.ports().Engine.Promote(ctx, w.ref.Of(name), w.f.Volume.Epoch)
		}); fault.Of(err) == port.SwitchRefused { // it went down after the check
			return w.await(pollSoon, w.refusal(name), "CandidateNotReady", "%s", fault.Message(err))
		} else if err != nil {
			return outcome.Fail(err)
		}
	}
	if st := w.f.Engines[name]; !st.Ready || st.Role != port.Primary {
		return w.await(w.soon(), port.WriterUnhealthy, "Promoting", "instance %s becomes the writer", name)
	}
	if made != nil && made.Type == port.Reader {
		retyped := *made
		retyped.Type = port.Writer
		if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, retyped); return err }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// awaitNoStart makes sure that no start of the old writer is under way when its grant is taken,
// because an agent records an order and carries it out a little later.
func (w *work) awaitNoStart(ctx context.Context, name string) outcome.Outcome {
	old := w.f.Volume.Writer
	_, asked := w.f.Engines[old]
	if last, known := w.lastOrder(); old == name || !asked || known && last.starts == 0 {
		return outcome.Done()
	}
	if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(old), port.Fast) }); err != nil {
		return outcome.Fail(err)
	}
	if err := w.observe(ctx); err != nil {
		return outcome.Fail(err)
	}
	return w.complete(ctx, name)
}

// followNewWriter makes all other readers follow the new writer.
func followNewWriter(ctx context.Context, w *work) outcome.Outcome {
	name, skip, err := w.candidate()
	if err != nil || skip {
		return outcome.Fail(err)
	}
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	writer := w.f.writer().Name
	for _, i := range w.f.Instances {
		st, asked := w.f.Engines[i.Name]
		if i.Name == writer || i.Name == name || !asked || !st.Running || st.Role != port.Follower || st.Upstream == writer && st.Streaming {
			continue
		}
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(i.Name), writer) }); err != nil {
			return outcome.Fail(withInstance(err, i.Name))
		}
		if w.waited() < unhealthyAfter { // a reader that does not come back is rebuilt later
			return outcome.Wait(pollSoon, "Following", "instance %s turns to the new writer", i.Name)
		}
	}
	return outcome.Done()
}

// rejoinOldWriter makes the old writer follow the new one.
func rejoinOldWriter(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkHA(ctx); !ok {
		return out
	}
	writer := w.f.writer()
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		if i.Name == writer.Name || i.State != port.Up || i.Type == port.Temporary {
			continue
		}
		if i.Type == port.Writer {
			retyped := *i
			retyped.Type = port.Reader
			if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, retyped); return err }); err != nil {
				return outcome.Fail(err)
			}
		}
		st, asked := w.f.Engines[i.Name]
		if !asked || st.Running && st.Streaming {
			continue
		}
		// Repeated on every poll: the writer may have got another address.
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(i.Name), writer.Name) }); err != nil {
			return outcome.Fail(withInstance(err, i.Name))
		}
		if !st.Running || st.Upstream != writer.Name {
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Start(ctx, w.ref.Of(i.Name)) }); err != nil {
				return outcome.Fail(withInstance(err, i.Name))
			}
		}
		return w.await(pollSoon, port.StartFailed, "Rejoining", "instance %s joins as a reader", i.Name)
	}
	return outcome.Done()
}
