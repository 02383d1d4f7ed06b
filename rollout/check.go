package rollout

import "time"

// Check is a gate, metric, webhook or probe of the current batch, and what is known of it.
type Check struct {
	Kind string `json:"kind"` // Gate, Metric, Webhook, Probe
	Name string `json:"name"`
	// Wants is what must hold: an expression, a range, a URL or flow.
	Wants string `json:"wants,omitempty"`
	When  string `json:"when,omitempty"`
	// Verdict is Passed, Failed, Inconclusive or Skipped, of a gate also Open or Closed; empty: it was not
	// decided yet.
	Verdict  string     `json:"verdict,omitempty"`
	Value    string     `json:"value,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Passed   int        `json:"passed,omitempty"` // measurements of a metric, or pods of a probe
	Of       int        `json:"of,omitempty"`     // so many must pass
	Since    *time.Time `json:"since,omitempty"`  // of a gate: when it was first found closed
	Next     *time.Time `json:"next,omitempty"`   // the next attempt
}

// Checks are those of the current batch, in the order in which a batch meets them. A rollback has hooks and
// probes only.
func Checks(p Plan, at Position, f Facts) []Check {
	if at.State != InBatch && at.State != RollingBack || len(at.Batches) == 0 {
		return nil
	}
	plan := judgementOf(p, at, f).p
	var all []Check
	add := func(c Check, phase string) {
		so, known := at.Answers[f.key(at, phase, c.Name)]
		if known && c.Kind == "Gate" && so.Verdict == "" {
			so.Verdict = "Open"
			if so.Since != nil {
				so.Verdict = "Closed"
			}
		}
		c.Verdict, c.Value, c.Attempts, c.Next, c.Since = so.Verdict, so.Value, so.Attempts, so.Next, so.Since
		if so.Measured != nil {
			c.Passed = so.Measured.Passed
		}
		all = append(all, c)
	}
	forward := at.State == InBatch
	gates := func(when GateWhen) {
		if !forward {
			return
		}
		for _, g := range plan.gates(when, at.CurrentBatch) {
			add(Check{Kind: "Gate", Name: g.Name, Wants: g.Expression, When: string(when)}, "gate")
		}
	}
	hooks := func(t HookType, phase string) {
		for _, h := range plan.hooks(t, at.CurrentBatch) {
			wants := h.URL
			if h.Flow != "" {
				wants = "flow " + h.Flow
			}
			add(Check{Kind: "Webhook", Name: h.Name, Wants: wants, When: string(t)}, phase)
		}
	}
	gates(BeforeBatch)
	hooks(PreBatchHook, "batchInitializing")
	gates(BeforePod)
	for _, probe := range plan.Probes {
		all = append(all, f.probed(probe.Name))
	}
	gates(AfterBatch)
	for _, m := range plan.metrics(at.CurrentBatch) {
		if !forward {
			break
		}
		m = m.defaulted("")
		add(Check{Kind: "Metric", Name: m.Name, Wants: m.MetricsRange.text(), When: "every " + m.Interval.String(), Of: m.Count}, "metric")
	}
	hooks(PostBatchHook, "batchFinalizing")
	return all
}

// probed is how many pods a probe has passed on.
func (f Facts) probed(name string) Check {
	c := Check{Kind: "Probe", Name: name}
	for _, p := range f.Pods {
		so, ok := p.Probes[name]
		if !ok {
			continue
		}
		c.Of++
		if so.Passing {
			c.Passed++
		}
		if so.Failed {
			c.Verdict = verdictFailed
		}
	}
	return c
}

// text is the range as it is written: 0 to 0.05, at most 0.05, at least 1.
func (r Range) text() string {
	switch {
	case r.Min != nil && r.Max != nil:
		return r.Min.String() + " to " + r.Max.String()
	case r.Min != nil:
		return "at least " + r.Min.String()
	case r.Max != nil:
		return "at most " + r.Max.String()
	}
	return ""
}
