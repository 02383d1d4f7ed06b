package foundationdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// found reads an object that must be there.
func (f *fixture) found(object port.Object) {
	f.Helper()
	if is, err := f.objects.Get(f.Context(), object); err != nil || !is {
		f.Fatalf("%T %s is found: %v, %v", object, object.GetName(), is, err)
	}
}

// fails checks the fault of an error.
func (f *fixture) fails(err error, want *fault.Kind) {
	f.Helper()
	if fault.Of(err) != want {
		f.Errorf("the error is %v, want %s", err, want.Code)
	}
}

// Each kind of child is made, read at once, listed, patched and deleted, by its owner's labels.
func TestObjectsOfEachKind(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	owner := f.cluster("blue", nil)
	f.start()
	ctx := t.Context()
	for kind, make := range map[string]func(metav1.ObjectMeta) port.Object{
		"Pod":     func(m metav1.ObjectMeta) port.Object { return pod(m) },
		"Claim":   func(m metav1.ObjectMeta) port.Object { return claim(m) },
		"Service": func(m metav1.ObjectMeta) port.Object { return service(m) },
		"ConfigMap": func(m metav1.ObjectMeta) port.Object {
			return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"a": "b"}}
		},
		"Deployment": func(m metav1.ObjectMeta) port.Object { return deployment(m) },
	} {
		t.Run(kind, func(t *testing.T) {
			f := &fixture{T: t, namespace: f.namespace, admin: f.admin, objects: f.objects}
			read := func() port.Object { return make(f.meta("x")) }
			if is, err := f.objects.Get(ctx, read()); err != nil || is {
				t.Fatalf("found before it was made: %v, %v", is, err)
			}
			f.fails(f.objects.Patch(ctx, read(), []byte(`{"metadata":{"labels":{"a":"b"}}}`)), control.NotFound)
			made := make(f.child(owner, "FoundationDBCluster", "x"))
			f.must(f.objects.Create(ctx, made))
			if made.GetUID() == "" || made.GetResourceVersion() == "" {
				t.Errorf("made is %+v", made)
			}
			f.fails(f.objects.Create(ctx, make(f.meta("x"))), control.Exists)
			got := read()
			f.until("it is in the cache", func() error { // until then it is read as it is stored
				if f.found(got); len(got.GetManagedFields()) > 0 && kind != "ConfigMap" {
					return fmt.Errorf("got %+v", got)
				}
				return nil
			})
			if got.GetUID() != made.GetUID() || got.GetLabels()["fdb"] != "blue" {
				t.Errorf("got %+v", got)
			}
			got.GetLabels()["fdb"] = "mine" // what was returned is the caller's
			f.found(got)
			if got.GetLabels()["fdb"] != "blue" {
				t.Error("an object of the cache was changed")
			}

			f.must(f.objects.Patch(ctx, got, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"foundationdb.org/x":"1"}}}`)))
			if got.GetLabels()["a"] != "b" || got.GetResourceVersion() == made.GetResourceVersion() {
				t.Errorf("patched is %+v", got)
			}
			again := read()
			f.found(again)
			if again.GetLabels()["a"] != "b" {
				t.Errorf("after a patch to version %s version %s was read", got.GetResourceVersion(), again.GetResourceVersion())
			}
			f.fails(f.objects.Patch(ctx, read(), fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"a":"c"}}}`, made.GetResourceVersion())), fault.WriteConflict)
			f.until("a patch of the newest version", func() error { // controllers of Kubernetes write too
				f.found(again)
				return f.objects.Patch(ctx, got, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"a":null}}}`, again.GetResourceVersion()))
			})
			if _, has := got.GetLabels()["a"]; has {
				t.Errorf("a label is left: %v", got.GetLabels())
			}

			if kind == "ConfigMap" { // they go with their owner
				f.fails(f.objects.Delete(ctx, got), controller.Forbidden)
				return
			}
			other := make(f.meta("x"))
			f.fails(f.objects.Delete(ctx, other), controller.Refused) // it was never read
			other.SetUID("another")
			f.must(f.objects.Delete(ctx, other))
			f.found(read())
			f.must(f.objects.Delete(ctx, got))
			if now := read(); kind != "Claim" { // a claim waits for its protection to be lifted
				if is, err := f.objects.Get(ctx, now); err != nil || is && now.GetDeletionTimestamp() == nil {
					t.Errorf("after its deletion it is found: %v, %v", is, err)
				}
			}
			f.until("it is gone", func() error {
				if is, err := f.objects.Get(ctx, read()); err != nil || is {
					return fmt.Errorf("found: %v, %w", is, err)
				}
				return nil
			})
			f.must(f.objects.Delete(ctx, got))
			anew := make(f.child(owner, "FoundationDBCluster", "x"))
			f.must(f.objects.Create(ctx, anew))
			f.must(f.objects.Delete(ctx, got)) // it is another one
			f.found(read())
		})
	}
}

// Lists are by labels, in order, and in one namespace or all; of foreign objects nothing is missing.
func TestObjectsLists(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	owner := f.cluster("blue", nil)
	ctx := t.Context()
	for _, name := range []string{"c", "a", "b"} {
		f.must(f.admin.Create(ctx, pod(f.child(owner, "FoundationDBCluster", name))))
	}
	foreign := pod(f.meta("foreign"))
	foreign.Labels, foreign.Annotations = map[string]string{"fdb": "other"}, map[string]string{"x": "y"}
	f.must(f.admin.Create(ctx, foreign))
	f.must(f.admin.Create(ctx, claim(f.meta("claim"))))
	f.must(f.admin.Create(ctx, service(f.meta("service"))))
	f.must(f.admin.Create(ctx, deployment(f.meta("deployment"))))
	f.start()
	names := func(list *corev1.PodList) string {
		var all []string
		for _, p := range list.Items {
			all = append(all, p.Name)
		}
		return strings.Join(all, " ")
	}
	for what, c := range map[string]struct {
		namespace string
		labels    map[string]string
		want      string
	}{
		"a cluster":         {f.namespace, map[string]string{"fdb": "blue"}, "a b c"},
		"any namespace":     {"", map[string]string{"fdb": "blue"}, "a b c"},
		"no labels":         {f.namespace, nil, "a b c foreign"},
		"foreign ones":      {f.namespace, map[string]string{"fdb": "other"}, "foreign"},
		"none of them":      {f.namespace, map[string]string{"fdb": "blue", "x": "y"}, ""},
		"another namespace": {"default", map[string]string{"fdb": "blue"}, ""},
	} {
		list := &corev1.PodList{Items: make([]corev1.Pod, 7)}
		err := f.objects.List(ctx, list, c.namespace, c.labels)
		if c.namespace == "default" { // this operator serves one namespace
			if err == nil {
				t.Errorf("%s: %s", what, names(list))
			}
			continue
		}
		if err != nil || names(list) != c.want {
			t.Fatalf("%s: %s, %v", what, names(list), err)
		}
		for _, p := range list.Items {
			if len(p.Spec.Containers) == 0 || p.Status.Phase != corev1.PodPending {
				t.Errorf("%s: %s is %+v", what, p.Name, p)
			}
		}
	}
	for _, object := range []port.Object{pod(f.meta("foreign")), claim(f.meta("claim")), service(f.meta("service")), deployment(f.meta("deployment"))} {
		stored := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
		f.must(f.admin.Get(ctx, client.ObjectKeyFromObject(object), stored))
		f.found(object)
		if object.GetUID() != stored.GetUID() || len(object.GetAnnotations()) != len(stored.GetAnnotations()) {
			t.Errorf("a foreign object is %+v", object)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{}, &v1beta2.FoundationDBClusterList{}} {
		if err := f.objects.List(ctx, list, f.namespace, nil); err != nil || reflect.ValueOf(list).Elem().FieldByName("Items").Len() != 1 {
			t.Errorf("%T: %+v, %v", list, list, err)
		}
	}
	// Other ConfigMaps are nobody's business, and a pod is no list.
	f.fails(f.objects.List(ctx, &corev1.ConfigMapList{}, f.namespace, nil), controller.Forbidden)
	f.fails(f.objects.List(ctx, &corev1.Pod{}, f.namespace, nil), controller.Refused)
}

// A label selector chooses what is ours.
func TestObjectsOfASelector(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{Selector: labels.SelectorFromSet(labels.Set{"team": "a"})})
	f.cluster("ours", func(c *v1beta2.FoundationDBCluster) { c.Labels = map[string]string{"team": "a"} })
	f.cluster("theirs", nil)
	f.start()
	f.found(&v1beta2.FoundationDBCluster{ObjectMeta: f.meta("ours")})
	if is, err := f.objects.Get(t.Context(), &v1beta2.FoundationDBCluster{ObjectMeta: f.meta("theirs")}); err != nil || is {
		t.Errorf("a cluster of others is found: %v, %v", is, err)
	}
}

// The API server's refusal is a fault with its words.
func TestObjectsRefused(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	f.start()
	f.must(f.admin.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: f.meta("q"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}))
	f.until("the quota holds", func() error {
		p := pod(f.meta("p"))
		err := f.objects.Create(t.Context(), p)
		if err == nil {
			return errors.Join(errors.New("it is made"), f.objects.Delete(t.Context(), p))
		}
		f.fails(err, controller.Forbidden)
		if !strings.Contains(err.Error(), "quota") {
			t.Errorf("the error is %v", err)
		}
		return nil
	})
	invalid := service(f.meta("s"))
	invalid.Spec.Type = "Other"
	f.fails(f.objects.Create(t.Context(), invalid), controller.Refused)
	noOwner := &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: types.UID("0")}}
	f.fails(f.objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: f.child(noOwner, "Namespace", "m")}), controller.Forbidden) // no right on its finalizers
}

// A status is saved as it is, in one write, and only of the version that was read.
func TestSaveStatus(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	ctx := t.Context()
	c := f.cluster("blue", nil)
	f.start()
	f.found(c)
	stale := c.DeepCopy()
	never := &v1beta2.FoundationDBCluster{ObjectMeta: f.meta("blue")}
	f.fails(f.objects.SaveStatus(ctx, never), fault.WriteConflict)
	f.fails(f.objects.SaveStatus(ctx, &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "none", ResourceVersion: "1"}}), control.NotFound)
	f.fails(f.objects.SaveStatus(ctx, pod(f.meta("p"))), controller.Refused)

	c.Spec.Version = "7.4.6" // is not saved
	c.Status.RunningVersion, c.Status.Configured = "7.3.69", true
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
	c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{
		{ProcessGroupID: "storage-1", ProcessClass: "storage", RemovalTimestamp: new(metav1.NewTime(time.Unix(2, 0))), ExclusionSkipped: true},
		{ProcessGroupID: "storage-2", ProcessClass: "storage"},
	}
	want := c.Status.DeepCopy()
	f.must(f.objects.SaveStatus(ctx, c))
	if !reflect.DeepEqual(c.Status, *want) || c.Spec.Version != "7.3.69" || c.ResourceVersion == stale.ResourceVersion {
		t.Errorf("saved is %+v", c)
	}
	got := &v1beta2.FoundationDBCluster{ObjectMeta: f.meta("blue")}
	f.found(got)
	if !reflect.DeepEqual(got.Status, *want) || got.ResourceVersion != c.ResourceVersion {
		t.Errorf("read is %+v", got)
	}
	version := c.ResourceVersion
	f.must(f.objects.SaveStatus(ctx, c)) // nothing has changed
	if c.ResourceVersion != version {
		t.Errorf("version %s became %s", version, c.ResourceVersion)
	}

	stale.Status.RunningVersion = "7.1.67"
	f.fails(f.objects.SaveStatus(ctx, stale), fault.WriteConflict)

	// Fields go as well; elements of lists keep nothing of those that were at their place.
	c.Status.ProcessGroups = c.Status.ProcessGroups[1:]
	c.Status.RunningVersion, c.Status.Conditions = "", nil
	want = c.Status.DeepCopy()
	f.must(f.objects.SaveStatus(ctx, c))
	stored := &v1beta2.FoundationDBCluster{}
	f.must(f.admin.Get(ctx, client.ObjectKeyFromObject(c), stored))
	if !reflect.DeepEqual(c.Status, *want) || !reflect.DeepEqual(stored.Status, *want) {
		t.Errorf("saved is %+v, stored %+v", c.Status, stored.Status)
	}

	// Somebody else's change is seen before it is written over.
	stored.Annotations = map[string]string{"a": "b"}
	f.must(f.admin.Update(ctx, stored))
	c.Status.RunningVersion = "7.3.69"
	f.fails(f.objects.SaveStatus(ctx, c), fault.WriteConflict)
	f.until("the change is read", func() error {
		f.found(c)
		if c.Annotations["a"] != "b" {
			return errors.New("not yet")
		}
		return nil
	})
	f.must(f.objects.Patch(ctx, c, []byte(`{"metadata":{"annotations":{"a":null}}}`)))
	c.Status.RunningVersion = "7.3.69"
	f.must(f.objects.SaveStatus(ctx, c)) // of the version that was patched, whether the cache has it or not

	// An object that was made anew is another one.
	f.must(f.admin.Delete(ctx, stored))
	f.fails(f.objects.SaveStatus(ctx, func() *v1beta2.FoundationDBCluster { c.Status.RunningVersion = "x"; return c }()), control.NotFound)
	f.cluster("blue", nil)
	f.fails(f.objects.SaveStatus(ctx, c), fault.WriteConflict)

	for _, object := range []port.Object{
		&v1beta2.FoundationDBBackup{ObjectMeta: f.meta("b"), Spec: v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "blue"}},
		&v1beta2.FoundationDBRestore{ObjectMeta: f.meta("r"), Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "blue"}},
	} {
		f.must(f.admin.Create(ctx, object))
		f.until("it is read", func() error {
			if is, err := f.objects.Get(ctx, object); err != nil || !is {
				return fmt.Errorf("found: %v, %w", is, err)
			}
			return nil
		})
		switch o := object.(type) {
		case *v1beta2.FoundationDBBackup:
			o.Status.AgentCount = 2
		case *v1beta2.FoundationDBRestore:
			o.Status.Running = true
		}
		old := object.DeepCopyObject().(port.Object)
		old.SetResourceVersion("1") // no cache has it
		f.must(f.objects.SaveStatus(ctx, object))
		f.fails(f.objects.SaveStatus(ctx, old), fault.WriteConflict)
		f.must(f.objects.Patch(ctx, object, []byte(`{"metadata":{"finalizers":["pawl.dev/x"]}}`)))
		f.must(f.objects.Patch(ctx, object, []byte(`{"metadata":{"finalizers":null}}`)))
	}
}

// The status of 1,000 groups fits, and one more condition of one group is one write.
func TestLargeStatus(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	c := f.cluster("large", nil)
	f.start()
	f.found(c)
	for n := range 1000 {
		g := v1beta2.ProcessGroupStatus{ProcessGroupID: v1beta2.ProcessGroupID(fmt.Sprint("large-storage-", 10000+n)), ProcessClass: "storage", Addresses: []string{"10.100.200.201", "10.100.200.202"}, FaultDomain: "node-with-a-long-name-0123.example.com"}
		for _, condition := range []v1beta2.ProcessGroupConditionType{v1beta2.IncorrectPodSpec, v1beta2.IncorrectPodMetadata, v1beta2.IncorrectConfigMap, v1beta2.IncorrectCommandLine,
			v1beta2.IncorrectSidecarImage, v1beta2.MissingProcesses, v1beta2.SidecarUnreachable, v1beta2.PodFailing, v1beta2.NodeTaintDetected, v1beta2.NodeTaintReplacing} {
			g.ProcessGroupConditions = append(g.ProcessGroupConditions, v1beta2.ProcessGroupCondition{Type: condition, Timestamp: 1_764_154_000})
		}
		c.Status.ProcessGroups = append(c.Status.ProcessGroups, g)
	}
	encoded, err := json.Marshal(c)
	f.must(err)
	if len(encoded) > 1<<20 {
		t.Errorf("the object has %d bytes", len(encoded))
	}
	f.must(f.objects.SaveStatus(t.Context(), c))
	g := &c.Status.ProcessGroups[500]
	g.ProcessGroupConditions = g.ProcessGroupConditions[1:]
	f.must(f.objects.SaveStatus(t.Context(), c))
	requests, err := f.plane.Requests()
	f.must(err)
	writes := 0
	for _, r := range requests {
		if r.Object.Namespace == f.namespace && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d writes", writes)
	}
}

// Nodes are read with their labels and taints only, and from when they are asked for.
func TestNodesOfObjects(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	name := "node-" + f.namespace
	taint := corev1.Taint{Key: "example.com/maintenance", Effect: corev1.TaintEffectPreferNoSchedule}
	f.must(f.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": f.namespace}, Annotations: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{ProviderID: "x", Taints: []corev1.Taint{taint}}}))
	t.Cleanup(func() {
		f.must(f.admin.DeleteAllOf(context.Background(), &corev1.Node{}, client.MatchingLabels{"of": f.namespace}))
	})
	f.start()
	var nodes corev1.NodeList
	f.fails(f.objects.List(t.Context(), &nodes, f.namespace, nil), controller.Refused)
	f.must(f.objects.List(t.Context(), &nodes, "", map[string]string{"of": f.namespace}))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.found(node)
	if len(nodes.Items) != 1 || nodes.Items[0].Name != name || node.Spec.ProviderID != "" || node.Annotations != nil || len(node.Spec.Taints) == 0 || node.Spec.Taints[0].Key != taint.Key {
		t.Errorf("the nodes are %+v, %+v", nodes.Items, node)
	}
}

func TestTell(t *testing.T) {
	f := newFixture(t, kube.ObjectsOptions{})
	c := f.cluster("blue", nil)
	f.start()
	f.objects.Tell(c, port.Event{Reason: "PodDeleted", Message: "100% " + strings.Repeat("é", 2000)})
	f.objects.Tell(c, port.Event{Reason: "UpgradeBlocked", Message: "client 10.0.0.1", Warning: true})
	f.until("the Events", func() error {
		events, err := f.plane.Client().EventsV1().Events(f.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) < 2 {
			return fmt.Errorf("%d events, %w", len(events.Items), err)
		}
		seen := map[string]eventsv1.Event{}
		for _, e := range events.Items {
			seen[e.Reason] = e
		}
		deleted, blocked := seen["PodDeleted"], seen["UpgradeBlocked"]
		if deleted.Regarding.Name != "blue" || deleted.Regarding.Kind != "FoundationDBCluster" || deleted.Type != "Normal" || !strings.HasPrefix(deleted.Note, "100% é") ||
			blocked.Type != "Warning" || blocked.Note != "client 10.0.0.1" {
			t.Errorf("the events are %+v", events.Items)
		}
		return nil
	})
}
