package rollout

import (
	"maps"
	"slices"
)

// Selector selects pods by their labels, as metav1.LabelSelector does. An empty one selects all.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty"`
}

// Requirement is one condition on one label.
type Requirement struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Operator compares a label with values.
type Operator string

const (
	In           Operator = "In"
	NotIn        Operator = "NotIn" // an absent label is not in
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Matches reports whether the labels meet the selector. An operator that is not known selects nothing.
func (s Selector) Matches(labels map[string]string) bool {
	for key, want := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

func (r Requirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case In:
		return ok && slices.Contains(r.Values, value)
	case NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case Exists:
		return ok
	case DoesNotExist:
		return !ok
	default:
		return false
	}
}

// example are labels that meet the selector, if any can.
func (s Selector) example() map[string]string {
	labels := maps.Clone(s.MatchLabels)
	for _, r := range s.MatchExpressions {
		if _, there := labels[r.Key]; there || r.Operator != In && r.Operator != Exists {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[r.Key] = ""
		for _, value := range r.Values {
			if labels[r.Key] = value; s.Matches(labels) {
				break
			}
		}
	}
	return labels
}
