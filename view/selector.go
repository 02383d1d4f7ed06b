package view

import (
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Labels parses a selector of runs: key=value, key!=value, key or !key, separated by
// commas. Unlike labels of objects, a value may contain anything but a comma.
// INPUT_INVALID.
func Labels(text string) ([]runstore.LabelTerm, error) {
	var terms []runstore.LabelTerm
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		var t runstore.LabelTerm
		part = strings.TrimSpace(part)
		if key, value, ok := strings.Cut(part, "="); ok {
			key, t.Not = strings.CutSuffix(key, "!")
			t.Key, t.Value = key, strings.TrimPrefix(value, "=")
		} else {
			t.Any = true
			t.Key, t.Not = strings.CutPrefix(part, "!")
		}
		if t.Key, t.Value = strings.TrimSpace(t.Key), strings.TrimSpace(t.Value); t.Key == "" {
			return nil, runtype.InputInvalid.Errorf("selector %q: term %q: use key=value, key!=value, key or !key", text, part)
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// Selector returns the text of a selector, which Labels parses.
func Selector(terms []runstore.LabelTerm) string {
	selector := make(control.Selector, len(terms))
	for i, t := range terms {
		selector[i] = control.Requirement(t)
	}
	return selector.String()
}
