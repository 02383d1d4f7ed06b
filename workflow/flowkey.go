package workflow

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// flowKey identifies a loaded flow. Several flows may have the same name if each is for another
// kind of subject.
type flowKey struct{ name, kind string }

func keyOf(f Flow) flowKey { return flowKey{f.Name, f.Kind} }

func (k flowKey) String() string {
	if k.kind == "" {
		return k.name
	}
	return k.kind + "/" + k.name
}

func sortedKeys(plans map[flowKey]*plan) []flowKey {
	return slices.SortedFunc(maps.Keys(plans), func(a, b flowKey) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind)) })
}

// kindOf returns the kind of a subject: kind/namespace/name.
func kindOf(subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	return kind
}

// FlowFor returns the flow with this name for a subject: the one for its kind, else the one for all
// kinds. If the subject is empty, it returns the one for all kinds, else the first with this name.
// nil: there is none.
func FlowFor(flows []Flow, name, subject string) *Flow {
	var found *Flow
	kind := kindOf(subject)
	for i := range flows {
		f := &flows[i]
		switch {
		case f.Name != name:
		case f.Kind == kind:
			return f
		case f.Kind == "", kind == "" && found == nil:
			found = f
		}
	}
	return found
}

func planFor(plans map[flowKey]*plan, name, kind string) *plan {
	if p := plans[flowKey{name, kind}]; p != nil {
		return p
	}
	return plans[flowKey{name: name}]
}
