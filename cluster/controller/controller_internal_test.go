package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestTheMachineHasExactlyTheEdgesOfTheLifecycle(t *testing.T) {
	table := table()
	if problems := table.Check(nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	got := map[string]bool{}
	for from, spec := range table.States {
		if cluster.Transient(from) != spec.Transient() || spec.Final() != (from == cluster.Destroyed) {
			t.Errorf("%s: transient %v, final %v", from, spec.Transient(), spec.Final())
		}
		if spec.Then != "" {
			got[fmt.Sprintf("%s %s %s", from, cluster.OnSucceeded, spec.Then)] = true
		}
		for _, on := range spec.On {
			got[fmt.Sprintf("%s %s %s", from, on.Event, on.To)] = true
		}
	}
	for _, on := range table.Any {
		for _, from := range cluster.States {
			if on.Event == fmt.Sprintf("%s.%s", from, eventOf(machine.Move{To: machine.Position{Event: on.Event}})) {
				got[fmt.Sprintf("%s %s %s", from, eventOf(machine.Move{To: machine.Position{Event: on.Event}}), on.To)] = true
			}
		}
	}
	for _, e := range cluster.Edges {
		edge := fmt.Sprintf("%s %s %s", e.From, e.Event, e.To)
		if !got[edge] {
			t.Errorf("the machine lacks %s", edge)
		}
		delete(got, edge)
	}
	for edge := range got {
		t.Errorf("the lifecycle has no %s", edge)
	}
}

// In every state the machine fires the transition of cluster.DueEvent.
func TestTheMachineFiresWhatIsDue(t *testing.T) {
	table, now := table(), time.Now()
	failed := &machine.RunFacts{ID: "r", Phase: runtype.Paused, Fault: &runtype.Fault{Code: "TIMEOUT"}}
	for _, state := range cluster.States {
		for _, desired := range []cluster.Desired{cluster.WantRunning, cluster.WantStopped, cluster.WantDestroyed} {
			for _, run := range []*machine.RunFacts{nil, failed, {ID: "r", Phase: runtype.Running}} {
				for _, ask := range []*cluster.Request{nil, {Kind: cluster.RequestScale, PreviousCount: 1}, {Kind: cluster.RequestRecover}, {Kind: cluster.RequestUpgrade}} {
					v := &view{Cluster: cluster.Cluster{State: state, Desired: desired, Request: ask, Created: now, GC: true}, run: run, now: now}
					p := machine.Position{State: state, Visit: 1}
					if cluster.Transient(state) && run != nil {
						p.Run = run.ID
					}
					d := machine.Decide(table, v, machine.Facts{Position: p, Run: run, Now: now})
					want := cluster.DueEvent(&v.Cluster, run, now)
					got := cluster.LifecycleEvent("")
					if d.Act == machine.Moves && d.Move.Cause == machine.ByEvent {
						got = eventOf(d.Move)
					}
					if cluster.Transient(state) && run == nil {
						want = "" // the machine starts its run first
					}
					if got != want {
						t.Errorf("%s, desired %s, run %v, ask %v: fired %q, due is %q", state, desired, run, ask, got, want)
					}
				}
			}
		}
	}
}

func TestTransitionsDecideJobs(t *testing.T) {
	reason := cluster.Reason{Code: cluster.CapacityExhausted.Code, Text: "full"}
	for _, c := range []struct {
		from, to machine.State
		event    cluster.LifecycleEvent
		kind     string
		want     cluster.JobStatus
		code     string
	}{
		{cluster.Starting, cluster.Running, cluster.OnSucceeded, "create", cluster.JobDone, ""},
		{cluster.Starting, cluster.Running, cluster.OnSucceeded, "start", cluster.JobDone, ""},
		{cluster.Starting, cluster.Expunging, cluster.OnCreateFailed, "create", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Starting, cluster.Alert, cluster.OnFailed, "start", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Starting, cluster.Expunging, cluster.OnCreateFailed, "delete", cluster.JobOpen, ""},
		{cluster.Running, cluster.Stopping, cluster.OnStop, "delete", cluster.JobOpen, ""},
		{cluster.Stopping, cluster.Stopped, cluster.OnSucceeded, "stop", cluster.JobDone, ""},
		{cluster.Stopping, cluster.Stopped, cluster.OnSucceeded, "delete", cluster.JobOpen, ""},
		{cluster.Stopping, cluster.Alert, cluster.OnFailed, "stop", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Scaling, cluster.Alert, cluster.OnFailed, "upgrade", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Running, cluster.Alert, cluster.OnFaulty, "scale", cluster.JobOpen, ""},
		{cluster.Recovering, cluster.Running, cluster.OnSucceeded, "scale", cluster.JobDone, ""},
		{cluster.Recovering, cluster.Running, cluster.OnSucceeded, "upgrade", cluster.JobOpen, ""},
		{cluster.Recovering, cluster.Alert, cluster.OnFailed, "upgrade", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Expunging, cluster.Expunge, cluster.OnFailed, "delete", cluster.JobFailed, "CAPACITY_EXHAUSTED"},
		{cluster.Expunging, cluster.Destroyed, cluster.OnSucceeded, "delete", cluster.JobDone, ""},
		{cluster.Expunge, cluster.Destroyed, cluster.OnForget, "forget", cluster.JobDone, ""},
		{cluster.Expunging, cluster.Destroyed, cluster.OnSucceeded, "scale", cluster.JobFailed, "OPERATION_OVERTAKEN"},
		{cluster.Created, cluster.Expunging, cluster.OnDelete, "create", cluster.JobFailed, "OPERATION_OVERTAKEN"},
	} {
		status, why := jobResult(c.kind, &cluster.Cluster{State: c.to}, c.from, c.event, reason)
		if status != c.want || string(why.Code) != c.code {
			t.Errorf("%s %s→%s of a %s job: %d %s, want %d %s", c.event, c.from, c.to, c.kind, status, why.Code, c.want, c.code)
		}
		if status != cluster.JobOpen && !mayEnd(&cluster.Cluster{State: c.to}, c.from) {
			t.Errorf("%s→%s: the jobs that it ends are not read", c.from, c.to)
		}
	}
}

func TestPollsAreSpread(t *testing.T) {
	seen, start := map[string]time.Time{}, time.Now()
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint(i))
	}
	if got := pickDue(seen, many, start); len(got) != 1000 {
		t.Errorf("%d at first, want all", len(got))
	}
	if got := pickDue(seen, many, start.Add(repollAfter-time.Second)); len(got) != 0 {
		t.Errorf("%d before their time", len(got))
	}
	if got := pickDue(seen, append(many, "new"), start.Add(repollAfter)); len(got) != maxRepolls+1 || got[0] != "new" {
		t.Errorf("%d, want %d and the new one first", len(got), maxRepolls)
	}
	if pickDue(seen, nil, start.Add(repollAfter)); len(seen) != 0 {
		t.Errorf("%d settled clusters are remembered", len(seen))
	}
}
