package controller

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// The conditions that objects of all kinds have.
const (
	Ready       = "Ready"       // what was asked for is there
	Progressing = "Progressing" // what is under way, or what holds it up
)

// What the API server takes of a condition.
const (
	maxReason  = 1024
	maxMessage = 32768
)

var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Condition makes a condition; SetConditions gives it its generation and time.
func Condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ReadyFrom is the condition Ready of an object that is ready when its pass is
// done: True; False while it waits and after a failure, and Unknown after
// trouble of the control plane.
func ReadyFrom(out outcome.Outcome) metav1.Condition {
	switch {
	case out.IsDone():
		return Condition(Ready, metav1.ConditionTrue, "Done", "all that was asked for is done")
	case out.IsFail():
		return failed(Ready, out.Err())
	}
	return Condition(Ready, metav1.ConditionFalse, out.Reason(), "%s", out.Message())
}

// ProgressingFrom is the condition Progressing after a pass: True while it
// waits, False when it is done or a failure holds it up, and Unknown after
// trouble of the control plane.
func ProgressingFrom(out outcome.Outcome) metav1.Condition {
	switch {
	case out.IsDone():
		return Condition(Progressing, metav1.ConditionFalse, "Done", "all that was asked for is done")
	case out.IsFail():
		return failed(Progressing, out.Err())
	}
	return Condition(Progressing, metav1.ConditionTrue, out.Reason(), "%s", out.Message())
}

// FaultCondition is a condition that tells of a failure: its reason is the code
// in CamelCase, its message ends with the remedy. nil must not be given.
func FaultCondition(kind string, status metav1.ConditionStatus, err error) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: fault.Of(err).Reason(), Message: sentence(err)}
}

func failed(kind string, err error) metav1.Condition {
	err = failure(err)
	if fault.Of(err).Uncharged {
		return FaultCondition(kind, metav1.ConditionUnknown, err)
	}
	return FaultCondition(kind, metav1.ConditionFalse, err)
}

// SetConditions writes conditions over those of the same types, and reports
// whether anything but observedGeneration has changed. The generation is that
// of the spec they speak of. The time of a condition whose status stays is kept,
// and conditions of other types stay. Reasons and messages are brought into the
// form that the API server takes.
func SetConditions(conditions *[]metav1.Condition, generation int64, now time.Time, fresh ...metav1.Condition) (changed bool) {
	for _, c := range fresh {
		c.Reason, c.Message = reason(c.Reason), text(c.Message, maxMessage)
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now.UTC().Truncate(time.Second))
		i := slices.IndexFunc(*conditions, func(old metav1.Condition) bool { return old.Type == c.Type })
		if i < 0 {
			*conditions, changed = append(*conditions, c), true
			continue
		}
		old := (*conditions)[i]
		if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
		changed = changed || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
		(*conditions)[i] = c
	}
	return changed
}

// AddUnknown adds the conditions that are not there yet, as Unknown: an object
// has all its conditions from the first visit.
func AddUnknown(conditions *[]metav1.Condition, generation int64, now time.Time, types ...string) (changed bool) {
	for _, kind := range types {
		if !slices.ContainsFunc(*conditions, func(c metav1.Condition) bool { return c.Type == kind }) {
			changed = SetConditions(conditions, generation, now, Condition(kind, metav1.ConditionUnknown, "NotAsked", "it was not looked at yet")) || changed
		}
	}
	return changed
}

func reason(r string) string {
	if reasonForm.MatchString(r) && len(r) <= maxReason {
		return r
	}
	r = strings.Map(func(c rune) rune {
		if c == '_' || c < utf8.RuneSelf && (c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return c
		}
		return -1
	}, r)
	r = strings.TrimLeft(r, "_0123456789")
	if r == "" {
		return "Unknown"
	}
	return r[:min(len(r), maxReason)]
}

// text cuts a message at a limit in bytes, at a whole character.
func text(s string, most int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= most {
		return s
	}
	const more = "…"
	cut := most - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}
