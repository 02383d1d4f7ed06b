package control

import "strings"

// Selector selects by labels; all its requirements must hold. The zero Selector selects everything.
type Selector []Requirement

// Requirement is one term of a selector: key=value, key!=value, key or !key.
type Requirement struct {
	Key   string
	Value string
	Any   bool // only the key matters, not the value
	Not   bool
}

// ParseSelector parses terms separated by commas: "tier=gold,!legacy". It
// returns OBJECT_INVALID for a malformed term.
func ParseSelector(text string) (Selector, error) {
	var sel Selector
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for term := range strings.SplitSeq(text, ",") {
		r, ok := parseRequirement(strings.TrimSpace(term))
		if !ok {
			return nil, Invalid.Errorf("selector %q: term %q: use key=value, key!=value, key or !key", text, strings.TrimSpace(term))
		}
		sel = append(sel, r)
	}
	return sel, nil
}

func parseRequirement(term string) (Requirement, bool) {
	if key, value, ok := strings.Cut(term, "!="); ok {
		return checked(Requirement{Key: key, Value: value, Not: true})
	}
	if key, value, ok := strings.Cut(term, "="); ok {
		return checked(Requirement{Key: key, Value: strings.TrimPrefix(value, "=")})
	}
	if key, ok := strings.CutPrefix(term, "!"); ok {
		return checked(Requirement{Key: key, Any: true, Not: true})
	}
	return checked(Requirement{Key: term, Any: true})
}

func checked(r Requirement) (Requirement, bool) {
	r.Key, r.Value = strings.TrimSpace(r.Key), strings.TrimSpace(r.Value)
	return r, qualified(r.Key) && (r.Value == "" || wordForm.MatchString(r.Value))
}

// Matches reports whether all requirements hold. As in Kubernetes, key!=value
// also holds where the key is missing.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		value, present := labels[r.Key]
		if (present && (r.Any || value == r.Value)) == r.Not {
			return false
		}
	}
	return true
}

// String returns the form that ParseSelector parses.
func (s Selector) String() string {
	terms := make([]string, len(s))
	for i, r := range s {
		switch {
		case r.Any && r.Not:
			terms[i] = "!" + r.Key
		case r.Any:
			terms[i] = r.Key
		case r.Not:
			terms[i] = r.Key + "!=" + r.Value
		default:
			terms[i] = r.Key + "=" + r.Value
		}
	}
	return strings.Join(terms, ",")
}
