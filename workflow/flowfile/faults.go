package flowfile

import (
	"cmp"
	"slices"
	guides "text/template"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// faultDoc is one entry of a *_faults.yaml file.
type faultDoc struct {
	at     position
	code   text
	kind   fault.Kind
	flow   text // flow of the healer; not set: no healer
	healer workflow.Healer
}

func (r *reader) faults(root *yaml.Node) []*faultDoc {
	var all []*faultDoc
	found := r.object(root, "a faults file", map[string]read{
		"faults": r.list("faults", func(n *yaml.Node) { all = append(all, r.fault(n)) }),
	})
	if root.Kind == yaml.MappingNode && found["faults"] == nil {
		r.problem(root, "faults is missing")
	}
	return all
}

func (r *reader) fault(n *yaml.Node) *faultDoc {
	f := &faultDoc{at: r.position(n), kind: fault.Kind{Source: r.file}}
	var class string
	var title, remedy text
	found := r.object(n, "a fault", map[string]read{
		"code": func(n *yaml.Node) {
			if code := r.code(n); code != "" {
				f.kind.Code, f.code = code, r.textOf(n)
			}
		},
		"class":  choice(r, "class", &class, "transient", "blocked", "invalid"),
		"title":  r.text("title", &title),
		"remedy": r.text("remedy", &remedy),
		"guide":  r.prose("guide", &f.kind.Guide),
		"free":   r.flag("free", &f.kind.Uncharged),
		"healer": func(n *yaml.Node) { r.healer(n, f) },
	})
	f.kind.Title, f.kind.Remedy = title.value, remedy.value
	if class != "" {
		_ = f.kind.Class.UnmarshalText([]byte(class)) // one of the choices
	}
	if n.Kind != yaml.MappingNode {
		return f
	}
	for _, key := range []string{"code", "class", "title", "remedy"} {
		if found[key] == nil {
			r.problem(n, "the fault has no %s", key)
		}
	}
	if _, err := guides.New("guide").Parse(f.kind.Guide); err != nil {
		r.problem(found["guide"], "the guide is not a valid template: %v", err)
	}
	return f
}

func (r *reader) healer(n *yaml.Node, f *faultDoc) {
	var from text
	limits := &f.healer.Limits
	found := r.object(n, "healer", map[string]read{
		"flow": r.name("flow", &f.flow),
		"from": r.text("from", &from),
		"undo": r.flag("undo", &f.healer.Undo),
		"limits": func(n *yaml.Node) {
			r.object(n, "the healer's limits", map[string]read{
				"attempts": r.whole("attempts", 1, &limits.Attempts),
				"first":    r.duration("first", &limits.First),
				"longest":  r.duration("longest", &limits.Longest),
				"within":   r.duration("within", &limits.Within),
			})
		},
	})
	f.healer.Flow, f.healer.From = f.flow.value, workflow.From(from.value)
	if n.Kind == yaml.MappingNode && found["flow"] == nil {
		r.problem(n, "the healer has no flow")
	}
	if found["from"] != nil && f.healer.Undo {
		r.problem(found["from"], "a healer that undoes the run does not resume it: from has no effect")
	}
}

// checkFaults reports codes that another file or the program declares, and healers whose flow is
// missing.
func (l *library) checkFaults() {
	seen := map[fault.Code]*faultDoc{}
	for _, f := range l.faults {
		if f.kind.Code == "" {
			continue
		}
		if other := seen[f.kind.Code]; other != nil {
			l.errorf(f.code.at, "%s is declared twice (first in %s:%d)", f.kind.Code, other.at.file, other.at.line)
		} else if known, ok := fault.Lookup(string(f.kind.Code)); ok && known.Code == f.kind.Code && known.Source != f.kind.Source && !(l.options.Check && known.Source != "") {
			where := "the program"
			if known.Source != "" {
				where = known.Source
			}
			l.errorf(f.code.at, "%s is declared already, by %s", f.kind.Code, where)
		}
		seen[f.kind.Code] = f
		if f.flow.set() && !l.options.AnyHealer && !l.knowsFlow(f.flow.value) {
			l.errorf(f.flow.at, "there is no flow %q%s", f.flow.value, hint(f.flow.value, l.flowNames()))
		}
	}
}

func (l *library) kinds() []fault.Kind {
	kinds := make([]fault.Kind, 0, len(l.faults))
	for _, f := range l.faults {
		kinds = append(kinds, f.kind)
	}
	slices.SortFunc(kinds, func(a, b fault.Kind) int { return cmp.Compare(a.Code, b.Code) })
	return kinds
}

func (l *library) healers() map[fault.Code]workflow.Healer {
	healers := map[fault.Code]workflow.Healer{}
	for _, f := range l.faults {
		if f.flow.set() {
			healers[f.kind.Code] = f.healer
		}
	}
	return healers
}

// knowsCode reports whether the program or a file declares a code.
func (l *library) knowsCode(code fault.Code) bool {
	if _, ok := fault.Lookup(string(code)); ok {
		return true
	}
	return slices.ContainsFunc(l.faults, func(f *faultDoc) bool { return f.kind.Code == code })
}
