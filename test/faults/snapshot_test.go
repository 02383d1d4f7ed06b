package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// snapshot describes the objects of the namespace, without the parts that differ between
// two runs without faults: random names, addresses, nodes, times, and which instance is
// the writer.
func (w *fixture) snapshot(ctx context.Context) (string, error) {
	c, err := w.cluster(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	s := c.Status
	if err := atRest(c); err != nil {
		say("not at rest: %v", err)
	}
	say("cluster %s %q readers %d class %s version %s parameters %s next id %d finalizers %v", s.State, s.Reason, s.Readers, s.Class, s.Version, s.ParametersHash, s.NextID, c.Finalizers)
	roles := map[string]string{} // of instances, by the name of their pods
	for id, i := range s.Instances {
		role := "reader"
		if id == s.Writer {
			role = "writer"
		}
		roles[i.Name] = role
		say("%s: %s %s %s %s %q", role, i.Role, i.Health, i.Class, i.Version, i.Message)
	}
	say("manager %s, failover %t until %s", s.Manager.Health, s.Manager.HA != nil && *s.Manager.HA, s.Manager.Until)
	for _, condition := range s.Conditions {
		say("condition %s %s %s, of the newest generation %t", condition.Type, condition.Status, condition.Reason, condition.ObservedGeneration == c.Generation)
	}
	if err := errors.Join(w.snapshotObjects(ctx, roles, say), w.snapshotRuns(ctx, say)); err != nil {
		return "", err
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func (w *fixture) snapshotObjects(ctx context.Context, roles map[string]string, say func(string, ...any)) error {
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{},
		&appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &coordinationv1.LeaseList{},
	} {
		if err := w.client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		switch l := list.(type) {
		case *corev1.PodList:
			for _, o := range l.Items {
				say("pod of %s: %s, labels %s %s, ready %t, deleted %t", cmp.Or(roles[o.Name], o.Labels["pawl.dev/component"]), o.Status.Phase,
					o.Labels["pawl.dev/role"], o.Labels["pawl.dev/type"], isReady(&o), o.DeletionTimestamp != nil)
			}
		case *corev1.PersistentVolumeClaimList:
			for _, o := range l.Items {
				say("claim of %s: %s %s, label %s, deleted %t", cmp.Or(roles[o.Labels["pawl.dev/instance"]], o.Labels["pawl.dev/component"]), o.Status.Phase,
					o.Spec.Resources.Requests.Storage(), o.Labels["pawl.dev/type"], o.DeletionTimestamp != nil)
			}
		case *corev1.ServiceList:
			for _, o := range l.Items {
				say("service %s %v", o.Name, o.Spec.Selector)
			}
		case *corev1.SecretList:
			names(l.Items, "secret", say)
		case *corev1.ConfigMapList:
			for _, o := range l.Items {
				if !strings.HasPrefix(o.Name, "pawl-flow-") { // definitions of flows
					say("config map %s", o.Name)
				}
			}
		case *corev1.ServiceAccountList:
			names(l.Items, "account", say)
		case *appsv1.DeploymentList:
			for _, o := range l.Items {
				say("deployment %s, %d ready", o.Name, o.Status.ReadyReplicas)
			}
		case *policyv1.PodDisruptionBudgetList:
			names(l.Items, "budget", say)
		case *rbacv1.RoleList:
			names(l.Items, "role", say)
		case *rbacv1.RoleBindingList:
			names(l.Items, "binding", say)
		case *coordinationv1.LeaseList:
			for _, o := range l.Items {
				if o.Name == clusterName+"-grant" {
					var grant struct{ Writer string }
					if err := json.Unmarshal([]byte(o.Annotations["pawl.dev/grant"]), &grant); err != nil {
						return err
					}
					say("the grant is that of the %s", roles[grant.Writer])
				}
			}
		}
	}
	return nil
}

func names[T any, P interface {
	*T
	client.Object
}](items []T, kind string, say func(string, ...any)) {
	for i := range items {
		say("%s %s", kind, P(&items[i]).GetName())
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// ignoreRuns excludes the existing runs from snapshots and checks.
func (w *fixture) ignoreRuns() {
	w.t.Helper()
	runs, err := w.runs(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		w.old[r.UID] = true
	}
}

// snapshotRuns describes the runs with the state of each step.
func (w *fixture) snapshotRuns(ctx context.Context, say func(string, ...any)) error {
	runs, err := w.runs(ctx)
	for _, r := range runs {
		if w.old[r.UID] {
			continue
		}
		steps := 0
		for name, step := range r.Status.Steps {
			steps++
			if step.Phase != string(runtype.StepDone) {
				say("run of %s: step %s is %s", r.Spec.Flow, name, step.Phase)
			}
		}
		say("run of %s: %s, %d steps", r.Spec.Flow, r.Status.Phase, steps)
	}
	return err
}

// awaitSnapshot waits until the snapshot equals want.
func (w *fixture) awaitSnapshot(want string) {
	w.t.Helper()
	w.awaitEvery(500*time.Millisecond, patience, "the end is that of an undisturbed life", func(ctx context.Context) error {
		got, err := w.snapshot(ctx)
		if err == nil && got != want {
			err = fmt.Errorf("%s", difference(want, got))
		}
		return err
	})
}

// difference returns the lines that are in one of two snapshots only.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for _, line := range b {
		if i := slices.Index(a, line); i >= 0 {
			a = slices.Delete(a, i, i+1)
		} else {
			out = append(out, "+ "+line)
		}
	}
	for _, line := range a {
		out = append(out, "- "+line)
	}
	return strings.Join(out, "\n")
}

// epoch returns the epoch of the grant: it increases once for each writer.
func (w *fixture) epoch() int64 {
	w.t.Helper()
	c, err := w.cluster(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Status.Storage.Epoch
}

// checkStepsOnce checks in the history of all runs that no step was done twice.
func (w *fixture) checkStepsOnce() {
	w.t.Helper()
	store, err := kuberuns.Open(w.t.Context(), kuberuns.Options{Config: w.plane.Config(), Namespace: w.namespace, SingleNamespace: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	runs, err := w.runs(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		if !w.old[r.UID] {
			w.checkRunStepsOnce(store, r)
		}
	}
}

func (w *fixture) checkRunStepsOnce(store *kuberuns.Store, r v1alpha1.Run) {
	w.t.Helper()
	events, err := store.History(w.t.Context(), cmp.Or(r.Status.ID, r.Name), 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	done, pauses := map[string]int{}, 0
	for i, e := range events {
		if e.Kind == runtype.RunPaused {
			pauses++
		}
		if e.Seq != int64(i)+1 {
			w.t.Errorf("run of %s: event %d has number %d", r.Spec.Flow, i, e.Seq)
		}
		if e.Kind == runtype.StepDoneEvent {
			done[e.Step]++
		}
	}
	for step, n := range done {
		// A pause closes the bracket and its end reopens it: an API server that has just started
		// does not know the roles, and API_FORBIDDEN pauses the run until it heals.
		if step == "HA/DisableHA" || step == "HA/EnableHA" {
			n -= pauses
		}
		if n > 1 {
			w.t.Errorf("run of %s: step %s was done %d times", r.Spec.Flow, step, n)
		}
	}
	if len(done) == 0 {
		w.t.Errorf("run of %s: no step was done in %d events", r.Spec.Flow, len(events))
	}
}
