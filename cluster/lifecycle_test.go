package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"pgregory.net/rapid"
)

// The table of the lifecycle, written a second time: rows are states, columns
// events. Every other pair is refused.
var allowed = map[machine.State]map[LifecycleEvent]machine.State{
	Created:    {OnStart: Starting, OnDelete: Expunging},
	Starting:   {OnSucceeded: Running, OnFailed: Alert, OnCreateFailed: Expunging},
	Running:    {OnStop: Stopping, OnScaleUp: Scaling, OnScaleDown: Scaling, OnUpgrade: Scaling, OnFaulty: Alert},
	Stopping:   {OnSucceeded: Stopped, OnFailed: Alert},
	Stopped:    {OnStart: Starting, OnFaulty: Alert, OnDelete: Expunging},
	Scaling:    {OnSucceeded: Running, OnFailed: Alert},
	Alert:      {OnRecover: Recovering, OnStop: Stopping, OnDelete: Expunging},
	Recovering: {OnSucceeded: Running, OnFailed: Alert},
	Expunging:  {OnSucceeded: Destroyed, OnFailed: Expunge},
	Expunge:    {OnDelete: Expunging, OnForget: Destroyed},
	Destroyed:  {},
}

func TestEveryPairIsAllowedOrRefused(t *testing.T) {
	pairs := 0
	for _, from := range States {
		for _, event := range LifecycleEvents {
			pairs++
			want, ok := allowed[from][event]
			to, err := Next(from, event)
			switch {
			case ok && (err != nil || to != want):
				t.Errorf("%s on %s: got %s, %v; want %s", from, event, to, err, want)
			case !ok && (!errors.Is(err, StateRefused) || to != from):
				t.Errorf("%s on %s: got %s, %v; want STATE_REFUSED and no move", from, event, to, err)
			}
		}
	}
	if pairs != 11*12 {
		t.Errorf("%d pairs, want all states times all events", pairs)
	}
}

func TestAdditionsToTheMachineOf2016(t *testing.T) {
	var ours []string
	for _, e := range Edges {
		if e.Added {
			ours = append(ours, fmt.Sprint(e.From, " ", e.Event))
		}
	}
	want := []string{"Created Delete", "Starting CreateFailed", "Running Upgrade", "Stopped FaultyDetected", "Alert Stop", "Expunge ForceForget"}
	if !slices.Equal(ours, want) {
		t.Errorf("marked as Pawl's: %v", ours)
	}
}

func TestTransientStatesHaveAFlowAndAWayOut(t *testing.T) {
	for _, s := range States {
		_, flow := FlowOf[s]
		_, succeeds := allowed[s][OnSucceeded]
		_, fails := allowed[s][OnFailed]
		if Transient(s) != flow || Transient(s) != succeeds || Transient(s) != fails {
			t.Errorf("%s: transient %t, flow %t, success %t, failure %t", s, Transient(s), flow, succeeds, fails)
		}
	}
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

var (
	working   = &machine.RunFacts{Phase: runtype.Running}
	faulted   = &machine.RunFacts{Phase: runtype.Paused, Fault: &runtype.Fault{Code: CapacityExhausted.Code}}
	byPerson  = &machine.RunFacts{Phase: runtype.Paused, Fault: &runtype.Fault{Code: workflow.PausedByPerson.Code}}
	cancelled = &machine.RunFacts{Phase: runtype.Cancelled}
	succeeded = &machine.RunFacts{Phase: runtype.Succeeded}
)

// Desired state, delete, cancel, and the other causes of an event.
func TestDue(t *testing.T) {
	type change func(*Cluster)
	request := func(kind RequestKind) change {
		return func(c *Cluster) { c.Request = &Request{Kind: kind, PreviousCount: 3} }
	}
	want := func(d Desired) change { return func(c *Cluster) { c.Desired = d } }
	started := func(c *Cluster) { c.Started = true }
	keep := func(c *Cluster) { c.OnFailure = KeepPartial }
	alarm := func(c *Cluster) { c.Alarm = true }
	size := func(n int) change { return func(c *Cluster) { c.NodeCount = n } }
	try := func(at time.Time) change { return func(c *Cluster) { c.RecoverNext = at } }
	collect := func(gc bool, at time.Time) change { return func(c *Cluster) { c.GC, c.GCNext = gc, at } }
	forget := func(c *Cluster) { c.Forget = true }
	age := func(d time.Duration) change { return func(c *Cluster) { c.Created = noon.Add(-d) } }

	for _, c := range []struct {
		name    string
		state   machine.State
		run     *machine.RunFacts
		changes []change
		want    LifecycleEvent
	}{
		{"a create starts", Created, nil, nil, OnStart},
		{"a create that never started is collected", Created, nil, []change{age(10 * time.Minute)}, OnDelete},
		{"until then it starts", Created, nil, []change{age(10*time.Minute - 1)}, OnStart},
		{"delete of a created one", Created, nil, []change{want(WantDestroyed)}, OnDelete},

		{"a first start goes on", Starting, working, nil, ""},
		{"a first start without its run yet", Starting, nil, nil, ""},
		{"a first start that fails", Starting, faulted, nil, OnCreateFailed},
		{"a first start that fails, policy keep", Starting, faulted, []change{keep}, OnFailed},
		{"a first start that is cancelled by a person", Starting, cancelled, nil, OnCreateFailed},
		{"a first start that a person paused", Starting, byPerson, nil, ""},
		{"delete cancels a first start", Starting, working, []change{want(WantDestroyed)}, OnCreateFailed},
		{"delete cancels a first start, policy keep", Starting, working, []change{want(WantDestroyed), keep}, OnCreateFailed},
		{"delete of a first start that a person paused", Starting, byPerson, []change{want(WantDestroyed)}, OnCreateFailed},
		{"a later start that fails", Starting, faulted, []change{started}, OnFailed},
		{"delete cancels a later start", Starting, working, []change{started, want(WantDestroyed)}, OnFailed},
		{"the success of a run is no condition", Starting, succeeded, nil, ""},

		{"running rests", Running, nil, []change{started}, ""},
		{"stop", Running, nil, []change{want(WantStopped)}, OnStop},
		{"delete of a running one stops first", Running, nil, []change{want(WantDestroyed)}, OnStop},
		{"alarm", Running, nil, []change{alarm}, OnFaulty},
		{"stop before alarm", Running, nil, []change{alarm, want(WantStopped)}, OnStop},
		{"scale up", Running, nil, []change{request(RequestScale), size(5)}, OnScaleUp},
		{"scale to the same size corrects", Running, nil, []change{request(RequestScale), size(3)}, OnScaleUp},
		{"scale down", Running, nil, []change{request(RequestScale), size(2)}, OnScaleDown},
		{"victims named", Running, nil, []change{func(c *Cluster) {
			c.Request = &Request{Kind: RequestScale, Victims: []string{"a"}, PreviousCount: 3}
			c.NodeCount = 3
		}}, OnScaleDown},
		{"upgrade", Running, nil, []change{request(RequestUpgrade)}, OnUpgrade},
		{"start of a running one is nothing", Running, nil, []change{request(RequestStart)}, ""},

		{"stopping is let end", Stopping, working, []change{want(WantDestroyed)}, ""},
		{"a stop that fails", Stopping, faulted, nil, OnFailed},
		{"a stop that fails, on the way to destroyed", Stopping, faulted, []change{want(WantDestroyed)}, OnFailed},

		{"stopped rests", Stopped, nil, []change{want(WantStopped)}, ""},
		{"start", Stopped, nil, nil, OnStart},
		{"delete of a stopped one", Stopped, nil, []change{want(WantDestroyed)}, OnDelete},
		{"alarm of a stopped one", Stopped, nil, []change{want(WantStopped), alarm}, OnFaulty},

		{"scaling goes on", Scaling, working, []change{started}, ""},
		{"scaling fails", Scaling, faulted, []change{started}, OnFailed},
		{"delete cancels scaling", Scaling, working, []change{started, want(WantDestroyed)}, OnFailed},
		{"scaling paused by a person", Scaling, byPerson, []change{started}, ""},
		{"recovering fails", Recovering, faulted, []change{started}, OnFailed},
		{"delete cancels recovering", Recovering, working, []change{started, want(WantDestroyed)}, OnFailed},

		{"alert waits", Alert, nil, nil, ""},
		{"alert, recover requested", Alert, nil, []change{request(RequestRecover)}, OnRecover},
		{"alert, start requested", Alert, nil, []change{request(RequestStart)}, OnRecover},
		{"alert, scale requested", Alert, nil, []change{request(RequestScale)}, OnRecover},
		{"alert, the policy's next try is due", Alert, nil, []change{try(noon)}, OnRecover},
		{"alert, the policy's next try is later", Alert, nil, []change{try(noon.Add(1))}, ""},
		{"alert, stop requested", Alert, nil, []change{want(WantStopped), request(RequestStop)}, OnStop},
		{"alert, stopped desired, the next try is due", Alert, nil, []change{want(WantStopped), try(noon)}, OnStop},
		{"alert, stopped desired", Alert, nil, []change{want(WantStopped)}, ""},
		{"alert, destroyed desired", Alert, nil, []change{want(WantDestroyed)}, OnDelete},

		{"expunging goes on", Expunging, working, []change{want(WantDestroyed)}, ""},
		{"expunging fails", Expunging, faulted, []change{want(WantDestroyed)}, OnFailed},
		{"expunge waits for the collector", Expunge, nil, []change{collect(true, noon.Add(1))}, ""},
		{"expunge, the collector's time", Expunge, nil, []change{collect(true, noon)}, OnDelete},
		{"expunge, gc is 0", Expunge, nil, []change{collect(false, noon)}, ""},
		{"expunge, no time yet", Expunge, nil, []change{collect(true, time.Time{})}, ""},
		{"expunge, delete requested, gc is 0", Expunge, nil, []change{collect(false, time.Time{}), request(RequestDelete)}, OnDelete},
		{"expunge, forced out", Expunge, nil, []change{forget, request(RequestDelete)}, OnForget},
		{"destroyed", Destroyed, nil, []change{want(WantRunning), alarm, forget, try(noon)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &Cluster{State: c.state, Desired: WantRunning, Created: noon, NodeCount: 3}
			for _, change := range c.changes {
				change(cluster)
			}
			if got := DueEvent(cluster, c.run, noon); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// For every cluster the due event is an edge, and the desired state Destroyed leads
// to Destroyed.
func TestDueIsAlwaysAnEdge(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := anyCluster(r)
		run := rapid.SampledFrom([]*machine.RunFacts{nil, working, faulted, byPerson, cancelled, succeeded}).Draw(r, "run")
		before := *c
		event := DueEvent(c, run, noon)
		if event == "" {
			return
		}
		if _, err := Next(c.State, event); err != nil {
			r.Fatalf("%s: %s is due: %v", c.State, event, err)
		}
		if fmt.Sprint(before) != fmt.Sprint(*c) {
			r.Fatal("Due changed the cluster")
		}
	})
}

func TestDestroyedIsReachedWhateverFails(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := anyCluster(r)
		c.Desired, c.GC, c.Forget = WantDestroyed, true, false
		if c.State == Expunge && c.GCNext.IsZero() {
			c.GCNext = noon // the first pass of the collector sets it
		}
		now := noon
		for steps := 0; c.State != Destroyed; steps++ {
			if steps > 30 {
				r.Fatalf("it stays %s", c.State)
			}
			now = now.Add(24 * time.Hour)
			run := working
			if steps < 10 && rapid.Bool().Draw(r, "fails") {
				run = faulted
			}
			event := DueEvent(c, run, now)
			if event == "" && Transient(c.State) {
				event = OnSucceeded
			}
			if event == "" {
				r.Fatalf("nothing is due for %s", c.State)
			}
			to, err := Next(c.State, event)
			if err != nil {
				r.Fatal(err)
			}
			Enter(c, event, to, Reason{Code: CapacityExhausted.Code}, now, GCBackoff)
		}
	})
}

func anyCluster(r *rapid.T) *Cluster {
	at := rapid.SampledFrom([]time.Time{{}, noon.Add(-time.Hour), noon, noon.Add(time.Hour)})
	c := &Cluster{
		UUID: "1f2e3d4c-0000-4000-8000-000000000000", State: rapid.SampledFrom(States).Draw(r, "state"),
		Desired:   rapid.SampledFrom([]Desired{WantRunning, WantStopped, WantDestroyed}).Draw(r, "desired"),
		OnFailure: rapid.SampledFrom([]OnFailure{"", Rollback, Lazy, KeepPartial}).Draw(r, "policy"),
		Started:   rapid.Bool().Draw(r, "started"), Alarm: rapid.Bool().Draw(r, "alarm"), Forget: rapid.Bool().Draw(r, "forget"), GC: rapid.Bool().Draw(r, "gc"),
		Created: at.Draw(r, "created"), GCNext: at.Draw(r, "gcNext"), RecoverNext: at.Draw(r, "recoverNext"),
		NodeCount: rapid.IntRange(1, 5).Draw(r, "size"),
	}
	if kind := rapid.SampledFrom([]RequestKind{"", RequestScale, RequestUpgrade, RequestRecover, RequestStart, RequestStop, RequestDelete}).Draw(r, "ask"); kind != "" {
		c.Request = &Request{Kind: kind, PreviousCount: rapid.IntRange(1, 5).Draw(r, "before")}
	}
	return c
}

func TestEnter(t *testing.T) {
	why := Reason{Code: CapacityExhausted.Code, Text: "full"}
	faulty := []Finding{{Type: NotReady, Resource: "b"}, {Type: Missing, Resource: "a", Alarm: true, Evidence: "it is gone"}}
	base := Cluster{UUID: "u", Findings: faulty, Alarm: true, SuspectSince: noon, RecoverNext: noon, RecoverTries: 2, GCNext: noon, Reason: Reason{Code: "OLD"}}
	enter := func(event LifecycleEvent, to machine.State) Cluster {
		c := base
		Enter(&c, event, to, why, noon, GCBackoff)
		if c.State != to || !c.StateSince.Equal(noon) || !c.RecoverNext.IsZero() {
			t.Errorf("%s: %s since %s, next try %s", event, c.State, c.StateSince, c.RecoverNext)
		}
		return c
	}
	c := enter(OnSucceeded, Running)
	if c.Alarm || c.Findings != nil || !c.Started || c.Reason != (Reason{}) || c.RecoverTries != 2 {
		t.Errorf("a new Running: %+v", c)
	}
	c = enter(OnFaulty, Alert)
	if c.Reason.Code != ClusterFaulty.Code || c.Reason.Resource != "a" || c.Reason.Text != "missing a: it is gone" || !c.Alarm {
		t.Errorf("faulty: %+v", c.Reason)
	}
	if c = enter(OnFailed, Alert); c.Reason != why {
		t.Errorf("a failed run: %+v", c.Reason)
	}
	if c = enter(OnCreateFailed, Expunging); c.Reason != why {
		t.Errorf("a failed create: %+v", c.Reason)
	}
	if c = enter(OnSucceeded, Destroyed); c.Reason != why || !c.Removed.Equal(noon) {
		t.Errorf("destroyed has the reason of its create, and no older one: %+v", c)
	}
	if c = enter(OnForget, Destroyed); c.Reason.Code != "OLD" || !c.Removed.Equal(noon) {
		t.Errorf("what was given up keeps what stood in the way: %+v", c)
	}
	if c = enter(OnFailed, Expunge); c.GCAttempts != 1 || c.GCNext.Sub(noon) < 5*time.Minute || c.GCNext.Sub(noon) > 6*time.Minute {
		t.Errorf("expunge: attempt %d at %s", c.GCAttempts, c.GCNext)
	}
	if c = enter(OnRecover, Recovering); !c.Alarm || c.Reason.Code != "OLD" {
		t.Errorf("recovering keeps why: %+v", c)
	}
}

func TestDrawing(t *testing.T) {
	drawing, table := Diagram(Scaling), EdgeTable()
	for _, e := range Edges {
		if !strings.Contains(drawing, fmt.Sprintf("    %s --> %s: %s\n", e.From, e.To, e.Event)) {
			t.Errorf("the diagram has no %s on %s", e.From, e.Event)
		}
		if !strings.Contains(table, fmt.Sprintf("| %s | %s", e.From, e.Event)) {
			t.Errorf("the table has no %s on %s", e.From, e.Event)
		}
	}
	if strings.Count(drawing, " --> ") != len(Edges)+2 || strings.Count(table, "\n") != len(Edges)+2 {
		t.Errorf("more than the edges:\n%s\n%s", drawing, table)
	}
	if !strings.Contains(drawing, "class Scaling here") || strings.Contains(Diagram(""), "here") {
		t.Error("the present state is not the one that is lit")
	}
}
