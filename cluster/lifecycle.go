package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The states of a cluster.
const (
	Created    machine.State = "Created"
	Starting   machine.State = "Starting"
	Running    machine.State = "Running"
	Stopping   machine.State = "Stopping"
	Stopped    machine.State = "Stopped"
	Scaling    machine.State = "Scaling"
	Alert      machine.State = "Alert"
	Recovering machine.State = "Recovering"
	Expunging  machine.State = "Expunging"
	Expunge    machine.State = "Expunge"
	Destroyed  machine.State = "Destroyed"
)

// States are all states, from creation to destruction.
var States = []machine.State{Created, Starting, Running, Stopping, Stopped, Scaling, Alert, Recovering, Expunging, Expunge, Destroyed}

// LifecycleEvent is an event that moves a cluster from one state to another.
type LifecycleEvent string

// The events of the lifecycle.
const (
	OnStart        LifecycleEvent = "Start"
	OnStop         LifecycleEvent = "Stop"
	OnScaleUp      LifecycleEvent = "ScaleUp"
	OnScaleDown    LifecycleEvent = "ScaleDown"
	OnUpgrade      LifecycleEvent = "Upgrade"
	OnRecover      LifecycleEvent = "Recover"
	OnDelete       LifecycleEvent = "Delete"
	OnFaulty       LifecycleEvent = "FaultyDetected"
	OnSucceeded    LifecycleEvent = "OperationSucceeded"
	OnFailed       LifecycleEvent = "OperationFailed"
	OnCreateFailed LifecycleEvent = "CreateFailed"
	OnForget       LifecycleEvent = "ForceForget"
)

// LifecycleEvents are all events of the lifecycle.
var LifecycleEvents = []LifecycleEvent{OnStart, OnStop, OnScaleUp, OnScaleDown, OnUpgrade, OnRecover, OnDelete, OnFaulty, OnSucceeded, OnFailed, OnCreateFailed, OnForget}

// Edge is a row of the lifecycle table.
type Edge struct {
	From    machine.State
	Event   LifecycleEvent
	To      machine.State
	FiredBy string // what fires it
	Added   bool   // Pawl added it to the state machine of 2016
}

// Edges are all transitions of the lifecycle.
var Edges = []Edge{
	{Created, OnStart, Starting, "create operation, after the row is stored", false},
	{Created, OnDelete, Expunging, "delete, or collector (a create that never started in 10 min)", true},
	{Starting, OnSucceeded, Running, "start run", false},
	{Starting, OnFailed, Alert, "start run of a cluster that was Running before, or policy keep", false},
	{Starting, OnCreateFailed, Expunging, "first start, policy rollback or lazy, or cancelled by delete", true},
	{Running, OnStop, Stopping, "stop; delete", false},
	{Running, OnScaleUp, Scaling, "scale, autoscaler", false},
	{Running, OnScaleDown, Scaling, "scale, autoscaler", false},
	{Running, OnUpgrade, Scaling, "upgrade", true},
	{Running, OnFaulty, Alert, "state sync", false},
	{Stopping, OnSucceeded, Stopped, "stop run", false},
	{Stopping, OnFailed, Alert, "stop run", false},
	{Stopped, OnStart, Starting, "start", false},
	{Stopped, OnFaulty, Alert, "state sync", true},
	{Stopped, OnDelete, Expunging, "delete", false},
	{Scaling, OnSucceeded, Running, "scale or upgrade run", false},
	{Scaling, OnFailed, Alert, "scale or upgrade run", false},
	{Alert, OnRecover, Recovering, "recovery policy, recover, start, scale", false},
	{Alert, OnStop, Stopping, "stop; state sync when Stopped is desired", true},
	{Alert, OnDelete, Expunging, "delete", false},
	{Recovering, OnSucceeded, Running, "recover run", false},
	{Recovering, OnFailed, Alert, "recover run", false},
	{Expunging, OnSucceeded, Destroyed, "delete run", false},
	{Expunging, OnFailed, Expunge, "delete run", false},
	{Expunge, OnDelete, Expunging, "collector, delete", false},
	{Expunge, OnForget, Destroyed, "operator", true},
}

// Next returns the state that an event leads to. STATE_REFUSED if there is no such
// edge.
func Next(from machine.State, event LifecycleEvent) (machine.State, error) {
	for _, e := range Edges {
		if e.From == from && e.Event == event {
			return e.To, nil
		}
	}
	return from, StateRefused.Errorf("a cluster that is %s does not take %s", from, event).
		With("state", string(from)).With("event", string(event))
}

// Transient reports a state in which a run is active.
func Transient(s machine.State) bool {
	return slices.Contains([]machine.State{Starting, Stopping, Scaling, Recovering, Expunging}, s)
}

// The flows of transient states.
const (
	FlowStart   = "cluster-start"
	FlowStop    = "cluster-stop"
	FlowScale   = "cluster-scale" // up, down and upgrade: its input says which
	FlowRecover = "cluster-recover"
	FlowDelete  = "cluster-delete"
)

// FlowOf is the flow that runs in a transient state.
var FlowOf = map[machine.State]string{Starting: FlowStart, Stopping: FlowStop, Scaling: FlowScale, Recovering: FlowRecover, Expunging: FlowDelete}

// RunInput is the input of a run of a cluster. The run reads everything else from
// the record.
type RunInput struct {
	Cluster  string         `json:"cluster"` // uuid
	Event    LifecycleEvent `json:"event"`
	From     machine.State  `json:"from"`
	First    bool           `json:"first,omitempty"`    // the first start
	Deleting bool           `json:"deleting,omitempty"` // a stop on the way to Destroyed: forced after 1 minute
	ByPolicy bool           `json:"byPolicy,omitempty"` // started by the recovery policy, not by a caller
	Request  *Request       `json:"ask,omitempty"`
}

// Subject returns the subject of the runs of a cluster.
func Subject(uuid string) string { return SubjectKind + "/default/" + uuid }

// SubjectKind is the kind of the subjects of cluster runs.
const SubjectKind = "cluster"

// FromSubject returns the uuid in the subject of a run; false if the subject is no
// cluster.
func FromSubject(subject string) (string, bool) {
	uuid, ok := strings.CutPrefix(subject, SubjectKind+"/default/")
	return uuid, ok && uuid != ""
}

// Limits of the lifecycle.
const (
	NeverStarted  = 10 * time.Minute // a cluster that has not started after this time is deleted
	RunDeadline   = 60 * time.Minute
	NodeRemoval   = 15 * time.Minute
	ForceStopTime = time.Minute // of a stop on the way to Destroyed
)

// DueEvent returns the event that is due for a cluster now; empty if none is. run
// is the run of the present state; nil if there is none. Every returned event is an
// edge. DueEvent does not change its arguments.
//
// It never returns OperationSucceeded: the end of the run is that event.
func DueEvent(c *Cluster, run *machine.RunFacts, now time.Time) LifecycleEvent {
	gone, failed := c.Desired == WantDestroyed, runFailed(run)
	switch c.State {
	case Created:
		switch {
		case gone, now.Sub(c.Created) >= NeverStarted:
			return OnDelete
		case c.Desired == WantRunning:
			return OnStart
		}
	case Starting:
		switch {
		case !c.Started && (gone || failed && c.OnFailure != KeepPartial):
			return OnCreateFailed
		case gone, failed:
			return OnFailed
		}
	case Scaling, Recovering:
		if gone || failed {
			return OnFailed
		}
	case Stopping, Expunging:
		if failed {
			return OnFailed
		}
	case Running:
		switch {
		case gone, c.Desired == WantStopped:
			return OnStop
		case c.Alarm:
			return OnFaulty
		}
		return scalingEvent(c)
	case Stopped:
		switch {
		case gone:
			return OnDelete
		case c.Desired == WantRunning:
			return OnStart
		case c.Alarm:
			return OnFaulty
		}
	case Alert:
		return alertEvent(c, now)
	case Expunge:
		switch {
		case c.Forget:
			return OnForget
		case c.Request != nil && c.Request.Kind == RequestDelete, c.GC && !c.GCNext.IsZero() && !now.Before(c.GCNext):
			return OnDelete
		}
	}
	return ""
}

func scalingEvent(c *Cluster) LifecycleEvent {
	switch {
	case c.Request == nil:
		return ""
	case c.Request.Kind == RequestUpgrade:
		return OnUpgrade
	case c.Request.Kind == RequestScale && (len(c.Request.Victims) > 0 || c.NodeCount < c.Request.PreviousCount):
		return OnScaleDown
	case c.Request.Kind == RequestScale:
		return OnScaleUp
	}
	return ""
}

// alertEvent returns the event that leaves Alert: the requested operation, else
// what the policy allows now.
func alertEvent(c *Cluster, now time.Time) LifecycleEvent {
	requested := c.Request != nil
	tried := !c.RecoverNext.IsZero() && !now.Before(c.RecoverNext)
	switch c.Desired {
	case WantDestroyed:
		return OnDelete
	case WantStopped:
		if requested && c.Request.Kind == RequestStop || tried {
			return OnStop
		}
	case WantRunning:
		if requested && slices.Contains([]RequestKind{RequestRecover, RequestStart, RequestScale, RequestUpgrade}, c.Request.Kind) || tried {
			return OnRecover
		}
	}
	return ""
}

// runFailed reports a run that cannot succeed: it paused at a fault, or somebody
// cancelled it. A run that a person paused does not count.
func runFailed(run *machine.RunFacts) bool {
	if run == nil {
		return false
	}
	switch run.Phase {
	case runtype.Cancelled, runtype.Cancelling:
		return true
	case runtype.Paused:
		return run.Fault != nil && run.Fault.Code != workflow.PausedByPerson.Code
	default:
		return false
	}
}

// ReasonOf returns the reason why a run failed.
func ReasonOf(run *machine.RunFacts) Reason {
	switch {
	case run == nil:
		return Reason{}
	case run.Fault != nil:
		return Reason{Code: run.Fault.Code, Text: run.Fault.Message, Step: run.Fault.Step}
	default:
		return Reason{Code: RunCancelled.Code, Text: fmt.Sprintf("run %s was cancelled", run.ID), Step: run.Step}
	}
}

// RemedyOf returns the text that says how to end the cause.
func (r Reason) RemedyOf() string {
	if kind, ok := fault.Lookup(string(r.Code)); ok {
		return kind.Remedy
	}
	return ""
}
