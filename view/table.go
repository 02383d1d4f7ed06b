package view

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// RunTable is the table of `pawl get`.
func RunTable(runs []Run, now time.Time) Table {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	t := Table{Head: []string{"ID", "FLOW", "SUBJECT", "PHASE", "STEP", "AGE", "REASON"}}
	for _, r := range runs {
		t.Rows = append(t.Rows, []string{Short(r.ID, ids...), r.Flow, r.Subject, string(r.Phase), or(r.Step, none),
			Age(now.Sub(r.CreatedAt)), Reason(r, now)})
	}
	return t
}

// ObjectTable is the table of `pawl get KIND`. With several kinds it has a column for the kind.
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
		row := []string{o.Namespace, o.Name, or(s.State, none), strconv.FormatInt(o.Generation, 10), or(Short(s.Run), none),
			Age(now.Sub(o.CreatedAt)), oneLine(join(" ", s.Reason, s.Message))}
		if len(kinds) > 1 {
			row = append([]string{o.Kind}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// State is where an object stands, as its status says: the position a machine
// keeps there, or the plain keys state, reason, message and run.
type State struct {
	State, Previous, Reason, Message, Run, Event string
	Since                                        time.Time
}

// StateOf reads an object's status. An object with a deletion mark and no state is Deleting.
func StateOf(o control.Object) State {
	var status map[string]json.RawMessage
	_ = json.Unmarshal(o.Status, &status) // a status that is no object says nothing
	if inner, ok := status["position"]; ok {
		status = nil
		_ = json.Unmarshal(inner, &status)
	}
	text := func(names ...string) string {
		for _, name := range names {
			var s string
			if json.Unmarshal(status[name], &s) == nil && s != "" {
				return s
			}
		}
		return ""
	}
	s := State{State: text("state", "phase"), Previous: text("previous", "previousState"), Reason: text("reason", "code"),
		Message: text("message"), Run: text("run", "runID", "runId"), Event: text("event")}
	s.Since, _ = time.Parse(time.RFC3339Nano, text("since"))
	if s.State == "" && o.Deleting() {
		s.State = "Deleting"
	}
	return s
}

// KindTable is the table of declared faults.
func KindTable(kinds []Kind) Table {
	t := Table{Head: []string{"CODE", "CLASS", "TITLE"}}
	for _, k := range kinds {
		t.Rows = append(t.Rows, []string{string(k.Code), k.Class.String(), k.Title})
	}
	return t
}

// FlowTable is the table of loaded flows.
func FlowTable(flows []Flow) Table {
	t := Table{Head: []string{"NAME", "VERSION", "STEPS", "HASH", "DESCRIPTION"}}
	for _, f := range flows {
		t.Rows = append(t.Rows, []string{f.Name, strconv.Itoa(f.Version), strconv.Itoa(f.Count), or(f.Hash[:min(12, len(f.Hash))], none),
			strings.TrimSpace(oneLine(f.Description))})
	}
	return t
}
