package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// updateBackupAgents makes the deployment of the agents, brings it up to date, removes it where there are to be none,
// and removes agents that have ended.
func updateBackupAgents(p *pass) chain.Decision[*pass] {
	switch d := p.agents; {
	case p.broken != nil:
		return chain.Decision[*pass]{Outcome: outcome.Later(p.options.Look, fault.Of(p.broken).Reason(), "%s", condition.Message(p.broken))}
	case d == nil && p.wanted == nil:
		return nothing()
	case d == nil:
		return agentsAct("create agents", "AgentsCreated", func(ctx context.Context, p *pass) error { return p.objects.Create(ctx, p.wanted.DeepCopy()) })
	case d.DeletionTimestamp != nil:
		return chain.Decision[*pass]{Outcome: outcome.Later(retry, "AgentsTerminating", "the deployment %s is being deleted", d.Name)}
	case foreign(d, p.backup):
		return blocked(DeploymentForeign.Errorf("the deployment %s is controlled by %s", d.Name, metav1.GetControllerOf(d).Name))
	case p.wanted == nil:
		return agentsAct("delete agents", "AgentsDeleted", func(ctx context.Context, p *pass) error { return p.objects.Delete(ctx, p.agents) })
	case !reflect.DeepEqual(d.Spec.Selector, p.wanted.Spec.Selector): // it cannot be changed; the next pass makes another one
		return agentsAct("delete agents", "AgentsDeleted", func(ctx context.Context, p *pass) error { return p.objects.Delete(ctx, p.agents) })
	case outdated(d, p.wanted):
		return agentsAct("update agents", "AgentsUpdated", func(ctx context.Context, p *pass) error {
			patch, err := patchOf(p.agents, p.wanted)
			if err != nil {
				return err
			}
			return p.objects.Patch(ctx, p.agents.DeepCopy(), patch)
		})
	}
	return p.removeEnded()
}

func (f *facts) agentCount() int {
	if n := f.backup.Spec.AgentCount; n != nil {
		return *n
	}
	return 2
}

// agentsAct is an act upon the deployment.
func agentsAct(name, event string, do func(context.Context, *pass) error) chain.Decision[*pass] {
	return chain.Decision[*pass]{Acts: []chain.Act[*pass]{{Name: name, Do: func(ctx context.Context, p *pass) outcome.Outcome {
		if err := do(ctx, p); err != nil {
			return outcome.Fail(err)
		}
		p.told(event, "%s: %s, %d agents", name, AgentsName(p.backup), p.agentCount())
		return outcome.Done()
	}}}}
}

// removeEnded removes agents that have ended for some time: the deployment does not replace them by itself when a node
// has evicted them.
func (p *pass) removeEnded() chain.Decision[*pass] {
	var d chain.Decision[*pass]
	var soonest time.Duration
	for i := range p.pods {
		pod := &p.pods[i]
		since, ended := endOf(pod)
		if !ended || pod.DeletionTimestamp != nil || metav1.GetControllerOf(pod) == nil {
			continue // somebody has made it
		}
		if left := p.options.Limits.TerminalPodAge - p.now.Sub(since); left > 0 {
			if soonest == 0 || left < soonest {
				soonest = left
			}
			continue
		}
		d.Acts = append(d.Acts, chain.Act[*pass]{Name: "delete pod", Targets: []string{pod.Name}, Do: func(ctx context.Context, p *pass) outcome.Outcome {
			p.objects.Tell(p.backup, port.Event{Reason: "AgentDeleted", Message: fmt.Sprintf(
				"delete pod %s: its phase is %s since %s, and agents hold no data", pod.Name, pod.Status.Phase, since.UTC().Format(time.RFC3339))})
			return outcome.Fail(p.objects.Delete(ctx, pod))
		}})
	}
	if soonest > 0 {
		d.Outcome = outcome.Later(soonest, "AgentsEnded", "agents have ended and are removed soon")
	}
	return d
}

// endOf returns when a pod has ended: when its last container did, or, unless that is told, when it was made.
func endOf(pod *corev1.Pod) (since time.Time, ended bool) {
	if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		return time.Time{}, false
	}
	since = pod.CreationTimestamp.Time
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(since) {
			since = t.FinishedAt.Time
		}
	}
	return since, true
}

// foreign reports whether a deployment is controlled by something else than a backup of this name. One that an earlier
// object of the name has left is taken over.
func foreign(d *appsv1.Deployment, b metav1.Object) bool {
	owner := metav1.GetControllerOf(d)
	return owner != nil && (owner.Kind != "FoundationDBBackup" || owner.Name != b.GetName())
}

// outdated reports whether the deployment is not the one that is wanted: by the hash of what was built, by the number
// of agents, and by labels, annotations and owner, of which others may have more.
func outdated(d, wanted *appsv1.Deployment) bool {
	return !within(wanted.Labels, d.Labels) || !within(wanted.Annotations, d.Annotations) ||
		d.Spec.Replicas == nil || *d.Spec.Replicas != *wanted.Spec.Replicas || !metav1.IsControlledBy(d, owner(wanted))
}

func owner(d *appsv1.Deployment) metav1.Object {
	return &metav1.ObjectMeta{UID: d.OwnerReferences[0].UID}
}

func within(wanted, has map[string]string) bool {
	for key, value := range wanted {
		if got, ok := has[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// patchOf is the merge patch that gives a deployment the wanted spec, and the labels, annotations and owner that are
// missing. What stands in the spec besides is removed; Kubernetes fills its defaults in again.
func patchOf(d, wanted *appsv1.Deployment) ([]byte, error) {
	from, err := asMap(d.Spec)
	if err != nil {
		return nil, err
	}
	to, err := asMap(wanted.Spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": d.ResourceVersion, "labels": wanted.Labels, "annotations": wanted.Annotations, "ownerReferences": wanted.OwnerReferences,
		},
		"spec": difference(from, to),
	})
}

func asMap(value any) (m map[string]any, err error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(encoded, &m)
	return m, err
}

// difference is the merge patch from one JSON object to another.
func difference(from, to map[string]any) map[string]any {
	change := map[string]any{}
	for key := range from {
		if _, stays := to[key]; !stays {
			change[key] = nil
		}
	}
	for key, value := range to {
		before, wasObject := from[key].(map[string]any)
		after, isObject := value.(map[string]any)
		switch {
		case wasObject && isObject:
			if inner := difference(before, after); len(inner) > 0 {
				change[key] = inner
			}
		case !reflect.DeepEqual(from[key], value):
			change[key] = value
		}
	}
	return change
}
