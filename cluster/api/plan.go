package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// DryRun describes the effect of a change. Nothing is stored.
type DryRun struct {
	Steps     []DryRunStep      `json:"steps"`
	Resources []DryRunResource  `json:"resources"`
	Findings  []cluster.Finding `json:"findings"` // a finding with a code prevents the change, one without is a remark
}

// Err returns the fault of the first finding that prevents the change; nil if
// there is none.
func (p *DryRun) Err() error { return capacity.Refusal(p.Findings) }

// DryRunStep is a step that would run.
type DryRunStep struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Timeout string `json:"timeout,omitempty"`
	Tries   int    `json:"tries,omitempty"`
}

// DryRunResource is a resource that would be created, changed or deleted.
type DryRunResource struct {
	Act  string       `json:"act"` // create, delete, start, stop, adopt, replace, upgrade (in place), forget, close
	Kind cluster.Kind `json:"kind"`
	Name string       `json:"name"`
	Role cluster.Role `json:"role,omitempty"`
}

// PlanCreate returns what Create would do. Nothing is stored or created. A limit
// of the account or of the provider's capacity is a finding.
func (s *Planner) PlanCreate(ctx context.Context, who cluster.Caller, r CreateRequest) (*DryRun, error) {
	c, _, err := s.requests.drafter.draft(ctx, who, r)
	if err != nil {
		return nil, err
	}
	record := &cluster.Record{Cluster: *c}
	plan := &DryRun{Steps: s.stepsOf(cluster.FlowStart, cluster.RunInput{Event: cluster.OnStart, From: cluster.Created, First: true})}
	if c.Network.ID == "" {
		plan.add("create", cluster.Network, cluster.ResourceName(c, "network"), "")
	}
	plan.addNodes(record, cluster.Control, c.ControlCount)
	plan.addNodes(record, cluster.Worker, c.NodeCount)
	plan.Findings, err = s.options.Capacity.Findings(ctx, c, c.ControlCount+c.NodeCount, 0, capacity.NotCounted)
	return plan, err
}

// PlanChange returns what Change would do. Nothing is stored or created.
func (s *Planner) PlanChange(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*DryRun, error) {
	record, err := s.requests.reader.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	was := record.Cluster
	plan := &DryRun{Steps: []DryRunStep{}, Resources: []DryRunResource{}, Findings: []cluster.Finding{}}
	change, err := s.requests.decide(ctx, who, record, r, "")
	if kind := fault.Of(err); r.Kind == cluster.RequestUpgrade && (kind == cluster.DowntimeRefused || kind == cluster.LastControl) { // the plan reports what the caller must allow
		plan.Findings = append(plan.Findings, cluster.Finding{Type: cluster.PlanObstacle, Code: kind.Code, Evidence: fault.Message(err)})
		r.Downtime, r.Consent = true, kind == cluster.LastControl
		change, err = s.requests.decide(ctx, who, record, r, "")
	}
	if err != nil {
		return nil, err
	}
	if change.Jobs[len(change.Jobs)-1].Status == cluster.JobDone {
		return plan, nil
	}
	c := &record.Cluster
	in := cluster.RunInput{Cluster: c.UUID, Event: cluster.DueEvent(c, nil, s.options.Now()), From: was.State, Request: c.Request, Deleting: r.Kind == cluster.RequestDelete}
	switch r.Kind {
	case cluster.RequestStart:
		plan.Steps = s.stepsOf(cluster.FlowStart, in)
		plan.act("start", record.Nodes, "")
	case cluster.RequestStop:
		plan.Steps = s.stepsOf(cluster.FlowStop, in)
		plan.act("stop", record.Nodes, "")
	case cluster.RequestDelete:
		if was.State == cluster.Running {
			plan.Steps = s.stepsOf(cluster.FlowStop, in)
		}
		plan.Steps = append(plan.Steps, s.stepsOf(cluster.FlowDelete, in)...)
		plan.close(record)
	case cluster.RequestUpgrade:
		plan.Steps = s.stepsOf(cluster.FlowScale, in)
		plan.upgrade(s.options.Upgrades.Order(record, c.Request))
	case cluster.RequestRecover:
		return s.planRecovery(ctx, record, plan, c.Request)
	case cluster.RequestScale:
		if was.State == cluster.Alert {
			return s.planRecovery(ctx, record, plan, c.Request)
		}
		plan.Steps = s.stepsOf(cluster.FlowScale, in)
		return s.planScale(ctx, record, plan, was.NodeCount)
	}
	return plan, nil
}

// PlanPatch returns what Patch would do. Nothing is stored or created.
func (s *Planner) PlanPatch(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*DryRun, error) {
	record, err := s.requests.reader.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	was := record.Cluster
	change, err := s.requests.decidePatch(ctx, who, record, r)
	if err != nil {
		return nil, err
	}
	plan, c := &DryRun{Steps: settingsOf(&was, &record.Cluster), Resources: []DryRunResource{}, Findings: []cluster.Finding{}}, &record.Cluster
	switch {
	case len(change.Jobs) == 0 || change.Jobs[0].Status == cluster.JobDone:
		return plan, nil
	case was.State == cluster.Alert:
		more, err := s.planRecovery(ctx, record, new(DryRun), c.Request)
		if err == nil {
			plan.Steps, plan.Resources, plan.Findings = append(plan.Steps, more.Steps...), append(plan.Resources, more.Resources...), append(plan.Findings, more.Findings...)
		}
		return plan, err
	}
	in := cluster.RunInput{Cluster: c.UUID, Event: cluster.DueEvent(c, nil, s.options.Now()), From: was.State, Request: c.Request}
	plan.Steps = append(plan.Steps, s.stepsOf(cluster.FlowScale, in)...)
	if c.NodeCount == was.NodeCount { // the rules alone
		return plan, nil
	}
	return s.planScale(ctx, record, plan, was.NodeCount)
}

// settingsOf returns the settings that a patch changes, as steps.
func settingsOf(was, is *cluster.Cluster) []DryRunStep {
	steps := []DryRunStep{}
	for _, s := range []struct{ name, was, is string }{
		{"description", was.Description, is.Description},
		{"recovery", policyText(was.Recovery), policyText(is.Recovery)},
		{"onFailure", string(was.OnFailure), string(is.OnFailure)},
		{"cidrs", strings.Join(was.CIDRs, ","), strings.Join(is.CIDRs, ",")},
		{"size", strconv.Itoa(was.NodeCount), strconv.Itoa(is.NodeCount)},
		{"gc", strconv.FormatBool(was.GC), strconv.FormatBool(is.GC)},
	} {
		if s.was != s.is {
			steps = append(steps, DryRunStep{Name: "set", Text: s.name + " becomes " + cmp.Or(s.is, "the default") + ", it was " + cmp.Or(s.was, "the default")})
		}
	}
	return steps
}

// policyText formats a recovery policy; empty for the default.
func policyText(r cluster.Recovery) string {
	if r == nil {
		return ""
	}
	words := make([]string, len(r))
	for i, remedy := range r {
		words[i] = string(remedy)
	}
	return cmp.Or(strings.Join(words, ","), "none")
}

// PlanForget returns what Forget would do. It reads each open resource once
// more. Nothing is stored.
func (s *Planner) PlanForget(ctx context.Context, who cluster.Caller, uuid, confirm string) (*DryRun, error) {
	record, err := s.requests.forgettable(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	rows, err := s.requests.decideForget(ctx, record, confirm)
	if err != nil {
		return nil, err
	}
	plan := &DryRun{
		Steps:     []DryRunStep{{Name: "forget", Text: "nothing is deleted; the cluster becomes Destroyed, what is left stays in the leak report"}},
		Resources: []DryRunResource{}, Findings: []cluster.Finding{},
	}
	for _, row := range rows {
		act := "forget"
		if row.Phase == cluster.Gone {
			act = "close"
		}
		plan.add(act, row.Kind, row.Name, row.Spec.Role)
	}
	return plan, nil
}

// planScale plans a scale. was is the former desired number of workers.
func (s *Planner) planScale(ctx context.Context, record *cluster.Record, plan *DryRun, was int) (*DryRun, error) {
	c, have := &record.Cluster, livingWorkers(record.Nodes)
	if more := c.NodeCount - len(have); more > 0 && len(c.Request.Victims) == 0 {
		plan.addNodes(record, cluster.Worker, more)
		var err error
		plan.Findings, err = s.options.Capacity.Findings(ctx, c, more, c.NodeCount-was, capacity.WithFormerSize)
		return plan, err
	}
	var victims []cluster.Node
	if len(c.Request.Victims) > 0 {
		victims = slices.DeleteFunc(have, func(n cluster.Node) bool { return !slices.Contains(c.Request.Victims, n.Name) })
	} else {
		var err error
		if victims, err = cluster.Victims(record.Nodes, nil, c.NodeCount); err != nil {
			return nil, err
		}
	}
	plan.act("delete", victims, cluster.Worker)
	return plan, nil
}

// planRecovery plans a recovery. It observes the cluster first.
func (s *Planner) planRecovery(ctx context.Context, record *cluster.Record, plan *DryRun, ask *cluster.Request) (*DryRun, error) {
	seen, err := s.options.Observer.Observe(ctx, record)
	if err != nil {
		return nil, err
	}
	if seen.Err != nil { // without an observation nothing is repaired
		kind := fault.Of(seen.Err)
		plan.Findings = append(plan.Findings, cluster.Finding{Type: cluster.Unreachable, Code: kind.Code, Evidence: fault.Message(seen.Err)})
		return plan, nil //nolint:nilerr // the finding reports it
	}
	policy := ask.Recovery
	if policy == nil {
		policy = cluster.Recovery{cluster.Restart, cluster.Replace}
	}
	work := cluster.PlanRecovery(record, seen, policy, cluster.RecoveryOptions{
		Consent: ask.Consent, MaxUnavailable: s.options.Settings.MaxUnavailable, Now: s.options.Now(), Tolerances: s.options.Settings.Health(s.options.Versions),
	})
	plan.Steps = s.stepsOf(cluster.FlowRecover, cluster.RunInput{Cluster: record.Cluster.UUID, Event: cluster.OnRecover, From: cluster.Alert, Request: ask})
	plan.act("start", work.Start, "")
	plan.act("replace", work.Replace, "")
	for _, more := range work.Create {
		plan.addNodes(record, more.Role, more.Count)
	}
	for _, r := range work.Adopt {
		plan.add("adopt", r.Kind, r.Name, "")
	}
	for _, r := range work.Remove {
		plan.add("delete", r.Kind, r.Name, "")
	}
	plan.act("delete", work.Drop, "")
	for _, row := range work.Repair {
		plan.add("create", row.Kind, row.Name, "")
	}
	plan.Findings = append(plan.Findings, work.Forbidden...)
	return plan, nil
}

// stepsOf returns the steps of a flow without those that a run with this input
// would skip.
func (s *Planner) stepsOf(flow string, in cluster.RunInput) []DryRunStep {
	passed := map[string]bool{}
	if input, err := json.Marshal(in); err == nil {
		if plan, err := s.options.Runs.Plan(flow, input); err == nil { // otherwise all steps are returned
			for _, step := range plan.Steps {
				passed[step.Name] = step.Decision == "skip"
			}
		}
	}
	steps := []DryRunStep{}
	for _, f := range s.options.Flows {
		if f.Name == flow {
			steps = appendSteps(steps, slices.DeleteFunc(slices.Clone(f.Steps), func(s workflow.Step) bool { return passed[s.Name] }))
		}
	}
	return steps
}

func appendSteps(steps []DryRunStep, of []workflow.Step) []DryRunStep {
	for _, step := range of {
		p := DryRunStep{Name: step.Name, Text: step.Description, Tries: step.Retry.Attempts}
		timeout := step.Timeout
		if step.Wait != nil && step.Wait.Deadline > 0 {
			timeout = step.Wait.Deadline
		}
		if timeout > 0 {
			p.Timeout = timeout.Round(time.Second).String()
		}
		steps = append(steps, p)
		if step.Do == nil {
			steps = appendSteps(steps, step.Steps)
		}
	}
	return steps
}

func (p *DryRun) add(act string, kind cluster.Kind, name string, role cluster.Role) {
	p.Resources = append(p.Resources, DryRunResource{Act: act, Kind: kind, Name: name, Role: role})
}

func (p *DryRun) act(act string, nodes []cluster.Node, role cluster.Role) {
	for _, n := range nodes {
		if role == "" || n.Role == role {
			p.add(act, cluster.VM, n.Name, n.Role)
		}
	}
}

// upgrade adds the nodes of an upgrade, in order.
func (p *DryRun) upgrade(order []upgrade.Batch) {
	for _, b := range order {
		act := "replace"
		if b.InPlace {
			act = "upgrade"
			p.Findings = append(p.Findings, cluster.Finding{Type: cluster.Downtime, Resource: b.Names[0],
				Evidence: "the only control node is upgraded in place: the endpoint does not answer meanwhile, its state stays"})
		}
		for _, name := range b.Names {
			p.add(act, cluster.VM, name, b.Role)
		}
	}
}

func (p *DryRun) addNodes(record *cluster.Record, role cluster.Role, count int) {
	next := cluster.NextOrdinal(record, role)
	for i := range count {
		p.add("create", cluster.VM, cluster.NodeName(&record.Cluster, role, next+i), role)
	}
}

// close adds the resources that a deletion removes, rules first and the network
// last.
func (p *DryRun) close(record *cluster.Record) {
	order := []cluster.Kind{cluster.Forward, cluster.Balancer, cluster.Firewall, cluster.VM, cluster.Address, cluster.Network}
	rows := slices.DeleteFunc(slices.Clone(record.Journal), func(r cluster.JournalRow) bool {
		return !r.Phase.Open() || r.Origin == cluster.OriginGiven
	})
	slices.SortStableFunc(rows, func(a, b cluster.JournalRow) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	for _, r := range rows {
		p.add("delete", r.Kind, r.Name, "")
	}
}
