package runstore_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var diskLost = fault.Declare(fault.Kind{Code: "DISK_LOST", Class: fault.Blocked, Title: "a disk is gone", Remedy: "Put another disk in, then resume the run."})

// items lists objects of the test API server over HTTP.
func items(t *testing.T, server *kubetest.Server, path string) []map[string]any {
	t.Helper()
	answer, err := http.Get(server.Config().Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list struct{ Items []map[string]any }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// A paused run reports title and remedy of its fault, in its status and by an Event. Its
// resumption is an Event too. A run that succeeds causes no Event.
func TestAPausedRunReportsItsRemedy(t *testing.T) {
	broken := make(chan bool, 1)
	broken <- true
	long := strings.Repeat("ö", 2000)
	flows := []workflow.Flow{
		{Name: "Fine", Steps: []workflow.Step{{Name: "Only", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}},
		{Name: "Breaks", Steps: []workflow.Step{{Name: "Write", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			select {
			case <-broken:
				return outcome.Fail(diskLost.Errorf("disk 7 does not answer: %s", long))
			default:
				return outcome.Done()
			}
		}}}},
	}
	server := kubetest.NewServer(t)
	s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Namespace: "space", SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e := serve(t, s, flows)
	start := func(flow string) string {
		t.Helper()
		r, err := e.Start(t.Context(), workflow.Request{Flow: flow, Subject: "kind/space/" + flow})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	told := func(n int) []map[string]any {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			events := items(t, server, "/api/v1/namespaces/space/events")
			if len(events) >= n {
				return events
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d Events within a minute, want %d: %v", len(events), n, events)
			}
		}
	}

	await(t, e, start("Fine"), runtype.Succeeded)
	id := start("Breaks")
	await(t, e, id, runtype.Paused)
	event := told(1)[0]
	message, _ := event["message"].(string)
	if event["type"] != "Warning" || event["reason"] != "DiskLost" || len(message) > 1024 ||
		!strings.HasPrefix(message, "the run is paused at step Write: disk 7 does not answer") || !strings.HasSuffix(message, "ö…. Remedy: "+diskLost.Remedy) {
		t.Errorf("the Event of the pause is %v", event)
	}
	about, _ := event["involvedObject"].(map[string]any)
	if about["kind"] != "Run" || about["name"] != id || about["uid"] == "" {
		t.Errorf("the Event is about %v", about)
	}
	for _, run := range items(t, server, "/apis/pawl.dev/v1alpha1/namespaces/space/runs") {
		status, _ := run["status"].(map[string]any)
		got, _ := status["fault"].(map[string]any)
		if status["phase"] == "Paused" && (got["remedy"] != diskLost.Remedy || got["title"] != diskLost.Title || got["code"] != "DISK_LOST") {
			t.Errorf("the fault in status is %v", got)
		}
	}
	if err := e.Resume(t.Context(), id, "", "", workflow.Actor{Name: "ann", Reason: "a new disk"}); err != nil {
		t.Fatal(err)
	}
	await(t, e, id, runtype.Succeeded)
	var said []string
	for _, event := range told(2) {
		said = append(said, event["type"].(string)+" "+event["reason"].(string))
		if event["reason"] == "Resumed" && event["message"] != "the run goes on, requested by ann: a new disk" {
			t.Errorf("the Event of the resumption is %v", event)
		}
	}
	if len(said) != 2 || said[0] == said[1] {
		t.Errorf("the Events are %v", said)
	}
}

// A run that is deleted and created again under its name has Events of its own.
func TestEventsOfARunThatIsCreatedAgain(t *testing.T) {
	flow := workflow.Flow{Name: "Breaks", Steps: []workflow.Step{{Name: "Write", Do: func(context.Context, *workflow.Task) outcome.Outcome {
		return outcome.Fail(diskLost.Errorf("disk 7 does not answer"))
	}}}}
	server := kubetest.NewServer(t)
	s, err := kuberuns.Open(t.Context(), kuberuns.Options{Config: server.Config(), Namespace: "space", SingleNamespace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e := serve(t, s, []workflow.Flow{flow})
	const runs = "/apis/pawl.dev/v1alpha1/namespaces/space/runs"
	within := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	for range 2 {
		r, err := e.Start(t.Context(), workflow.Request{Flow: "Breaks", Subject: "kind/space/x", RequestID: "again"})
		if err != nil {
			t.Fatal(err)
		}
		await(t, e, r.ID, runtype.Paused)
		uid := items(t, server, runs)[0]["metadata"].(map[string]any)["uid"]
		within("an Event of this run", func() bool {
			return slices.ContainsFunc(items(t, server, "/api/v1/namespaces/space/events"), func(event map[string]any) bool {
				return event["involvedObject"].(map[string]any)["uid"] == uid
			})
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, server.Config().Host+runs+"/"+r.ID, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		within("the run is forgotten", func() bool {
			_, err := e.Get(t.Context(), r.ID)
			return err != nil
		})
	}
}
