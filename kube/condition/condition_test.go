package condition

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

var refused = fault.Declare(fault.Kind{Code: "TEST_REFUSED", Class: fault.Invalid, Title: "it is refused", Remedy: "Mend the field."})

// The reason is the code in CamelCase, and the remedy stands in the message.
func TestConditionsFromOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		out                outcome.Outcome
		ready, progressing metav1.ConditionStatus
		reason, message    string
	}{
		"done":               {outcome.Done(), "True", "False", "Done", "all that was asked for is done"},
		"wait":               {outcome.Wait(0, "CatchingUp", "%d bytes behind", 3), "False", "True", "CatchingUp", "3 bytes behind"},
		"later":              {outcome.Later(time.Second, "Resting", "soon"), "False", "True", "Resting", "soon"},
		"a declared fault":   {outcome.Fail(refused.Errorf("spec.n: too big")), "False", "False", "TestRefused", "spec.n: too big. " + refused.Remedy},
		"a sentence already": {outcome.Fail(refused.Errorf("Too big!")), "False", "False", "TestRefused", "Too big! " + refused.Remedy},
		"an empty message":   {outcome.Fail(refused.Errorf("")), "False", "False", "TestRefused", refused.Title + ". " + refused.Remedy},
		"an undeclared one":  {outcome.Fail(errors.New("boom")), "False", "False", "Unknown", "boom. " + fault.Unknown.Remedy},
		"no API server":      {outcome.Fail(fault.APIUnavailable.Errorf("no answer")), "Unknown", "Unknown", "ApiUnavailable", "no answer. " + fault.APIUnavailable.Remedy},
	} {
		t.Run(name, func(t *testing.T) {
			want := []metav1.Condition{{Type: "Ready", Status: c.ready, Reason: c.reason, Message: c.message}, {Type: "Progressing", Status: c.progressing, Reason: c.reason, Message: c.message}}
			if d := cmp.Diff(want, []metav1.Condition{Ready(c.out), Progressing(c.out)}); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSet(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 500) }
	var all []metav1.Condition
	if !AddUnknown(&all, 1, at(10), TypeReady, TypeProgressing) || AddUnknown(&all, 1, at(11), TypeReady, TypeProgressing) {
		t.Error("conditions are added once")
	}
	for _, c := range all {
		if c.Status != metav1.ConditionUnknown || c.Reason == "" || c.ObservedGeneration != 1 || !c.LastTransitionTime.Time.Equal(time.Unix(10, 0)) {
			t.Errorf("the first visit leaves %+v", c)
		}
	}
	all = append(all, New("Theirs", metav1.ConditionTrue, "Kept", ""))
	for _, step := range []struct {
		name    string
		c       metav1.Condition
		gen     int64
		now     int64
		changed bool
		since   int64
	}{
		{"another status", New(TypeReady, metav1.ConditionFalse, "Waits", "1"), 1, 20, true, 20},
		{"the same again", New(TypeReady, metav1.ConditionFalse, "Waits", "1"), 1, 30, false, 20},
		{"another generation only", New(TypeReady, metav1.ConditionFalse, "Waits", "1"), 2, 30, false, 20},
		{"another message keeps the time", New(TypeReady, metav1.ConditionFalse, "Waits", "2"), 2, 40, true, 20},
		{"back", New(TypeReady, metav1.ConditionTrue, "Done", ""), 2, 50, true, 50},
	} {
		if got := Set(&all, step.gen, at(step.now), step.c); got != step.changed {
			t.Errorf("%s: changed %t", step.name, got)
		}
		c := meta.FindStatusCondition(all, TypeReady)
		if c.ObservedGeneration != step.gen || !c.LastTransitionTime.Time.Equal(time.Unix(step.since, 0)) || c.Message != step.c.Message {
			t.Errorf("%s: %+v", step.name, c)
		}
	}
	if len(all) != 3 || meta.FindStatusCondition(all, "Theirs").Reason != "Kept" {
		t.Errorf("conditions of others: %+v", all)
	}
}

// Whatever is set, the list is one that the API server takes, types are unique,
// setting again changes nothing, and the time moves with the status only.
func TestSetKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []metav1.Condition
		now := int64(0)
		t.Repeat(map[string]func(*rapid.T){"set": func(t *rapid.T) {
			now += rapid.Int64Range(0, 5).Draw(t, "seconds")
			c := metav1.Condition{
				Type:   rapid.SampledFrom([]string{"Ready", "Progressing", "Stalled"}).Draw(t, "type"),
				Status: rapid.SampledFrom([]metav1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"),
				Reason: rapid.String().Draw(t, "reason"), Message: strings.Repeat(rapid.String().Draw(t, "message"), rapid.SampledFrom([]int{1, 9000}).Draw(t, "times")),
			}
			before := slices.Clone(all)
			Set(&all, now, time.Unix(now, 0), c)
			got, old := meta.FindStatusCondition(all, c.Type), meta.FindStatusCondition(before, c.Type)
			if !reasonForm.MatchString(got.Reason) || len(got.Reason) > maxReason || len(got.Message) > maxMessage || !utf8.ValidString(got.Message) {
				t.Fatalf("the API server would refuse %q %q", got.Reason, got.Message)
			}
			if kept := old != nil && old.Status == got.Status; kept != (old != nil && old.LastTransitionTime.Equal(&got.LastTransitionTime) && old.Status == c.Status) || !kept && got.LastTransitionTime.Unix() != now {
				t.Fatalf("at %d %+v became %+v", now, old, got)
			}
			if Set(&all, now, time.Unix(now+100, 0), c) {
				t.Fatal("the same condition again is a change")
			}
			seen := map[string]bool{}
			for _, c := range all {
				if seen[c.Type] {
					t.Fatalf("%s stands there twice", c.Type)
				}
				seen[c.Type] = true
			}
		}})
	})
}

// A fault comes back out of the condition that reports it.
func TestFaultIsReadBack(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]metav1.Condition{
		"from a fault":  FromFault("Ready", refused, "spec.%s: too big", "n"),
		"from an error": FromError("Ready", metav1.ConditionFalse, refused.Errorf("spec.n: too big")),
		"from a code":   FromCode("Ready", "TEST_REFUSED", "spec.n: too big"),
	} {
		var all []metav1.Condition
		Set(&all, 3, now, c)
		want := &control.FaultRecord{Code: "TEST_REFUSED", Class: fault.Invalid, Title: "it is refused", Remedy: "Mend the field.", Message: "spec.n: too big", ObservedGeneration: 3, At: now.UTC()}
		if d := cmp.Diff(want, Fault(all[0])); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if got := Fault(New("Ready", metav1.ConditionFalse, "Waits", "")); got != nil {
		t.Errorf("a reason that is no fault gives %+v", got)
	}
	if c := FromCode("Ready", "NOT_DECLARED_HERE", "full"); c.Reason != "NotDeclaredHere" || c.Message != "full" || c.Status != metav1.ConditionFalse {
		t.Errorf("an undeclared code gives %+v", c)
	}
	if c := Unobserved("Ready", refused.Errorf("no answer")); c.Status != metav1.ConditionUnknown || c.Reason != "NotAsked" || c.Message != "no answer" {
		t.Errorf("what could not be read gives %+v", c)
	}
}
