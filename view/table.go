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
	t := Table{Head: []string{"ID", "FLOW", "SUBJECT", "PHASE", "STEP", "AGE", "REASON"}}
	for _, r := range runs {
		t.Rows = append(t.Rows, []string{Short(r.ID, ids...), r.Flow, subject(r.Subject), string(r.Phase), cmp.Or(r.Step, none),
			Age(now.Sub(r.CreatedAt)), Reason(r, now)})
	}
	return t
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
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[o.Kind] = true
	}
	t := Table{Head: []string{"NAMESPACE", "NAME", "STATE", "GENERATION", "RUN", "AGE", "REASON"}}
	if len(kinds) > 1 {
		t.Head = append([]string{"KIND"}, t.Head...)
	}
	for _, o := range objects {
		s := StateOf(o)
		row := []string{o.Namespace, o.Name, cmp.Or(s.State, none), strconv.FormatInt(o.Generation, 10), cmp.Or(Short(s.Run), none),
			Age(now.Sub(o.CreatedAt)), s.Line()}
		if len(kinds) > 1 {
			row = append([]string{o.Kind}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// KindTable returns the table of declared faults.
func KindTable(kinds []Kind) Table {
	t := Table{Head: []string{"CODE", "CLASS", "TITLE"}}
	for _, k := range kinds {
		t.Rows = append(t.Rows, []string{string(k.Code), k.Class.String(), k.Title})
	}
	return t
}

// FlowTable returns the table of loaded flows.
func FlowTable(flows []Flow) Table {
	t := Table{Head: []string{"NAME", "VERSION", "STEPS", "HASH", "DESCRIPTION"}}
	kinds := slices.ContainsFunc(flows, func(f Flow) bool { return f.Kind != "" })
	if kinds { // two flows may have the same name
		t.Head = slices.Insert(t.Head, 1, "FOR")
	}
	for _, f := range flows {
		row := []string{f.Name, strconv.Itoa(f.Version), strconv.Itoa(f.Count), cmp.Or(f.Hash[:min(12, len(f.Hash))], none), strings.TrimSpace(oneLine(f.Description))}
		if kinds {
			row = slices.Insert(row, 1, cmp.Or(f.Kind, "all"))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
