package rollout

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// paths are the JSON paths of all fields of a type. Types that encode themselves are one field.
func paths(t reflect.Type, prefix string, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	marshals := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || t == reflect.TypeFor[time.Time]()
	if t.Kind() != reflect.Struct || marshals {
		into[prefix] = true
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		paths(f.Type, prefix+"."+name, into)
	}
}

func pathsOf[T any]() map[string]bool {
	all := map[string]bool{}
	paths(reflect.TypeFor[T](), "", all)
	return all
}

// The plan of the API and that of package rollout are decoded from the same text: they have the same
// fields.
func TestPlansHaveTheSameFields(t *testing.T) {
	inAPI, inCore := pathsOf[api.RolloutPlan](), pathsOf[rollout.Plan]()
	for _, path := range slices.Sorted(maps.Keys(inCore)) {
		if !inAPI[path] {
			t.Errorf("the API has no field rolloutPlan%s", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(inAPI)) {
		if !inCore[path] {
			t.Errorf("rollout.Plan has no field %s", path)
		}
	}
}

// The position is kept in the status, field by field. What the status has beside it is for people.
func TestStatusKeepsThePosition(t *testing.T) {
	inStatus, inPosition := pathsOf[api.RolloutStatus](), pathsOf[rollout.Position]()
	for _, path := range slices.Sorted(maps.Keys(inPosition)) {
		if !inStatus[path] {
			t.Errorf("the status has no field %s", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(inStatus)) {
		first, _, _ := strings.Cut(path[1:], ".")
		if !inPosition[path] && !slices.Contains([]string{"observedGeneration", "replicas", "selector", "summary", "preview", "history", "conditions", "delivered", "workload", "sources"}, first) {
			t.Errorf("the position has no field %s", path)
		}
	}
	planned, inPreview := pathsOf[rollout.BatchPreview](), pathsOf[api.RolloutBatchPreview]()
	if !maps.Equal(planned, inPreview) {
		t.Errorf("a batch of a preview is %v, in the status %v", planned, inPreview)
	}
	record, inHistory := pathsOf[rollout.Record](), pathsOf[api.RolloutRecord]()
	if !maps.Equal(record, inHistory) {
		t.Errorf("a record is %v, in the status %v", record, inHistory)
	}
}

// A position that is written and read is the same.
func TestPositionIsReadBack(t *testing.T) {
	facts := rollout.IdealFacts(rollout.StatefulSet, "db", 5, rollout.Plan{NumBatches: new(3)})
	now := time.Date(2026, 11, 23, 10, 0, 0, 123456000, time.UTC)
	at := rollout.Next(rollout.Plan{NumBatches: new(3), Soak: rollout.Duration(time.Minute)}, rollout.Position{}, facts, now).Position
	if len(at.Batches) != 3 {
		t.Fatalf("the position is %+v", at)
	}
	status := api.RolloutStatus{ObservedGeneration: 3, Selector: "app=db"}
	if err := writePosition(&status, at); err != nil {
		t.Fatal(err)
	}
	got, err := readPosition(&status)
	if err != nil || !reflect.DeepEqual(got, at) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, at)
	}
	if status.ObservedGeneration != 3 || status.Selector != "app=db" {
		t.Errorf("the rest of the status is %+v", status)
	}
}

func TestParseRequest(t *testing.T) {
	for _, test := range []struct {
		verb  rollout.Verb
		value string
		want  rollout.Request
	}{
		{rollout.Approve, "2#k3", rollout.Request{ID: "k3", Verb: rollout.Approve, Argument: "2", By: "somebody"}},
		{rollout.Approve, "all; by=ann; reason=smoke tests passed#k3x4qabcdefg", rollout.Request{ID: "k3x4qabcdefg", Verb: rollout.Approve, Argument: "all", By: "ann", Reason: "smoke tests passed"}},
		{rollout.Approve, "next;reason=a; b, see #42#k3x4qabcdefg", rollout.Request{ID: "k3x4qabcdefg", Verb: rollout.Approve, Argument: "next", By: "somebody", Reason: "a; b, see #42"}},
		{rollout.Approve, "by=ann; reason=x; by=bob#k3x4qabcdefg", rollout.Request{ID: "k3x4qabcdefg", Verb: rollout.Approve, By: "ann", Reason: "x; by=bob"}},
		{rollout.Resume, "by=ann#pause-7.k3x4qabcdefg", rollout.Request{ID: "pause-7.k3x4qabcdefg", Verb: rollout.Resume, By: "ann", Pause: "pause-7"}},
		{rollout.Retry, "true#none.k3x4qabcdefg", rollout.Request{ID: "none.k3x4qabcdefg", Verb: rollout.Retry, By: "somebody", Pause: "none"}},
	} {
		if got := parseRequest(test.verb, test.value); got != test.want {
			t.Errorf("%s %q is %+v, want %+v", test.verb, test.value, got, test.want)
		}
	}
	for verb, want := range map[rollout.Verb]string{rollout.Resume: "true#pause-7.", rollout.Approve: "true#"} {
		stamped := stamp(verb, " true ", &api.RolloutPause{ID: "pause-7"})
		if !strings.HasPrefix(stamped, want) || len(stamped) != len(want)+12 {
			t.Errorf("%s is stamped %q", verb, stamped)
		}
	}
	if stamped := stamp(rollout.Resume, "true", nil); !strings.HasPrefix(stamped, "true#none.") {
		t.Errorf("without a pause it is stamped %q", stamped)
	}
}
