package schedules_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
)

const one = "/v1/schedules/default/nightly"

func fixture(t *testing.T) *servertest.Fixture {
	h := servertest.New(t, nil)
	apply(t, h, "nightly", `{"cron":"30 1 * * *","flow":"Quick","subject":"demo/default/c1","overlap":"queue"}`)
	return h
}

func apply(t *testing.T, h *servertest.Fixture, name, spec string) {
	t.Helper()
	_, err := h.Objects.Apply(context.Background(), control.Object{Ref: control.Ref{Kind: schedule.Kind, Namespace: "default", Name: name}, Spec: json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSchedulesAreListedWithTheirNextTicks(t *testing.T) {
	h := fixture(t)
	apply(t, h, "broken", `{"cron":"never","flow":"Quick"}`)
	apply(t, h, "often", `{"interval":"1h","flow":"Quick"}`)
	var list struct {
		Items []view.Schedule
		Next  string
	}
	h.Do("GET", "/v1/schedules?limit=2", nil).Into(t, &list)
	if len(list.Items) != 2 || list.Next == "" || list.Items[0].Object.Name != "broken" || len(list.Items[0].Next) != 0 || list.Items[0].When != "" {
		t.Fatalf("got %+v", list)
	}
	nightly := list.Items[1]
	if nightly.When != "30 1 * * * UTC" || len(nightly.Next) != 5 {
		t.Fatalf("got %+v", nightly)
	}
	for i, at := range nightly.Next {
		if at.Hour() != 1 || at.Minute() != 30 || !at.After(time.Now()) || i > 0 && at.Sub(nightly.Next[i-1]) != 24*time.Hour {
			t.Errorf("next %s", at)
		}
	}
	h.Do("GET", "/v1/schedules?cursor="+list.Next, nil).Into(t, &list)
	if len(list.Items) != 1 || list.Items[0].When != "every 1h" {
		t.Errorf("the second page is %+v", list)
	}
	if got := h.Do("GET", "/v1/schedules/default/none", nil); got.Status != http.StatusNotFound {
		t.Errorf("an unknown schedule: %d %s", got.Status, got.Body)
	}
}

func TestPauseAndResume(t *testing.T) {
	h := fixture(t)
	pauseOf := func() (string, bool) {
		o, err := h.Objects.Get(context.Background(), control.Ref{Kind: schedule.Kind, Namespace: "default", Name: "nightly"})
		if err != nil {
			t.Fatal(err)
		}
		why, is := o.Annotations[schedule.PauseAnnotation]
		return why, is
	}
	for _, c := range []struct {
		verb, body, state string
		next              int
		why               string // afterwards; empty: it is not paused
	}{
		{"pause", `{"dryRun":true}`, "Paused", 0, ""},
		{"pause", `{"reason":"new disks"}`, "Paused", 0, "by operator: new disks"},
		{"pause", `{"reason":"again"}`, "Paused", 0, "by operator: new disks"},
		{"resume", `{"dryRun":true}`, "", 5, "by operator: new disks"},
		{"resume", ``, "", 5, ""},
		{"resume", `{}`, "", 5, ""},
	} {
		var body any
		if c.body != "" {
			body = c.body
		}
		var got view.Schedule
		h.Do("POST", one+"/"+c.verb, body).Into(t, &got)
		why, is := pauseOf()
		if got.State != c.state || len(got.Next) != c.next || why != c.why || is != (c.why != "") {
			t.Errorf("%s %s: state %q, %d next, paused %t by %q", c.verb, c.body, got.State, len(got.Next), is, why)
		}
	}
}

func TestTriggerStartsOneRunOfOneKey(t *testing.T) {
	h := fixture(t)
	var first, second, other view.Run
	h.Do("POST", one+"/trigger", `{"reason":"before the upgrade"}`, "Idempotency-Key", "k1").Into(t, &first)
	h.Do("POST", one+"/trigger", `{"reason":"before the upgrade"}`, "Idempotency-Key", "k1").Into(t, &second)
	h.Do("POST", one+"/trigger", nil).Into(t, &other)
	if first.ID == "" || first.ID != second.ID || other.ID == first.ID {
		t.Fatalf("ids %s %s %s", first.ID, second.ID, other.ID)
	}
	if first.Flow != "Quick" || first.Subject != "demo/default/c1" || first.Labels[schedule.LabelSchedule] != "default/nightly" || first.Labels[schedule.LabelTick] != "" {
		t.Errorf("got %+v", first)
	}
	apply(t, h, "broken", `{"cron":"never","flow":"Quick"}`)
	if got := h.Do("POST", "/v1/schedules/default/broken/trigger", nil); got.Problem(t).Code != schedule.Invalid.Code {
		t.Errorf("a broken schedule: %d %s", got.Status, got.Body)
	}
}

func TestBackfill(t *testing.T) {
	h := fixture(t)
	results := func(body string) (results []string) {
		t.Helper()
		var list struct{ Items []schedule.Backfilled }
		h.Do("POST", one+"/backfill", body).Into(t, &list)
		for _, i := range list.Items {
			results = append(results, i.Tick.Format("01-02 ")+i.Result)
		}
		return results
	}
	const days = `"from":"2026-01-01T00:00:00Z","to":"2026-01-02T12:00:00Z"`
	for i, c := range []struct {
		body string
		want []string
	}{
		{`{` + days + `,"dryRun":true}`, []string{"01-01 planned", "01-02 planned"}},
		{`{"from":"2026-01-02T00:00:00Z","to":"2026-01-02T12:00:00Z"}`, []string{"01-02 started"}},
		{`{` + days + `}`, []string{"01-01 started", "01-02 exists"}},
		{`{"from":"2026-01-01T02:00:00Z","to":"2026-01-01T03:00:00Z"}`, nil},
	} {
		got := results(c.body)
		if len(got) != len(c.want) {
			t.Fatalf("%d: got %q, want %q", i, got, c.want)
		}
		for j := range got {
			if got[j] != c.want[j] {
				t.Errorf("%d: got %q, want %q", i, got, c.want)
			}
		}
	}
	for body, want := range map[string]*fault.Kind{
		`{"from":"2020-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: schedule.RangeInvalid, // too many
		`{"from":"2026-01-01T00:00:00Z","to":"2999-01-01T00:00:00Z"}`: schedule.RangeInvalid, // in the future
		`{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`: schedule.RangeInvalid,
		`{"to":"2026-01-01T00:00:00Z"}`:                               route.Refused,
	} {
		if got := h.Do("POST", one+"/backfill", body); got.Status != http.StatusUnprocessableEntity || got.Problem(t).Code != want.Code {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
}

func TestNoObjects(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.Objects = nil })
	for _, c := range [][2]string{{"GET", "/v1/schedules"}, {"GET", one}, {"POST", one + "/pause"}, {"POST", one + "/trigger"}} {
		if got := h.Do(c[0], c[1], nil); got.Status != http.StatusNotImplemented || got.Problem(t).Code != route.NotServed.Code {
			t.Errorf("%s %s: %d %s", c[0], c[1], got.Status, got.Body)
		}
	}
}
