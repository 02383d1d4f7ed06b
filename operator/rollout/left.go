package rollout

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// leftovers say what a Rollout that was deleted in the middle leaves on one workload, and what to do
// about it.
var leftovers = []func(at rollout.Position, f rollout.Facts, ref workload.Ref, w rollout.WorkloadFacts) string{
	leftHeld, leftScale, leftPaused, leftDeployments,
}

// leftOn is what a Rollout leaves on a workload; empty: nothing.
func leftOn(name string, at rollout.Position, f rollout.Facts, ref workload.Ref) string {
	w := factsOf(f, ref.Name)
	if w == nil {
		return ""
	}
	var all []string
	for _, left := range leftovers {
		if text := left(at, f, ref, *w); text != "" {
			all = append(all, text)
		}
	}
	if all == nil {
		return ""
	}
	return fmt.Sprintf("Rollout %s was deleted in the middle: %s", name, strings.Join(all, " "))
}

// factsOf are those of one of the workloads; nil: it was not there.
func factsOf(f rollout.Facts, name string) *rollout.WorkloadFacts {
	if f.Target != nil && f.Target.Name == name {
		return f.Target
	}
	for i := range f.Sources {
		if f.Sources[i].Name == name {
			return &f.Sources[i]
		}
	}
	return nil
}

func leftHeld(_ rollout.Position, f rollout.Facts, ref workload.Ref, w rollout.WorkloadFacts) string {
	if !w.Held {
		return ""
	}
	return "pods have two revisions, and the partition keeps them, also in writes of others. To let the rest move: " + letGo(f.Rollout.Namespace, ref) + "."
}

// letGo are the commands that end a hold without a Rollout. The admission rule puts partition and label
// back in every write but one that brings the annotation along.
func letGo(namespace string, ref workload.Ref) string {
	resource := strings.ToLower(ref.Kind)
	if group, version, _ := strings.Cut(ref.APIVersion, "/"); group != "apps" {
		resource += "." + version + "." + group
	}
	object := resource + " " + ref.Name
	if namespace != "" {
		object += " -n " + namespace
	}
	spec := map[string]any{}
	for i, field := range workload.HoldFields(ref) {
		into, path := spec, strings.Split(field, ".")
		for _, step := range path[:len(path)-1] {
			next, ok := into[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[step] = next
			}
			into = next
		}
		into[path[len(path)-1]] = []any{0, false}[i] // the partition, and paused
	}
	spec["metadata"] = map[string]any{
		"annotations": map[string]any{UnguardedAnnotation: "let go", workload.LeftAnnotation: nil},
		"labels":      map[string]any{workload.HeldLabel: nil},
	}
	patch, err := json.Marshal(spec)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return fmt.Sprintf("`kubectl patch %s --type=merge -p '%s'`, then `kubectl annotate %s %s-`", object, patch, object, UnguardedAnnotation)
}

// leftScale names a size that is neither the old nor the new one.
func leftScale(at rollout.Position, _ rollout.Facts, _ workload.Ref, w rollout.WorkloadFacts) string {
	if at.State != rollout.Failed || at.Mode != rollout.Scale || at.OriginalSize == nil || at.TargetSize == nil {
		return ""
	}
	low, high := min(*at.OriginalSize, *at.TargetSize), max(*at.OriginalSize, *at.TargetSize)
	if w.Replicas <= low || w.Replicas >= high {
		return ""
	}
	return fmt.Sprintf("the scale from %d to %d pods stands at %d. Set spec.replicas.", *at.OriginalSize, *at.TargetSize, w.Replicas)
}

// leftPaused names the pause that the end of a scale leaves; with a hold the fields are named already.
func leftPaused(at rollout.Position, _ rollout.Facts, ref workload.Ref, w rollout.WorkloadFacts) string {
	fields := workload.HoldFields(ref)
	if at.State != rollout.Failed || at.Mode != rollout.Scale || w.Held || !w.Paused || w.Kind == rollout.Deployment || len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("updates are paused. Set %s to false.", fields[len(fields)-1])
}

// leftDeployments names the sizes of two Deployments that both have pods.
func leftDeployments(at rollout.Position, f rollout.Facts, _ workload.Ref, w rollout.WorkloadFacts) string {
	if at.State != rollout.Failed || at.Mode != rollout.Rollout || w.Kind != rollout.Deployment || f.Target == nil || f.Target.Replicas == 0 {
		return ""
	}
	old, names := 0, []string{}
	for _, s := range f.Sources {
		if s.Replicas > 0 {
			old, names = old+s.Replicas, append(names, s.Name)
		}
	}
	if old == 0 {
		return ""
	}
	return fmt.Sprintf("Deployment %s has %d pods of the new template, and %s %d of the old one. Set spec.replicas of all of them: to 0 where the pods are to go.",
		f.Target.Name, f.Target.Replicas, strings.Join(names, " and "), old)
}
