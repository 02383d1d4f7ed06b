package flowfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// ChangeKind is the kind of a difference between two definitions.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
	Moved   ChangeKind = "moved"
)

// Change is one difference. Step is the instance name without the keys of loops; it is "" for the
// flow itself.
type Change struct {
	Kind  ChangeKind `json:"kind"`
	Step  string     `json:"step,omitempty"`
	After string     `json:"after,omitempty"` // the step that precedes it now; "" at the beginning
	What  []string   `json:"what,omitempty"`  // fields that differ, "timeout: 5m0s → 10m0s"
}

// String is the line of `pawl diff`.
func (c Change) String() string {
	place := "as the first"
	if c.After != "" {
		place = "after " + c.After
	}
	switch c.Kind {
	case Added:
		return fmt.Sprintf("+ %s %s", c.Step, place)
	case Removed:
		return "- " + c.Step
	case Moved:
		return fmt.Sprintf("> %s now %s", c.Step, place)
	}
	name := c.Step
	if name == "" {
		name = "(flow)"
	}
	return fmt.Sprintf("~ %s  %s", name, strings.Join(c.What, "; "))
}

// FlowDiff is the difference between two definitions of a flow.
type FlowDiff struct {
	Flow    string   `json:"flow"`
	OldHash string   `json:"oldHash"`
	NewHash string   `json:"newHash"`
	Changes []Change `json:"changes,omitempty"`
}

// HashDiffers reports whether runs of the old definition are affected. Changes of retries, timeouts
// and descriptions do not change the hash; they take effect at the next attempt.
func (d FlowDiff) HashDiffers() bool { return d.OldHash != d.NewHash }

// String returns one line per change.
func (d FlowDiff) String() string {
	lines := make([]string, len(d.Changes))
	for i, c := range d.Changes {
		lines[i] = c.String()
	}
	return strings.Join(lines, "\n")
}

// Diff compares two definitions of a flow step by step.
func Diff(old, fresh workflow.Flow) (FlowDiff, error) {
	d := FlowDiff{Flow: fresh.Name}
	var err error
	if d.OldHash, err = workflow.Hash(old); err != nil {
		return d, err
	}
	if d.NewHash, err = workflow.Hash(fresh); err != nil {
		return d, err
	}
	if what := differ(headOf(old), headOf(fresh)); what != nil {
		d.Changes = append(d.Changes, Change{Kind: Changed, What: what})
	}
	d.siblings(old.Steps, fresh.Steps, "")
	d.siblings(old.Finally, fresh.Finally, "")
	return d, nil
}

// DiffSets compares the flows of two loads by name. If only one load has a flow, the other hash is
// empty. If each load has one flow, they are compared whatever their names are.
func DiffSets(old, fresh *Set) ([]FlowDiff, error) {
	if len(old.flows) == 1 && len(fresh.flows) == 1 {
		d, err := Diff(old.flows[0], fresh.flows[0])
		return []FlowDiff{d}, err
	}
	byName := map[string][2]*workflow.Flow{}
	for side, set := range []*Set{old, fresh} {
		for i := range set.flows {
			pair := byName[set.flows[i].Name]
			pair[side] = &set.flows[i]
			byName[set.flows[i].Name] = pair
		}
	}
	var all []FlowDiff
	for _, name := range keysOf(byName) {
		pair := byName[name]
		d := FlowDiff{Flow: name}
		var err error
		switch {
		case pair[0] == nil:
			d.NewHash, err = workflow.Hash(*pair[1])
		case pair[1] == nil:
			d.OldHash, err = workflow.Hash(*pair[0])
		default:
			d, err = Diff(*pair[0], *pair[1])
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// siblings compares two sequences of steps with the same parent.
func (d *FlowDiff) siblings(old, fresh []workflow.Step, path string) {
	stay := inOrder(namesOf(old), namesOf(fresh))
	known := map[string]*workflow.Step{}
	for i := range old {
		known[old[i].Name] = &old[i]
	}
	for i := range old {
		if !slices.ContainsFunc(fresh, func(s workflow.Step) bool { return s.Name == old[i].Name }) {
			d.Changes = append(d.Changes, Change{Kind: Removed, Step: path + old[i].Name})
		}
	}
	after := ""
	for i := range fresh {
		s := &fresh[i]
		was := known[s.Name]
		switch {
		case was == nil:
			d.Changes = append(d.Changes, Change{Kind: Added, Step: path + s.Name, After: after})
		case !stay[s.Name]:
			d.Changes = append(d.Changes, Change{Kind: Moved, Step: path + s.Name, After: after})
		}
		if was != nil {
			if what := differ(fieldsOf(was), fieldsOf(s)); what != nil {
				d.Changes = append(d.Changes, Change{Kind: Changed, Step: path + s.Name, What: what})
			}
			d.siblings(within(was), within(s), path+s.Name+"/")
		}
		after = path + s.Name
	}
}

// within returns the steps inside a step, including the ends of a bracket.
func within(s *workflow.Step) []workflow.Step {
	all := slices.Clone(s.Steps)
	if s.Open != nil {
		all = slices.Insert(all, 0, *s.Open)
	}
	if s.Close != nil {
		all = append(all, *s.Close)
	}
	return all
}

func namesOf(steps []workflow.Step) []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return names
}

// maxCompared limits the table of inOrder. Beyond it, only steps at the same position count as
// unmoved.
const maxCompared = 2_000

// inOrder returns the names that have kept their order: the longest common subsequence.
func inOrder(a, b []string) map[string]bool {
	stay := map[string]bool{}
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		stay[a[begin]] = true
		begin++
	}
	a, b = a[begin:], b[begin:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		stay[a[len(a)-1]] = true
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) > maxCompared || len(b) > maxCompared {
		return stay
	}
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			stay[a[i]] = true
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return stay
}

// field is one property of a step or flow, as text.
type field struct{ name, value string }

// differ lists the fields that differ.
func differ(old, fresh []field) []string {
	var what []string
	for i, f := range fresh {
		if was := old[i].value; was != f.value {
			what = append(what, fmt.Sprintf("%s: %s → %s", f.name, short(was), short(f.value)))
		}
	}
	return what
}

func short(value string) string {
	if value == "" {
		return "none"
	}
	if r := []rune(value); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return value
}

func headOf(f workflow.Flow) []field {
	return []field{
		{"version", textUnlessZero(f.Version)}, {"description", f.Description}, {"input", schemaText(f.Input)},
		{"recoverFromFirstStep", textUnlessZero(f.RecoverFromFirstStep)}, {"deadline", textUnlessZero(f.Deadline)}, {"onDeadline", string(f.OnDeadline)},
		{"onChange", string(f.OnChange)}, {"result", f.ResultText}, {"limits.attempts", textUnlessZero(f.Limit)}, {"limits.runs", runLimitsText(f.Limits)}, {"retention", retentionText(f.Retention)}, {"migrations", textUnlessZero(f.Migrations)},
	}
}

func runLimitsText(limits []workflow.RunLimit) string {
	var all []string
	for _, l := range limits {
		all = append(all, limitText(l.KeyText, l.AtOnce, l.Rate))
	}
	return strings.Join(all, ", ")
}

func stepLimitsText(limits []workflow.StepLimit) string {
	var all []string
	for _, l := range limits {
		all = append(all, limitText(l.KeyText, l.AtOnce, l.Rate))
	}
	return strings.Join(all, ", ")
}

func limitText(key string, atOnce int, rate runtype.Rate) string {
	var parts []string
	if atOnce > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", atOnce))
	}
	if !rate.IsZero() {
		parts = append(parts, rate.String())
	}
	return key + ": " + strings.Join(parts, " and ")
}

func fieldsOf(s *workflow.Step) []field {
	var undo, wait, every, onTimeout, payload, loop string
	switch {
	case s.Undo != nil:
		undo = "Go"
	case s.UndoCall != nil:
		undo = strings.TrimSpace(s.UndoCall.Uses + " " + string(s.UndoCall.With))
	}
	if w := s.Wait; w != nil {
		wait, every, onTimeout, payload = waitNote(w), textUnlessZero(w.Every), string(w.OnTimeout), schemaText(w.Schema)
	}
	if l := s.ForEach; l != nil {
		loop = fmt.Sprintf("%s of %s by %s, %d at once", l.As, l.ListText, l.KeyText, max(l.Max, 1))
	}
	kind := "step"
	switch {
	case s.Do != nil:
		kind = "Go"
	case s.Parallel > 0:
		kind = "parallel"
	case s.Steps != nil:
		kind = "steps"
	}
	return []field{
		{"kind", kind}, {"uses", s.Uses}, {"with", string(s.With)}, {"flow", s.Flow}, {"when", s.WhenText}, {"forEach", loop}, {"wait", wait},
		{"wait.every", every}, {"wait.onTimeout", onTimeout}, {"wait.schema", payload},
		{"parallel.max", textUnlessZero(s.Parallel)}, {"undo", undo}, {"noReturn", textUnlessZero(s.NoReturn)}, {"skippable", textUnlessZero(s.Skippable)},
		{"retry", retryText(s.Retry)}, {"timeout", textUnlessZero(s.Timeout)}, {"heartbeat", textUnlessZero(s.Heartbeat)}, {"grace", textUnlessZero(s.Grace)},
		{"output", schemaText(s.Output)}, {"limits.output", textUnlessZero(s.MaxOutput)}, {"limits", stepLimitsText(s.Limits)}, {"secrets", textUnlessZero(s.Secrets)}, {"description", s.Description},
	}
}

// textUnlessZero returns a value as text; "" for the zero value.
func textUnlessZero[T any](v T) string {
	data, err := json.Marshal(v)
	switch string(data) {
	case "0", "false", "null", `""`, "{}", "[]":
		return ""
	}
	if s, ok := any(v).(fmt.Stringer); ok {
		return s.String()
	}
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

func retryText(r workflow.Retry) string {
	var parts []string
	for _, f := range []field{{"attempts", textUnlessZero(r.Attempts)}, {"first", textUnlessZero(r.First)}, {"factor", textUnlessZero(r.Factor)}, {"longest", textUnlessZero(r.Longest)}, {"jitter", textUnlessZero(r.Jitter)}, {"not", textUnlessZero(r.Not)}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	return strings.Join(parts, ", ")
}

func retentionText(r *runtype.Retention) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("age %s, keep %d, most %d", r.Age, r.Keep, r.Max)
}

func schemaText(s workflow.Schema) string {
	if s == nil {
		return ""
	}
	data, err := s.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(data)
}
