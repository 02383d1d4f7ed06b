package gate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/rollout"
)

// Variables are what an expression sees.
type Variables struct {
	Rollout  Rollout
	Batch    Batch
	Workload Workload
	Pods     []Pod
	Metrics  map[string]float64 // the newest value of each metric of the batch
	Now      time.Time
}

// Rollout is the variable rollout.
type Rollout struct {
	Name           string `json:"name"`
	Namespace      string `json:"namespace"`
	Number         int    `json:"number"` // of the rollouts of this object
	State          string `json:"state"`
	SourceRevision string `json:"sourceRevision"`
	TargetRevision string `json:"targetRevision"`
	Batches        int    `json:"batches"`
}

// Batch is the variable batch.
type Batch struct {
	Index  int `json:"index"`
	Size   int `json:"size"`
	Target int `json:"target"` // pods of this batch and all before it
}

// Workload is the variable workload.
type Workload struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	Revision string `json:"revision"` // that the template makes
}

// Pod is one of the variable pods.
type Pod struct {
	Name        string                    `json:"name"`
	Ordinal     int                       `json:"ordinal"` // -1: none
	Ready       bool                      `json:"ready"`
	Available   bool                      `json:"available"` // ready for minReadySeconds, and its probes pass
	Updated     bool                      `json:"updated"`
	Terminating bool                      `json:"terminating"`
	Role        string                    `json:"role"`
	Zone        string                    `json:"zone"`
	Node        string                    `json:"node"`
	Restarts    int                       `json:"restarts"`
	Labels      map[string]string         `json:"labels"`
	Probes      map[string]map[string]any `json:"probes"` // by name: passing, failed, value
}

// VariablesOf are those of a decision.
func VariablesOf(p rollout.Plan, at rollout.Position, f rollout.Facts, now time.Time) Variables {
	v := Variables{
		Rollout: Rollout{Name: f.Rollout.Name, Namespace: f.Rollout.Namespace, Number: at.Number, State: string(at.State),
			SourceRevision: at.SourceRevision, TargetRevision: at.TargetRevision, Batches: len(at.Batches)},
		Batch:   Batch{Index: at.CurrentBatch, Size: at.Batches[at.CurrentBatch].Size, Target: at.Batches[at.CurrentBatch].Target},
		Metrics: map[string]float64{}, Now: now,
	}
	for key, a := range at.Answers {
		if value, err := strconv.ParseFloat(a.Value, 64); err == nil && strings.Contains(key, "/metric/") {
			v.Metrics[key[strings.LastIndex(key, "/")+1:]] = value
		}
	}
	f.Now = now
	if f.Target != nil {
		v.Workload = Workload{Kind: string(f.Target.Kind), Name: f.Target.Name, Replicas: f.Target.Replicas, Revision: f.Target.UpdateRevision}
	}
	for i := range f.Pods {
		v.Pods = append(v.Pods, podOf(p, at, f, &f.Pods[i]))
	}
	return v
}

func podOf(p rollout.Plan, at rollout.Position, f rollout.Facts, pod *rollout.Pod) Pod {
	made := Pod{
		Name: pod.Name, Ordinal: pod.Ordinal, Ready: pod.Ready, Available: f.Available(*pod), Terminating: pod.Terminating,
		Updated: f.Updated(at, *pod), Role: pod.Role, Zone: pod.Zone, Node: pod.Node, Restarts: pod.Restarts, Labels: pod.Labels,
		Probes: map[string]map[string]any{},
	}
	for name, facts := range pod.Probes {
		made.Probes[name] = map[string]any{"passing": facts.Passing, "failed": facts.Failed, "value": parsed(p, name, facts.Value)}
	}
	return made
}

func (v Variables) activation() map[string]any {
	return map[string]any{
		"rollout": v.Rollout, "batch": v.Batch, "workload": v.Workload, "pods": v.Pods, "metrics": v.Metrics, "now": v.Now,
	}
}

// parsed is the value of a probe as its plan parses it: a number, JSON, or the text.
func parsed(p rollout.Plan, probe, value string) any {
	i := slices.IndexFunc(p.Probes, func(r rollout.Probe) bool { return r.Name == probe })
	if i < 0 {
		return value
	}
	switch p.Probes[i].Parse {
	case rollout.ParseNumber:
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			return number
		}
	case rollout.ParseJSON:
		var decoded any
		if err := json.Unmarshal([]byte(value), &decoded); err == nil {
			return decoded
		}
	case rollout.ParseExit:
	}
	return value
}
