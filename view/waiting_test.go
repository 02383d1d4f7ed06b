package view_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The JSON form of a run contains what it waits for, with the newest failure, since when and until when.
func TestWaitsOfRuns(t *testing.T) {
	begun := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	later := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Minute) }
	flow := &workflow.Flow{Name: "Greet", Deadline: time.Hour}
	for name, c := range map[string]struct {
		phase runtype.Phase
		step  runtype.StepRecord
		flow  *workflow.Flow
		want  *api.Waiting
	}{
		"a signal": {runtype.Waiting, runtype.StepRecord{Phase: runtype.StepWaiting, Attempt: 1, Wait: &runtype.WaitRecord{Reason: "Signal", Message: "signal answer", Since: later(1), Deadline: later(11)}}, flow,
			&api.Waiting{For: "signal answer", Tries: 1, Since: later(1), Until: later(11)}},
		"the flow ends sooner": {runtype.Waiting, runtype.StepRecord{Phase: runtype.StepWaiting, Wait: &runtype.WaitRecord{Reason: "Signal", Since: later(1), Deadline: later(99)}}, flow,
			&api.Waiting{For: "Signal", Since: later(1), Until: later(60)}},
		"a timer": {runtype.Waiting, runtype.StepRecord{Phase: runtype.StepWaiting, Wait: &runtype.WaitRecord{Reason: "Timer", Message: "until then", Since: later(1), Until: later(5)}}, nil,
			&api.Waiting{For: "until then", Since: later(1), Until: later(5)}},
		"the next attempt": {runtype.Running, runtype.StepRecord{Phase: runtype.StepRetrying, Attempt: 3, StartedAt: later(2), NextAt: later(9), Fault: &runtype.Fault{Code: "X_GONE", Message: "connection refused"}}, nil,
			&api.Waiting{For: "the next attempt", Code: "X_GONE", Error: "connection refused", Tries: 3, Since: later(2), Next: later(9)}},
		"it works":      {runtype.Running, runtype.StepRecord{Phase: runtype.StepRunning, Attempt: 1}, flow, nil},
		"it was paused": {runtype.Paused, runtype.StepRecord{Phase: runtype.StepWaiting, Wait: &runtype.WaitRecord{Since: later(1)}}, flow, nil},
	} {
		r := &runtype.Run{ID: "r1", Flow: "Greet", Phase: c.phase, StartedAt: begun}
		c.step.Name = "Answer"
		r.Put(&c.step)
		if c.want != nil {
			c.want.Run, c.want.Step = "r1", "Answer"
		}
		if got := view.OfRun(r, c.flow).Waiting; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The list, describe and --wait show what a run waits for, since when and until when. For
// a cluster without a run they show that its provider cannot be read.
func TestWaitsAreShown(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	c := view.Cluster{ID: "1", Name: "blue", State: cluster.Starting, Provider: "dc1", Created: now.Add(-time.Hour), Waiting: &api.Waiting{
		Step: "endpoint", For: "https://192.0.2.1:6443 does not answer yet: connection refused", Since: now.Add(-time.Minute), Until: now.Add(time.Minute), Tries: 1,
	}}
	const want = "at endpoint: https://192.0.2.1:6443 does not answer yet: connection refused, since 11:59:00, until 12:01:00 UTC"
	for name, text := range map[string]string{
		"list": view.ClusterTable([]view.Cluster{c}, now).Text(view.Style{}), "describe": view.DescribeCluster(c, nil, nil, now, view.Style{}), "--wait": view.WaitingLine(c, now),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if line := view.WaitingLine(c, now.Add(-50*time.Second)); line != "blue Starting" {
		t.Errorf("--wait at once: %s", line)
	}
	c.State, c.Waiting = cluster.Running, nil
	c.Unseen = &api.Unseen{Code: "PROVIDER_UNREACHABLE", Text: "connection refused", Since: now.Add(-time.Minute)}
	for name, text := range map[string]string{
		"list": view.ClusterTable([]view.Cluster{c}, now).Text(view.Style{}), "describe": view.DescribeCluster(c, nil, nil, now, view.Style{}),
	} {
		if !strings.Contains(text, "PROVIDER_UNREACHABLE: provider dc1 cannot be read since 2030-01-01T11:59:00Z: connection refused") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
