package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// RunTable returns the table of `pawl get`.
func RunTable(runs []Run, now time.Time) Table {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	return TableOf(runs, []Column[Run]{
		{Head: "ID", Cell: func(r Run) string { return Short(r.ID, ids...) }},
		{Head: "FLOW", Cell: func(r Run) string { return r.Flow }},
		{Head: "SUBJECT", Cell: func(r Run) string { return subject(r.Subject) }},
		{Head: "PHASE", Cell: func(r Run) string { return string(r.Phase) }, Health: HealthOfRun},
		{Head: "STEP", Cell: func(r Run) string { return cmp.Or(r.Step, none) }},
		{Head: "AGE", Cell: func(r Run) string { return Age(now.Sub(r.CreatedAt)) }},
		{Head: "VERSION", Wide: true, Cell: func(r Run) string { return cmp.Or(versionText(r.Version), none) }},
		{Head: "STARTED", Wide: true, Cell: func(r Run) string { return Moment(r.StartedAt) }},
		{Head: "ENDED", Wide: true, Cell: func(r Run) string { return Moment(r.EndedAt) }},
		{Head: "BY", Wide: true, Cell: func(r Run) string { return cmp.Or(r.Actor, none) }},
		{Head: "PARENT", Wide: true, Cell: func(r Run) string { return cmp.Or(Short(r.Parent), none) }},
		{Head: "LABELS", Wide: true, Cell: func(r Run) string { return cmp.Or(pairs(r.Labels), none) }},
		{Head: "REASON", Cell: func(r Run) string { return Reason(r, now) }},
	})
}

// Moment is a time of a wide column.
func Moment(at time.Time) string {
	if at.IsZero() {
		return none
	}
	return at.UTC().Format(time.RFC3339)
}

// subject returns kind/namespace/name without the optional UID.
func subject(s string) string {
	if parts := strings.Split(s, "/"); len(parts) == 4 {
		return strings.Join(parts[:3], "/")
	}
	return s
}

// ObjectTable returns the table of `pawl get KIND`. With several kinds it has a column for the kind.
func ObjectTable(objects []control.Object, now time.Time) Table {
	type row struct {
		control.Object
		state State
	}
	rows := make([]row, len(objects))
	for i, o := range objects {
		rows[i] = row{o, StateOf(o)}
	}
	columns := []Column[row]{
		{Head: "NAMESPACE", Cell: func(o row) string { return o.Namespace }},
		{Head: "NAME", Cell: func(o row) string { return o.Name }},
		{Head: "STATE", Cell: func(o row) string { return cmp.Or(o.state.State, none) }, Health: func(o row) Health { return o.state.health() }},
		{Head: "GENERATION", Cell: func(o row) string { return strconv.FormatInt(o.Generation, 10) }},
		{Head: "RUN", Cell: func(o row) string { return cmp.Or(Short(o.state.Run), none) }},
		{Head: "AGE", Cell: func(o row) string { return Age(now.Sub(o.CreatedAt)) }},
		{Head: "SINCE", Wide: true, Cell: func(o row) string { return Moment(o.state.Since) }},
		{Head: "PREVIOUS", Wide: true, Cell: func(o row) string { return cmp.Or(o.state.Previous, none) }},
		{Head: "OWNER", Wide: true, Cell: func(o row) string {
			if o.Owner == nil {
				return none
			}
			return o.Owner.Ref.String()
		}},
		{Head: "LABELS", Wide: true, Cell: func(o row) string { return cmp.Or(pairs(o.Labels), none) }},
		{Head: "UID", Wide: true, Cell: func(o row) string { return cmp.Or(o.UID, none) }},
		{Head: "REASON", Cell: func(o row) string { return o.state.Line() }},
	}
	if slices.ContainsFunc(objects, func(o control.Object) bool { return o.Kind != objects[0].Kind }) {
		columns = slices.Insert(columns, 0, Column[row]{Head: "KIND", Cell: func(o row) string { return o.Kind }})
	}
	return TableOf(rows, columns)
}

// KindTable returns the table of declared faults.
func KindTable(kinds []Kind) Table {
	return TableOf(kinds, []Column[Kind]{
		{Head: "CODE", Cell: func(k Kind) string { return string(k.Code) }},
		{Head: "CLASS", Cell: func(k Kind) string { return k.Class.String() }},
		{Head: "HEALER", Wide: true, Cell: func(k Kind) string {
			if k.Healer == nil {
				return none
			}
			return cmp.Or(k.Healer.Flow, "function")
		}},
		{Head: "SOURCE", Wide: true, Cell: func(k Kind) string { return cmp.Or(k.Source, none) }},
		{Head: "TITLE", Cell: func(k Kind) string { return k.Title }},
		{Head: "REMEDY", Wide: true, Cell: func(k Kind) string { return oneLine(k.Remedy) }},
	})
}

// FlowTable returns the table of loaded flows. With flows of kinds of their own it has a column for the kind:
// two flows may have the same name.
func FlowTable(flows []Flow) Table {
	columns := []Column[Flow]{
		{Head: "NAME", Cell: func(f Flow) string { return f.Name }},
		{Head: "VERSION", Cell: func(f Flow) string { return cmp.Or(versionText(f.Version), none) }},
		{Head: "STEPS", Cell: func(f Flow) string { return strconv.Itoa(f.Count) }},
		{Head: "HASH", Cell: func(f Flow) string { return cmp.Or(f.Hash[:min(12, len(f.Hash))], none) }},
		{Head: "DEADLINE", Wide: true, Cell: func(f Flow) string { return cmp.Or(f.Deadline, none) }},
		{Head: "ON CHANGE", Wide: true, Cell: func(f Flow) string { return cmp.Or(string(f.OnChange), none) }},
		{Head: "DESCRIPTION", Cell: func(f Flow) string { return oneLine(f.Description) }},
	}
	if slices.ContainsFunc(flows, func(f Flow) bool { return f.Kind != "" }) {
		columns = slices.Insert(columns, 1, Column[Flow]{Head: "FOR", Cell: func(f Flow) string { return cmp.Or(f.Kind, "all") }})
	}
	return TableOf(flows, columns)
}
