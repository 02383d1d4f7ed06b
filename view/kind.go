package view

import (
	"cmp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// Kind is the JSON form of a declared fault, as `pawl explain` shows it.
type Kind struct {
	Code      fault.Code  `json:"code"`
	Reason    string      `json:"reason" doc:"the code in CamelCase, the form of reasons in Kubernetes"`
	Class     fault.Class `json:"class" enum:"transient,blocked,invalid"`
	Title     string      `json:"title"`
	Remedy    string      `json:"remedy"`
	Guide     string      `json:"guide,omitempty" doc:"Markdown; a template over the details of the fault"`
	Uncharged bool        `json:"uncharged,omitempty" doc:"failures of this kind are not charged to the step"`
	Source    string      `json:"source,omitempty" doc:"file that declares it"`
	Healer    *Healer     `json:"healer,omitempty"`
}

// Healer is the JSON form of the healer of a fault, with its limits.
type Healer struct {
	Flow     string        `json:"flow,omitempty" doc:"absent: a function of the program"`
	From     workflow.From `json:"from,omitempty" doc:"where the healed run continues"`
	Undo     bool          `json:"undo,omitempty" doc:"the run is cancelled with undo instead of resumed"`
	Attempts int           `json:"attempts"`
	First    string        `json:"first"`
	Longest  string        `json:"longest"`
	Within   string        `json:"within"`
}

// Kinds is the list of all declared faults.
type Kinds struct {
	Items []Kind `json:"items"`
}

// OfKind returns the JSON form of a declared fault and its healer; nil: none.
func OfKind(k *fault.Kind, healer *workflow.Healer) Kind {
	v := Kind{Code: k.Code, Reason: k.Reason(), Class: k.Class, Title: k.Title, Remedy: k.Remedy, Guide: k.Guide, Uncharged: k.Uncharged, Source: k.Source}
	if healer == nil {
		return v
	}
	limits := healer.Limits
	v.Healer = &Healer{
		Flow: healer.Flow, From: healer.From, Undo: healer.Undo, Attempts: cmp.Or(limits.Attempts, 3),
		First: span(cmp.Or(limits.First, 10*time.Second)), Longest: span(cmp.Or(limits.Longest, 10*time.Minute)), Within: span(cmp.Or(limits.Within, 24*time.Hour)),
	}
	return v
}

// Similar returns up to three declared codes that resemble a mistyped one.
func Similar(name string) []string {
	name = strings.ToUpper(name)
	type near struct {
		code string
		far  int
	}
	var found []near
	for _, k := range fault.All() {
		code := string(k.Code)
		far := distance(name, code)
		if far <= len(code)/3 || strings.Contains(code, name) && len(name) > 2 {
			found = append(found, near{code, far})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.far != b.far {
			return a.far - b.far
		}
		return strings.Compare(a.code, b.code)
	})
	var out []string
	for _, n := range found[:min(3, len(found))] {
		out = append(out, n.code)
	}
	return out
}

// distance returns the Levenshtein distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		corner := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			corner, row[j] = row[j], min(row[j]+1, row[j-1]+1, corner+cost)
		}
	}
	return row[len(b)]
}

// Guide returns a kind's guide, filled in from the details of a failure. If that fails,
// it returns the guide unchanged.
func Guide(k *fault.Kind, details map[string]any) string {
	if !strings.Contains(k.Guide, "{{") {
		return k.Guide
	}
	t, err := template.New(string(k.Code)).Option("missingkey=zero").Parse(k.Guide)
	if err != nil {
		return k.Guide
	}
	var out strings.Builder
	if details == nil {
		details = map[string]any{}
	}
	if err := t.Execute(&out, details); err != nil {
		return k.Guide
	}
	return strings.ReplaceAll(out.String(), "<no value>", "?")
}
