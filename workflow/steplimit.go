package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow/limit"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// StepLimit says how many attempts of a key are open at once, or start in a window, in all workers of a store: those of
// steps that call one provider, say. A step acquires its limits before each attempt, undo and poll, and gives them back after
// it. While it waits for them it is Waiting, and uses neither a slot nor a goroutine.
type StepLimit struct {
	Key     func(View) (string, error) // computed when the step begins to need the limit; "": the limit does not apply
	KeyText string                     // source text of Key
	AtOnce  int                        // 0: any number, at most limit.MaxAtOnce
	Rate    runtype.Rate               // zero: any number

	starts bool // of runs: it shares nothing with limits of steps that have the same key
}

// startsMark ends the name of the document of the starts of runs of a key. A key has no control characters.
const startsMark = "\x01"

// ReasonLimit is the reason of a step, or of a run before its first step, that waits for a limit.
const ReasonLimit = "Limit"

// checkStepLimits returns what is wrong with the limits of a step or healer; "" if nothing is.
func checkStepLimits(limits []StepLimit) string {
	if len(limits) > runtype.MaxLimits {
		return "it has more than 8 limits"
	}
	rates := map[string]runtype.Rate{}
	for _, l := range limits {
		switch {
		case l.Key == nil:
			return "a limit has no key"
		case l.AtOnce == 0 && l.Rate.IsZero():
			return "a limit has neither atOnce nor a rate"
		case l.AtOnce < 0 || l.AtOnce > limit.MaxAtOnce:
			return fmt.Sprintf("atOnce of a limit is between 1 and %d", limit.MaxAtOnce)
		case l.Rate.Check() != nil:
			return l.Rate.Check().Error()
		}
		if l.KeyText == "" {
			continue // the key of a function: stepLimitKeys checks it
		}
		var err error
		if rates[l.KeyText], err = rates[l.KeyText].And(l.Rate); err != nil {
			return err.Error()
		}
	}
	return ""
}

// startRates are the rates of the runs of a flow.
func startRates(flow *Flow) (rates []StepLimit) {
	for _, l := range flow.Limits {
		if !l.Rate.IsZero() {
			rates = append(rates, StepLimit{Key: l.Key, KeyText: l.KeyText, Rate: l.Rate, starts: true})
		}
	}
	return rates
}

// usesStepLimits reports whether a step or a run of the flow may have to wait for a limit.
func (p *plan) usesStepLimits() bool {
	for _, n := range p.nodes {
		if len(n.step.Limits) > 0 {
			return true
		}
	}
	return len(startRates(p.flow)) > 0
}

// limitNeed is a limit that a part of the run needs: a step by its name, a healer by heal:CODE, the start of the run by "".
type limitNeed struct {
	limits []limit.Limit
	since  time.Time
	held   bool        // it holds its limits
	used   bool        // the newest decision needs them, or an attempt uses them
	wait   *limit.Wait // why it waits; nil: it has not asked yet
}

// limitNeeds is the part of a state that knows the limits of a run. It is derived: the store knows them too.
type limitNeeds struct {
	counted      bool // a driver asks the store; else nothing is limited
	needs        map[string]*limitNeed
	ended        []limit.Release // of attempts that have ended, and of needs that are gone, until the store has them back
	releaseAt    time.Time       // next try to return them, if the last one failed
	releaseTries int             // tries to return them that failed
	askAgain     bool            // something happened: ask again
}

// maxReleaseTries is how often a run that has nothing else to do tries to release its limits. Then it rests, and whoever
// waits for one finds that nobody uses it.
const maxReleaseTries = 10

// acquired reports whether a part of the run may go on. If not, the driver asks the store after this decision, which is
// then made again. err is the error of a key.
func (s *state) acquired(name string, limits []StepLimit, v View, since time.Time) (ok bool, err error) {
	if len(limits) == 0 || !s.counted {
		return true, nil
	}
	need := s.needs[name]
	if need == nil {
		keys, err := stepLimitKeys(limits, v)
		if err != nil || len(keys) == 0 {
			return err == nil, err
		}
		if since.IsZero() {
			since = s.now
		}
		need = &limitNeed{limits: keys, since: since}
		if s.needs == nil {
			s.needs = map[string]*limitNeed{}
		}
		s.needs[name] = need
	}
	need.used = true
	if !need.held && need.wait != nil {
		s.wakeAt(need.wait.AskAt)
	}
	return need.held, nil
}

// stepLimitKeys computes the keys of limits. Limits of one key are one limit: the smallest atOnce, and the rate that keeps all.
func stepLimitKeys(limits []StepLimit, v View) (keys []limit.Limit, err error) {
	defer recovered(&err)
	for _, l := range limits {
		key, err := l.Key(v)
		switch {
		case err != nil:
			return nil, err
		case key == "":
			continue
		case len(key) > runtype.MaxLimitKey || !validName(key):
			return nil, ExpressionFailed.Errorf("%.40q is not a valid key of a limit: at most %d bytes of UTF-8 without control characters", key, runtype.MaxLimitKey)
		}
		if l.starts {
			key += startsMark
		}
		k := limit.Limit{Key: key, Name: l.KeyText, AtOnce: l.AtOnce, Rate: l.Rate}
		i := slices.IndexFunc(keys, func(o limit.Limit) bool { return o.Key == key })
		if i < 0 {
			keys = append(keys, k)
			continue
		}
		if keys[i].AtOnce == 0 || k.AtOnce > 0 && k.AtOnce < keys[i].AtOnce {
			keys[i].AtOnce = k.AtOnce
		}
		if keys[i].Rate, err = keys[i].Rate.And(k.Rate); err != nil {
			return nil, ExpressionFailed.Errorf("limits of %s: %w", l.KeyText, err)
		}
	}
	return keys, nil
}

// limitText says for what a part of the run waits.
func limitText(w *limit.Wait) string {
	text := strings.TrimSuffix(w.Key, startsMark) + ": "
	if w.AtOnce > 0 && (w.Running >= w.AtOnce || w.Rate.IsZero()) {
		return text + fmt.Sprintf("%d at once", w.AtOnce)
	}
	return text + w.Rate.String()
}

// waitsForLimit records that a step waits for a limit, once the store has said so.
func (s walk) waitsForLimit(n *node, inst string, rec *runtype.StepRecord) visitResult {
	need := s.needs[inst]
	if need.wait == nil { // it has not asked yet
		s.undecided = true
		return busy
	}
	if rec != nil && rec.Wait != nil && !isLimitWait(n, rec) { // it has failed after a wait, whose time goes on
		s.retrying++
		return busy
	}
	s.waiting++
	if rec == nil {
		rec = s.record(inst)
	}
	if rec.Phase == runtype.StepPending {
		rec.StartedAt, rec.EndedAt, rec.Output, rec.Wait, rec.Progress = s.now, time.Time{}, nil, nil, nil
		rec.Attempt = 0
	}
	text := limitText(need.wait)
	if isLimitWait(n, rec) && rec.Wait.Message == text {
		return busy
	}
	since := need.since
	if rec.Wait != nil {
		since = rec.Wait.Since
	}
	rec.Phase, rec.NextAt, rec.Wait = runtype.StepWaiting, time.Time{}, &runtype.WaitRecord{Reason: ReasonLimit, Message: text, Since: since}
	s.put(rec)
	s.event(runtype.StepWaitingEvent, rec, runtype.Event{Reason: ReasonLimit, Message: text})
	return busy
}

// isLimitWait reports whether a step waits for a limit, and not for what its attempt has found.
func isLimitWait(n *node, rec *runtype.StepRecord) bool {
	return rec != nil && rec.Phase == runtype.StepWaiting && rec.Wait != nil && rec.Wait.Reason == ReasonLimit && len(n.step.Limits) > 0
}

// startAllowed reports whether the run may start its first step.
func (s decider) startAllowed() bool {
	rates := startRates(s.plan.flow)
	if !s.run.StartedAt.IsZero() || len(rates) == 0 {
		return true
	}
	ok, err := s.acquired("", rates, View{source: newRunSource{s.run}}, s.run.CreatedAt)
	switch {
	case err != nil:
		s.pause(s.expression("limits", err), runtype.Event{Actor: "engine"})
		return false
	case ok:
		s.run.StartedAt = s.now
		s.event(runtype.RunStarted, nil, runtype.Event{})
		return true
	}
	need := s.needs[""]
	if need.wait == nil {
		s.undecided = true
	} else if s.run.Phase != runtype.Waiting {
		s.run.Phase, s.changed = runtype.Waiting, true
		s.event(runtype.RunWaiting, nil, runtype.Event{Reason: ReasonLimit, Message: limitText(need.wait)})
	}
	return false
}

// limiting asks the store for the limits that the newest decision needs, and returns those that are not needed any more.
type limiting struct{ *driver }

func (d *driver) limiting() limiting { return limiting{d} }

// recall remembers for which limits the run has waited under its last worker, so that it can withdraw.
func (d limiting) recall() {
	for rec := range d.s.run.Steps() {
		n := d.s.plan.node(rec.Name)
		if n == nil || !isLimitWait(n, rec) {
			continue
		}
		if keys, err := stepLimitKeys(n.step.Limits, d.s.view(scopeOf(rec.Name))); err == nil && len(keys) > 0 {
			_, _ = d.s.acquired(rec.Name, n.step.Limits, d.s.view(scopeOf(rec.Name)), rec.Wait.Since)
		}
	}
	if rates := startRates(d.s.plan.flow); len(rates) > 0 && d.s.run.StartedAt.IsZero() && d.s.run.Phase != runtype.Queued {
		_, _ = d.s.acquired("", rates, View{source: newRunSource{d.s.run}}, d.s.run.CreatedAt)
	}
}

// releaseLimits releases the limit of an attempt that has ended. Another attempt of the step takes others.
func (s *state) releaseLimits(name string) {
	if need := s.needs[name]; need != nil {
		s.ended = append(s.ended, limit.Release{Step: name, Limits: need.limits})
		s.releaseAt, s.releaseTries = time.Time{}, 0
		delete(s.needs, name)
	}
}

// begin forgets what the last decision needed. Attempts that are open use their limits.
func (d limiting) begin() {
	for name, need := range d.s.needs {
		need.used = d.s.open[name] != nil
	}
}

// settle asks and returns. It reports whether there is something new to decide.
func (d limiting) settle() (again bool) {
	d.mu.Lock()
	for name, need := range d.s.needs {
		if !need.used {
			d.s.releaseLimits(name)
		}
	}
	d.mu.Unlock()
	if len(d.s.needs) == 0 && len(d.s.ended) == 0 {
		d.s.askAgain = false
		return false
	}
	r := limit.Request{Run: d.s.run.ID, Epoch: d.s.run.Epoch, Releases: d.s.ended}
	ask := len(d.s.ended) > 0 && !d.s.now.Before(d.s.releaseAt)
	for name, need := range d.s.needs {
		if !need.held && !d.s.drains {
			r.Acquires = append(r.Acquires, limit.Acquire{Step: name, Rank: limit.Rank(need.since, d.s.run.Priority), Limits: need.limits})
			ask = ask || need.wait == nil || d.s.askAgain || !d.s.now.Before(need.wait.AskAt)
		}
	}
	if !ask {
		return false
	}
	d.s.askAgain = false
	a, err := d.e.changeStepLimits(d.saveCtx, r)
	d.answered(r, a, err)
	d.e.wakeWaiters(d.saveCtx, a.Wake)
	return len(r.Acquires) > 0
}

// answered records what a request has brought.
func (d limiting) answered(r limit.Request, a limit.Answer, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	retryAt := d.s.now.Add(Retry{First: time.Second, Longest: 3 * time.Second}.delay(d.s.releaseTries+1, seed(r.Run, "", d.s.releaseTries))) // not in step with other runs
	if err != nil {
		d.e.health.failed(err)
		d.log.Warn("limits of steps", "run", r.Run, "error", err)
		d.s.releaseAt, d.s.releaseTries = retryAt, d.s.releaseTries+1
	} else {
		d.s.ended, d.s.releaseAt, d.s.releaseTries = nil, time.Time{}, 0
	}
	for _, w := range r.Acquires {
		wait, waits := a.Waits[w.Step]
		if err != nil {
			wait, waits = limit.Wait{Limit: w.Limits[0], AskAt: retryAt}, true
		}
		need := d.s.needs[w.Step]
		need.held, need.wait = !waits, &wait
	}
}

// holdsRest reports whether the run must not rest yet, because it still holds limits that it has released.
func (d limiting) holdsRest() bool {
	return len(d.s.ended) > 0 && d.s.releaseTries < maxReleaseTries
}

// giveBack releases all limits: the driver ends, and another worker goes on.
func (d limiting) giveBack() {
	for _, need := range d.s.needs {
		need.used = !need.held // waiters are kept
	}
	d.settle()
}

// changeStepLimits makes a request in one change of the store. If it has to wait, limits of workers that died are
// returned first.
func (e *Engine) changeStepLimits(ctx context.Context, r limit.Request) (a limit.Answer, err error) {
	store, ok := e.store.(runstore.StepLimiter)
	if !ok {
		return a, LimitsNotKept.Errorf("this store keeps no limits of steps and no rates")
	}
	keys := r.Keys()
	change := func() (wake []string, err error) {
		err = store.ChangeStepLimits(ctx, keys, func(now time.Time, documents [][]byte) ([][]byte, error) {
			states := map[string]*limit.State{}
			for i, key := range keys {
				s, err := limit.Decode(documents[i])
				if err != nil {
					return nil, runstore.StoreCorrupt.Errorf("the limit %s: %w", key, err)
				}
				states[key] = s
			}
			a = limit.Decide(now, states, r)
			list := make([][]byte, len(keys))
			for i, key := range keys {
				list[i] = states[key].Encode()
			}
			return list, nil
		})
		return a.Wake, err
	}
	wake, err := change()
	if err != nil || len(a.Check) == 0 {
		return a, err
	}
	if r.Lost, err = e.lostHolders(ctx, a.Check); err != nil || len(r.Lost) == 0 {
		return a, nil //nolint:nilerr // it is checked again
	}
	more, err := change()
	a.Wake = slices.Concat(wake, more)
	return a, err
}

// lostHolders finds those of the holders whose run has ended, rests, or has been claimed by another worker since: a limit
// is in use only while the worker that took it owns the run. A list of runs only shows whom to look at: that of a watch
// lags behind what another worker has created and claimed.
func (e *Engine) lostHolders(ctx context.Context, holders []limit.Holder) (lost []limit.Holder, err error) {
	listed, err := e.listed(ctx, holders)
	if err != nil {
		return nil, err
	}
	stored := map[string]*runtype.Run{}
	for _, h := range holders {
		if r := listed[h.Run]; r != nil && !isLost(h, r) {
			continue
		}
		r, known := stored[h.Run]
		if !known {
			r, _, err = e.store.Load(ctx, h.Run)
			if err != nil && !errors.Is(err, runstore.ErrNotFound) {
				return nil, err
			}
			stored[h.Run] = r
		}
		if isLost(h, r) {
			lost = append(lost, h)
		}
	}
	return lost, nil
}

// isLost reports whether nobody uses the limit of a holder any more. nil: the run does not exist.
func isLost(h limit.Holder, r *runtype.Run) bool {
	return r == nil || r.Phase.Final() || h.Epoch != limit.Ended && (r.Owner == "" || r.Epoch > h.Epoch)
}

// listed returns the runs of holders as far as the store lists them, by id, without their steps.
func (e *Engine) listed(ctx context.Context, holders []limit.Holder) (map[string]*runtype.Run, error) {
	runs := map[string]*runtype.Run{}
	lister, ok := e.store.(runstore.Lister)
	if !ok {
		return runs, nil
	}
	var ids []string
	for _, h := range holders {
		ids = append(ids, h.Run)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for page := range slices.Chunk(ids, 100) {
		list, _, err := lister.List(ctx, runstore.Query{IDs: page, Limit: len(page)})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			runs[r.ID] = r
		}
	}
	return runs, nil
}

// row returns a run, without its steps if the store lists it; nil: there is none.
func (e *Engine) row(ctx context.Context, id string) (*runtype.Run, error) {
	runs, err := e.listed(ctx, []limit.Holder{{Run: id}})
	if err != nil || runs[id] != nil {
		return runs[id], err
	}
	r, _, err := e.store.Load(ctx, id)
	if errors.Is(err, runstore.ErrNotFound) {
		return nil, nil
	}
	return r, err
}

// verbLimit tells a run that its turn for a limit has come.
const verbLimit = runtype.Verb("limit")

// wakeWaiters wakes runs that may hold a limit now. A message that is lost costs time: they ask by themselves later.
func (e *Engine) wakeWaiters(ctx context.Context, runs []string) {
	for _, id := range runs {
		payload, _ := json.Marshal(RunRequest{})
		signal := runtype.Signal{ID: fmt.Sprintf("limit/%d", now().UnixNano()), Name: reserved + string(verbLimit), Payload: payload, At: now()}
		if err := e.store.Send(ctx, id, signal); err != nil {
			e.log.Debug("a run that may hold a limit was not woken", "run", id, "error", err)
		}
	}
}

// StepLimitsOf returns the limits of steps for which a run waits, in the order of its steps, and the state of their keys. The step ""
// is the start of the run.
func (e *Engine) StepLimitsOf(ctx context.Context, r *runtype.Run) (list []StepLimitWait, err error) {
	store, ok := e.store.(runstore.StepLimiter)
	if !ok || r.Phase.Final() || r.Phase == runtype.Queued {
		return nil, nil
	}
	p, planErr := e.catalog.planOf(ctx, r)
	if planErr != nil || p == nil || !p.usesStepLimits() {
		return nil, nil // its limits are not known
	}
	s := newState(r, p, nil)
	add := func(step string, limits []StepLimit, v View) {
		keys, keyErr := stepLimitKeys(limits, v)
		if keyErr != nil {
			return
		}
		for _, l := range keys {
			state, err2 := e.stepLimitState(ctx, store, l.Key)
			if err2 != nil {
				err = err2
				continue
			}
			before, waits := state.Before(r.ID, step)
			if waits {
				l.Key = strings.TrimSuffix(l.Key, startsMark)
				list = append(list, StepLimitWait{Step: step, Limit: l, Running: len(state.Holders), Started: state.StartedIn(l.Rate.Window), Waiting: len(state.Waiters), Before: before, Holders: state.Holders})
			}
		}
	}
	if r.StartedAt.IsZero() {
		add("", startRates(p.flow), View{source: newRunSource{r}})
	}
	for rec := range r.Steps() {
		if n := p.node(rec.Name); n != nil && rec.Phase == runtype.StepWaiting && len(n.step.Limits) > 0 {
			add(rec.Name, n.step.Limits, s.view(scopeOf(rec.Name)))
		}
	}
	return list, err
}

// StepLimitWait is a limit for which a step waits.
type StepLimitWait struct {
	Step string
	limit.Limit
	Running, Started, Waiting, Before int
	Holders                           []limit.Holder
}

func (e *Engine) stepLimitState(ctx context.Context, store runstore.StepLimiter, key string) (state *limit.State, err error) {
	err = store.ChangeStepLimits(ctx, []string{key}, func(now time.Time, documents [][]byte) ([][]byte, error) {
		if state, err = limit.Decode(documents[0]); err != nil {
			return nil, runstore.StoreCorrupt.Errorf("the limit %s: %w", key, err)
		}
		state.Settle(now)
		return documents, nil
	})
	return state, err
}

// forgetStarts removes the documents of keys that nobody has used within their windows. A key may never be used again.
func (e *Engine) forgetStarts(ctx context.Context) error {
	store, ok := e.store.(runstore.StepLimiter)
	if !ok {
		return nil
	}
	for after := ""; ; {
		page, err := store.StepLimits(ctx, after, 0)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, k := range page {
			after = k.Key
			if !limit.IsOver(now(), k.Document) {
				continue
			}
			err := store.ChangeStepLimits(ctx, []string{k.Key}, func(now time.Time, documents [][]byte) ([][]byte, error) {
				if limit.IsOver(now, documents[0]) {
					return [][]byte{nil}, nil
				}
				return documents, nil
			})
			if err != nil {
				return err
			}
		}
	}
}

// StepLimits returns the states of the keys of limits of steps and of rates of runs, behind after, in order. most 0: 1,000. The two
// states of one key are not divided: there may be one more.
func (e *Engine) StepLimits(ctx context.Context, after string, most int) (list []KeyState, err error) {
	store, ok := e.store.(runstore.StepLimiter)
	if !ok {
		return nil, nil
	}
	if after != "" {
		after += startsMark
	}
	documents, err := store.StepLimits(ctx, after, most)
	if err == nil && len(documents) > 0 {
		var more []runstore.KeyState
		last := documents[len(documents)-1].Key
		if more, err = store.StepLimits(ctx, last, 1); len(more) > 0 && more[0].Key == last+startsMark {
			documents = append(documents, more[0])
		}
	}
	if err != nil {
		return nil, err
	}
	for _, k := range documents {
		state, err := limit.Decode(k.Document)
		if err != nil {
			return nil, runstore.StoreCorrupt.Errorf("the limit %s: %w", k.Key, err)
		}
		key, starts := strings.CutSuffix(k.Key, startsMark)
		list = append(list, KeyState{key, starts, state})
	}
	return list, nil
}

// KeyState is a key and its state.
type KeyState struct {
	Key    string
	Starts bool // of runs; false: of steps
	*limit.State
}
