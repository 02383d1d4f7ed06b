package workflow

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// RunLimit says how many runs of a key run at once. A run that has to wait is Queued. It holds its limits until it
// ends, also while it is Waiting or Paused.
type RunLimit struct {
	Key     func(View) (string, error) // computed when the run is started; it may read the run and its input; "": the limit does not apply
	KeyText string                     // source text of Key
	AtOnce  int                        // runs of the key at once; 0: any number, if there is a Rate
	Rate    runtype.Rate               // runs of the key that start in a window; a run whose time has not come is Waiting; sub-flows count too
}

// FixedKey returns the Key of a limit for all runs of a flow.
func FixedKey(key string) func(View) (string, error) {
	return func(View) (string, error) { return key, nil }
}

// checkRunLimits returns what is wrong with the limits of a flow; "" if nothing is.
func checkRunLimits(limits []RunLimit) string {
	if len(limits) > runtype.MaxLimits {
		return "it has more than 8 limits of runs"
	}
	rates := map[string]runtype.Rate{}
	for _, l := range limits {
		switch {
		case l.Key == nil:
			return "a limit of its runs has no key"
		case l.AtOnce < 0 || l.AtOnce == 0 && l.Rate.IsZero():
			return "a limit of its runs allows none at once: atOnce is at least 1"
		case l.Rate.Check() != nil:
			return "a limit of its runs: " + l.Rate.Check().Error()
		}
		if l.KeyText == "" {
			continue // the key of a function: stepLimitKeys checks it
		}
		var err error
		if rates[l.KeyText], err = rates[l.KeyText].And(l.Rate); err != nil {
			return "a limit of its runs: " + err.Error()
		}
	}
	return ""
}

// limit computes the limits of a new run. The run of a sub-flow or healer acquires no limit beside those of the runs
// that wait for it: they could wait for each other for ever.
func (e *Engine) limit(ctx context.Context, flow *Flow, usesStepLimits bool, r *runtype.Run) error {
	for _, l := range flow.Limits {
		key, err := l.Key(View{source: newRunSource{r}})
		if err != nil {
			return runtype.InputInvalid.Errorf("the key %s of a limit of %s: %w", l.KeyText, flow.Name, err)
		}
		if key == "" {
			continue
		}
		if len(key) > runtype.MaxLimitKey || !validName(key) {
			return runtype.InputInvalid.Errorf("%.40q is not a valid key of a limit of %s: at most %d bytes of UTF-8 without control characters", key, flow.Name, runtype.MaxLimitKey)
		}
		if l.AtOnce == 0 {
			continue // a rate, which counts when the run starts: see startAllowed
		}
		if i := slices.IndexFunc(r.Limits, func(o runtype.Limit) bool { return o.Key == key }); i >= 0 {
			r.Limits[i].AtOnce = min(r.Limits[i].AtOnce, l.AtOnce)
			continue
		}
		r.Limits = append(r.Limits, runtype.Limit{Key: key, AtOnce: l.AtOnce})
	}
	if _, ok := e.store.(runstore.StepLimiter); !ok && usesStepLimits {
		return LimitsNotKept.Errorf("the flow %s has rates or limits of steps, and this store keeps none", flow.Name)
	}
	if len(r.Limits) == 0 {
		return nil
	}
	slices.SortFunc(r.Limits, func(a, b runtype.Limit) int { return strings.Compare(a.Key, b.Key) })
	if _, ok := e.store.(runstore.RunLimiter); !ok {
		return LimitsNotKept.Errorf("the flow %s has limits, and this store keeps none", flow.Name)
	}
	held, err := e.heldKeys(ctx, r.Parent)
	if err != nil || len(held) == 0 {
		return err
	}
	for _, l := range r.Limits {
		if !slices.Contains(held, l.Key) {
			return LimitNotHeld.Errorf("the flow %s needs the limit %s, and its parent runs hold %s", flow.Name, l.Key, strings.Join(held, ", ")).With("key", l.Key)
		}
	}
	r.Limits = nil
	return nil
}

// heldKeys returns the keys of a run and its parents. It reads their rows, not their steps.
func (e *Engine) heldKeys(ctx context.Context, id string) (keys []string, err error) {
	for id != "" {
		r, err := e.row(ctx, id)
		if err == nil && r == nil {
			err = runstore.ErrNotFound
		}
		if err != nil {
			return nil, runError(id, err)
		}
		for _, l := range r.Limits {
			keys = append(keys, l.Key)
		}
		id = r.Parent
	}
	return keys, nil
}

// newRunSource answers a View of a run that is being started.
type newRunSource struct{ run *runtype.Run }

func (s newRunSource) info() RunInfo                               { return infoOf(s.run) }
func (s newRunSource) input() json.RawMessage                      { return s.run.Input }
func (s newRunSource) lookup(string) (StepView, bool)              { return StepView{}, false }
func (s newRunSource) item(string, string) (json.RawMessage, bool) { return nil, false }
func (s newRunSource) params(string) (json.RawMessage, error)      { return json.RawMessage("{}"), nil }
func (s newRunSource) object() (json.RawMessage, error)            { return json.RawMessage("null"), nil }
