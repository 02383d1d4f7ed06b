package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/notices"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Waiting is what the run of a cluster waits for.
type Waiting struct {
	Run   string    `json:"run"`
	Step  string    `json:"step" doc:"of the run"`
	For   string    `json:"for" doc:"what the step waits for: how many, which ones, at which URL"`
	Code  string    `json:"code,omitempty" doc:"of the newest failure"`
	Error string    `json:"error,omitempty" doc:"the newest failure in words"`
	Tries int       `json:"tries,omitempty" doc:"attempts of the step so far"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero" doc:"when the step gives up"`
	Next  time.Time `json:"next,omitzero" doc:"when it looks again; absent: when something happens"`
}

// Unseen is a provider that cannot be read. The state of its clusters has not
// been observed since Since.
type Unseen struct {
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// Explanation is the state of a cluster beyond its record.
type Explanation struct {
	Waiting *Waiting // nil: no run is active
	Unseen  *Unseen  // nil: its provider answers
}

// Explanations returns the Explanation of each cluster, by uuid. It needs one
// read of runs and one of records for all of them, and neither for clusters in
// stable states.
func (s *Explainer) Explanations(ctx context.Context, clusters []cluster.Cluster) (map[string]Explanation, error) {
	told, err := s.options.Store.Notices(ctx)
	if err != nil {
		return nil, err
	}
	waits, err := s.waits(ctx, clusters)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Explanation, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		explanation := Explanation{Waiting: waits[c.ID]}
		at := slices.IndexFunc(told, func(n cluster.Notice) bool {
			return n.Provider == c.Provider && n.Task == notices.Sync && !n.Since.IsZero()
		})
		if at >= 0 && c.State != cluster.Destroyed {
			explanation.Unseen = &Unseen{Code: string(told[at].Code), Text: told[at].Text, Since: told[at].Since}
		}
		all[c.UUID] = explanation
	}
	return all, nil
}

// Explanation returns the Explanation of one cluster; empty for an unknown one.
func (s *Explainer) Explanation(ctx context.Context, uuid string) (Explanation, error) {
	record, err := s.options.Store.Record(ctx, uuid)
	if errors.Is(err, cluster.NotFound) {
		return Explanation{}, nil
	}
	if err != nil {
		return Explanation{}, err
	}
	all, err := s.Explanations(ctx, []cluster.Cluster{record.Cluster})
	return all[record.Cluster.UUID], err
}

// Awaited returns what a run waits for; nil if the run has ended or belongs to
// no known cluster.
func (s *Explainer) Awaited(ctx context.Context, run *runtype.Run) (*Waiting, error) {
	uuid, ok := cluster.FromSubject(run.Subject)
	if !ok || run.Phase.Final() || run.Current() == nil {
		return nil, nil //nolint:nilnil // nothing is waited for
	}
	record, err := s.options.Store.Record(ctx, uuid)
	if errors.Is(err, cluster.NotFound) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, err
	}
	return s.awaited(run, record), nil
}

// waits returns what the runs of clusters wait for, by cluster id.
func (s *Explainer) waits(ctx context.Context, clusters []cluster.Cluster) (map[int64]*Waiting, error) {
	var runs []string
	for i := range clusters {
		if c := &clusters[i]; c.RunID != "" && cluster.Transient(c.State) {
			runs = append(runs, c.RunID)
		}
	}
	heads, err := s.currentRuns(ctx, runs)
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	records := map[int64]*cluster.Record{}
	var told []int64 // clusters whose records explain the wait
	for i := range clusters {
		c := &clusters[i]
		if run := heads[c.RunID]; run != nil {
			records[c.ID] = &cluster.Record{Cluster: *c}
			if rec := run.Current(); rec != nil && rec.Wait != nil && (rec.Wait.Reason == resources.WaitsForNodes || rec.Wait.Reason == resources.WaitsForProvider) {
				told = append(told, c.ID)
			}
		}
	}
	for some := range slices.Chunk(told, cluster.PageLimit) {
		if err := s.options.Store.Scan(ctx, cluster.ScanQuery{IDs: some}, func(b *cluster.Record) error {
			records[b.Cluster.ID] = b
			return nil
		}); err != nil {
			return nil, err
		}
	}
	waits := make(map[int64]*Waiting, len(records))
	for id, record := range records {
		if run := heads[record.Cluster.RunID]; run != nil {
			waits[id] = s.awaited(run, record)
		}
	}
	return waits, nil
}

// currentRuns reads runs with their current steps, by id, with one read if the
// store can list.
func (s *Explainer) currentRuns(ctx context.Context, ids []string) (map[string]*runtype.Run, error) {
	found := make(map[string]*runtype.Run, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	lister, ok := s.options.Runs.Store().(runstore.Lister)
	for some := range slices.Chunk(ids, cluster.PageLimit) {
		var runs []*runtype.Run
		var err error
		if ok {
			runs, _, err = lister.List(ctx, runstore.Query{IDs: some, Limit: len(some)})
		} else {
			runs, err = s.oneByOne(ctx, some)
		}
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			found[run.ID] = run
		}
	}
	return found, nil
}

func (s *Explainer) oneByOne(ctx context.Context, ids []string) (runs []*runtype.Run, err error) {
	for _, id := range ids {
		run, err := s.options.Runs.Get(ctx, id)
		switch {
		case errors.Is(err, workflow.RunNotFound):
		case err != nil:
			return nil, err
		default:
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// awaited returns what a run waits for; nil if it has ended or not begun.
func (s *Explainer) awaited(run *runtype.Run, record *cluster.Record) *Waiting {
	rec := run.Current()
	if run.Phase.Final() || rec == nil {
		return nil
	}
	step, flow := s.stepOf(run.Flow, rec.Name)
	w := &Waiting{Run: run.ID, Step: rec.Name, For: step.Description, Tries: rec.Attempt, Since: cmp.Or(rec.StartedAt, rec.AttemptAt), Next: rec.NextAt}
	begun := rec.AttemptAt
	if rec.Wait != nil {
		w.Since, begun = rec.Wait.Since, rec.Wait.Since
		w.For = s.waitText(record, rec.Wait)
	}
	if step.Timeout > 0 && !begun.IsZero() {
		w.Until = begun.Add(step.Timeout)
	}
	if end := run.StartedAt.Add(flow.Deadline); flow.Deadline > 0 && !run.StartedAt.IsZero() && (w.Until.IsZero() || end.Before(w.Until)) {
		w.Until = end
	}
	if rec.Wait != nil && !rec.Wait.Deadline.IsZero() {
		w.Until = rec.Wait.Deadline
	}
	if f := rec.Fault; f != nil && rec.Wait == nil {
		w.Code, w.Error = string(f.Code), f.Message
	}
	if run.Phase == runtype.Paused {
		w.For, w.Until, w.Next = "somebody to resume the run: it is paused", time.Time{}, time.Time{}
	}
	return w
}

// stepOf returns the step of a flow by the name of one of its instances.
func (s *Explainer) stepOf(flow, instance string) (workflow.Step, workflow.Flow) {
	at := slices.IndexFunc(s.options.Flows, func(f workflow.Flow) bool { return f.Name == flow })
	if at < 0 {
		return workflow.Step{}, workflow.Flow{}
	}
	f, found := &s.options.Flows[at], (*workflow.Step)(nil)
	lists := [][]workflow.Step{f.Steps, f.Finally}
	for part := range strings.SplitSeq(instance, "/") {
		name, _, _ := strings.Cut(part, "[")
		for _, steps := range lists {
			if i := slices.IndexFunc(steps, func(step workflow.Step) bool { return step.Name == name }); i >= 0 {
				found, lists = &steps[i], [][]workflow.Step{steps[i].Steps}
				break
			}
		}
	}
	if found == nil {
		return workflow.Step{}, *f
	}
	return *found, *f
}

// maxNamed is how many nodes or resources a text lists.
const maxNamed = 3

// waitText returns a text about the wait of a step, with counts from the
// record: the stored wait is written once and has no counts.
func (s *Explainer) waitText(record *cluster.Record, wait *runtype.WaitRecord) string {
	switch wait.Reason {
	case resources.WaitsForNodes:
		return s.awaitedNodes(record, wait)
	case resources.WaitsForProvider:
		return awaitedRows(record, wait)
	}
	return wait.Message
}

func (s *Explainer) awaitedNodes(record *cluster.Record, wait *runtype.WaitRecord) string {
	var silent []string
	nodes := 0
	for i := range record.Nodes {
		n := &record.Nodes[i]
		if !n.Removed.IsZero() {
			continue
		}
		nodes++
		switch {
		case n.NotReady != "":
			silent = append(silent, n.Name+" ("+n.NotReady+")")
		case n.ReadyAt.IsZero() && n.HeartbeatAt.IsZero():
			silent = append(silent, n.Name+" (it has never called home)")
		case n.ReadyAt.IsZero():
			silent = append(silent, n.Name+" (it is not ready)")
		case n.HeartbeatAt.Before(record.Cluster.StateSince) && record.Cluster.State != cluster.Scaling:
			silent = append(silent, n.Name+" (not heard since "+n.HeartbeatAt.UTC().Format(time.RFC3339)+")")
		}
	}
	text := fmt.Sprintf("%s: %d of %d are ready", wait.Message, nodes-len(silent), nodes)
	if len(silent) > 0 {
		text += ", not " + joinFirst(silent)
	}
	return text + "; nodes call " + s.options.HomeURL() + heartbeatPath
}

// heartbeatPath is the path for heartbeats of nodes.
const heartbeatPath = "/v1/nodes/heartbeat"

func awaitedRows(record *cluster.Record, wait *runtype.WaitRecord) string {
	var open, errs []string
	for i := range record.Journal {
		row := &record.Journal[i]
		switch {
		case row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Closing:
			open = append(open, row.Name)
		case row.Phase == cluster.Present && row.Kind == cluster.VM && (row.LastCode != "" || row.JobID != ""): // the VM is being started or stopped
			open = append(open, row.Name)
		default:
			continue
		}
		if row.LastCode != "" {
			text := fmt.Sprintf("%s: %s: %s", row.Name, row.LastCode, row.LastError)
			if row.Attempts > 1 {
				text += fmt.Sprintf(" (%d attempts)", row.Attempts)
			}
			errs = append(errs, text)
		}
	}
	text := wait.Message
	if len(open) > 0 {
		text += fmt.Sprintf(": %d, ", len(open)) + joinFirst(open)
	}
	if len(errs) > 0 {
		text += "; " + joinFirst(errs)
	}
	return text
}

func joinFirst(texts []string) string {
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(texts, ", ")
}
