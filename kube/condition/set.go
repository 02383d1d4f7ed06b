package condition

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of the API server, in bytes.
const (
	maxReason  = 1024
	maxMessage = 32768
)

var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Set replaces the conditions of the same types, and reports whether anything but
// observedGeneration has changed. generation is that of the spec that the new conditions
// describe. A condition whose status stays keeps its time; conditions of other types stay as
// they are. Reasons and messages get the form that the API server requires.
func Set(conditions *[]metav1.Condition, generation int64, now time.Time, fresh ...metav1.Condition) (changed bool) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for _, c := range fresh {
		c.Reason, c.Message = Reason(c.Reason), Shorten(c.Message, maxMessage)
		c.ObservedGeneration, c.LastTransitionTime = generation, at
		old := meta.FindStatusCondition(*conditions, c.Type)
		changed = changed || old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
		if old != nil && old.LastTransitionTime.IsZero() {
			old.LastTransitionTime = at
		}
		meta.SetStatusCondition(conditions, c)
	}
	return changed
}

// AddUnknown adds the conditions that are not there yet as Unknown: an object has all its
// conditions from the first visit.
func AddUnknown(conditions *[]metav1.Condition, generation int64, now time.Time, types ...string) (changed bool) {
	for _, kind := range types {
		if meta.FindStatusCondition(*conditions, kind) == nil {
			changed = Set(conditions, generation, now, New(kind, metav1.ConditionUnknown, "NotAsked", "it was not looked at yet")) || changed
		}
	}
	return changed
}

// Reason brings a reason into the form that the API server requires: a word of letters,
// digits and underscores, at most 1,024 bytes.
func Reason(r string) string {
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

// Shorten cuts text to a limit in bytes, at a whole character.
func Shorten(text string, limit int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
