package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// ApplicationKind is the kind of the objects that Application reads.
const ApplicationKind = "Application"

// Application is an Application of a cluster: its components, its revisions and the Rollout that it drives.
type Application struct {
	Object     control.Ref            `json:"object"`
	Latest     string                 `json:"latestRevision,omitempty"`
	Reached    string                 `json:"reachedRevision,omitempty"`
	Behind     bool                   `json:"behind,omitempty"` // the status is of an older spec
	Components []ApplicationComponent `json:"components"`
	Revisions  []ApplicationRevision  `json:"revisions,omitempty"` // the oldest first
	Conditions []Condition            `json:"conditions,omitempty"`
	Rollout    *Rollout               `json:"rollout,omitempty"`
	CreatedAt  time.Time              `json:"createdAt,omitzero"`
}

// ApplicationComponent is one workload of an Application.
type ApplicationComponent struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Workload string `json:"workload" doc:"its name in the newest revision"`
	Replicas int    `json:"replicas" doc:"the size that is asked for"`
	Reached  *int   `json:"reached,omitempty" doc:"the size of the revision that was reached"`
	Planned  bool   `json:"planned,omitempty" doc:"the Rollout moves it"`
}

// ApplicationRevision is a revision of an Application.
type ApplicationRevision struct {
	Name      string            `json:"name"`
	Hash      string            `json:"hash"`
	Workloads map[string]string `json:"workloads" doc:"by component"`
	CreatedAt time.Time         `json:"createdAt,omitzero"`
}

// IsApplication reports whether an object is an Application of Pawl: other programs have kinds of that name.
func IsApplication(o control.Object) bool {
	var spec struct{ Components []json.RawMessage }
	return o.Kind == ApplicationKind && json.Unmarshal(o.Spec, &spec) == nil && len(spec.Components) > 0
}

// ApplicationOf reads an Application with its revisions; r is the Rollout that it drives, nil without one.
func ApplicationOf(o control.Object, revisions []control.Object, r *Rollout) (Application, error) {
	a := Application{Object: o.Ref, CreatedAt: o.CreatedAt, Rollout: r, Components: []ApplicationComponent{}}
	var spec struct {
		Components []struct {
			Name     string
			Workload struct {
				Kind string
				Spec struct{ Replicas *int }
			}
		}
		RolloutComponent string
	}
	var status struct {
		ObservedGeneration              int64
		LatestRevision, ReachedRevision string
		ReachedReplicas                 map[string]int
		Conditions                      []Condition
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return a, rollout.StateUnknown.Errorf("the spec of %s cannot be read: %w", o.Ref, err)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &status); err != nil {
			return a, rollout.StateUnknown.Errorf("the status of %s cannot be read: %w", o.Ref, err)
		}
	}
	a.Latest, a.Reached, a.Conditions, a.Behind = status.LatestRevision, status.ReachedRevision, status.Conditions, status.ObservedGeneration < o.Generation
	for _, of := range revisions {
		if revision, ok := revisionOf(of); ok && strings.HasPrefix(of.Name, o.Name+"-v") {
			a.Revisions = append(a.Revisions, revision)
		}
	}
	number := func(r ApplicationRevision) int {
		n, err := strconv.Atoi(strings.TrimPrefix(r.Name, o.Name+"-v"))
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortFunc(a.Revisions, func(x, y ApplicationRevision) int { return cmp.Compare(number(x), number(y)) })
	for _, c := range spec.Components {
		one := ApplicationComponent{Name: c.Name, Kind: c.Workload.Kind, Workload: c.Name, Replicas: 1, Planned: c.Name == spec.RolloutComponent}
		if c.Workload.Spec.Replicas != nil {
			one.Replicas = *c.Workload.Spec.Replicas
		}
		if n, ok := status.ReachedReplicas[c.Name]; ok {
			one.Reached = &n
		}
		if i := len(a.Revisions); i > 0 {
			one.Workload = cmp.Or(a.Revisions[i-1].Workloads[c.Name], c.Name)
		}
		a.Components = append(a.Components, one)
	}
	return a, nil
}

func revisionOf(o control.Object) (ApplicationRevision, bool) {
	var spec struct {
		Hash       string
		Components []struct{ Name, WorkloadName string }
	}
	if json.Unmarshal(o.Spec, &spec) != nil {
		return ApplicationRevision{}, false
	}
	r := ApplicationRevision{Name: o.Name, Hash: spec.Hash, Workloads: map[string]string{}, CreatedAt: o.CreatedAt}
	for _, c := range spec.Components {
		r.Workloads[c.Name] = c.WorkloadName
	}
	return r, true
}

// Is reports whether a condition is True.
func (a Application) Is(kind string) bool {
	return slices.ContainsFunc(a.Conditions, func(c Condition) bool { return c.Type == kind && c.Status == "True" })
}

// Exit is the exit code of a watch: done when the newest revision is reached and ready.
func (a Application) Exit() int {
	switch {
	case a.Behind:
		return ExitActive
	case a.Is("Ready"):
		return ExitDone
	case a.Rollout != nil && a.Rollout.Exit() != ExitDone:
		return a.Rollout.Exit()
	}
	return ExitActive
}

// Line is the Application in one line.
func (a Application) Line(now time.Time) string {
	text := a.Object.Name + "  " + cmp.Or(a.Latest, "not observed yet")
	if a.Reached != "" && a.Reached != a.Latest {
		text += "  reached " + a.Reached
	}
	for _, c := range a.Conditions {
		if c.Type == "Ready" {
			text += "  " + c.Reason + ": " + oneLine(c.Message)
		}
	}
	if a.Rollout != nil && !a.Is("Ready") {
		text += "\n  " + strings.TrimSuffix(a.Rollout.Line(now), "\n")
	}
	return text + "\n"
}

// DescribeApplication is the text of `pawl describe application NAME`.
func DescribeApplication(a Application, now time.Time, style Style) string {
	var f facts
	f.add("Application", a.Object.Namespace+"/"+a.Object.Name)
	f.add("Revision", cmp.Or(a.Latest, "not observed yet"))
	f.add("Reached", cmp.Or(a.Reached, "none"))
	f.add("Created", moment(a.CreatedAt, now, style))
	text := f.String()
	text += TableOf(a.Conditions, []Column[Condition]{
		{Head: "CONDITION", Cell: func(c Condition) string { return c.Type }},
		{Head: "STATUS", Cell: func(c Condition) string { return c.Status }, Health: Condition.health},
		{Head: "REASON", Cell: func(c Condition) string { return c.Reason }},
		{Head: "MESSAGE", Cell: func(c Condition) string { return oneLine(c.Message) }},
	}).section("Conditions", style)
	text += TableOf(a.Components, []Column[ApplicationComponent]{
		{Head: "COMPONENT", Cell: func(c ApplicationComponent) string {
			if c.Planned {
				return c.Name + " (by the plan)"
			}
			return c.Name
		}},
		{Head: "WORKLOAD", Cell: func(c ApplicationComponent) string { return c.Kind + " " + c.Workload }},
		{Head: "PODS", Cell: func(c ApplicationComponent) string { return strconv.Itoa(c.Replicas) }},
		{Head: "REACHED", Cell: func(c ApplicationComponent) string {
			if c.Reached == nil {
				return none
			}
			return strconv.Itoa(*c.Reached)
		}},
	}).section("Components", style)
	text += a.revisionTable(style).section("Revisions", style)
	if a.Rollout != nil {
		text += "\n" + style.paint(bold, "Rollout") + "\n" + Indent(DescribeRollout(*a.Rollout, now, style), "  ")
	}
	return text
}

func (a Application) revisionTable(style Style) Table {
	return TableOf(a.Revisions, []Column[ApplicationRevision]{
		{Head: "REVISION", Cell: func(r ApplicationRevision) string { return r.Name }},
		{Head: "MADE", Cell: func(r ApplicationRevision) string { return style.clock(r.CreatedAt, "2006-01-02 15:04:05") }},
		{Head: "HASH", Cell: func(r ApplicationRevision) string { return r.Hash }},
		{Head: "STATE", Cell: func(r ApplicationRevision) string {
			newest, reached := "", ""
			if r.Name == a.Latest {
				newest = "newest"
			}
			if r.Name == a.Reached {
				reached = "reached"
			}
			return cmp.Or(join(", ", newest, reached), none)
		}},
	})
}

// ApplicationHistory is the text of `pawl history application NAME`: its revisions, and the records of its
// Rollout.
func ApplicationHistory(a Application, records []rollout.Record, style Style) string {
	text := a.revisionTable(style).Text(style)
	if len(records) > 0 {
		text += "\n" + RolloutHistory(records, style).Text(style)
	}
	return text
}
