package porttest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// ObjectsHarness opens what the suite of port.Objects needs.
type ObjectsHarness struct {
	// Open returns objects of which the namespaces of the fixture hold none.
	Open func(t testing.TB) ObjectsFixture
	// Wait lets what is late come: a moment of real time (50 ms without it) or of a virtual clock.
	Wait func(t testing.TB)
	// Collects says that the owned are deleted after their owner, which a control plane without its controllers
	// does not do.
	Collects bool
}

// ObjectsFixture is an API server with two namespaces.
type ObjectsFixture struct {
	Objects    port.Objects
	Namespaces [2]string // {"a", "b"}: without objects
}

// Objects examines an implementation of port.Objects.
func Objects(t *testing.T, h ObjectsHarness) {
	for _, q := range []struct {
		name string
		run  func(*examinee)
	}{
		{"what is not there is not found", absent},
		{"each kind can be created, read, patched and deleted", kinds},
		{"create fills what was stored, and never takes a name twice", create},
		{"what is returned is a copy", copied},
		{"a patch merges", merged},
		{"a patch with another resource version is a conflict", guarded},
		{"a patch does not change the status", spared},
		{"a patch of what is not there is not found", patchless},
		{"the generation counts the changes of the spec", generation},
		{"the status is saved, and nothing else", status},
		{"fields of a spec that the types do not have are kept and named", unknown},
		{"a status of an older object is a conflict", swapped},
		{"delete deletes exactly this object", deleted},
		{"finalizers hold an object", held},
		{"a list has all objects with the labels", listed},
		{"an ended context ends a call", ended},
		{"tell does not fail", told},
	} {
		t.Run(q.name, func(t *testing.T) { q.run(open(t, h)) })
	}
	if h.Collects {
		t.Run("the owned are deleted after their owner", func(t *testing.T) { collected(open(t, h)) })
	}
}

// examinee is a fixture with the words of the suite.
type examinee struct {
	testing.TB
	port.Objects
	namespaces [2]string
	wait       func(testing.TB)
}

func open(t *testing.T, h ObjectsHarness) *examinee {
	f := h.Open(t)
	return &examinee{TB: t, Objects: f.Objects, namespaces: f.Namespaces, wait: pause(h.Wait)}
}

func (e *examinee) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: e.namespaces[0], Name: name}
}

func (e *examinee) cluster(name string) *v1beta2.FoundationDBCluster {
	return &v1beta2.FoundationDBCluster{ObjectMeta: e.meta(name), Spec: v1beta2.FoundationDBClusterSpec{Version: "7.3.69"}}
}

func (e *examinee) configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: e.meta(name), Data: data}
}

func (e *examinee) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *examinee) wants(err error, kind *fault.Kind) {
	e.Helper()
	if fault.Of(err) != kind {
		e.Fatalf("the error is %v, want the fault %s", err, kind.Code)
	}
}

// there returns what is stored of an object.
func there[T port.Object](e *examinee, object T) (T, bool) {
	e.Helper()
	fresh, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(T)
	if !ok {
		e.Fatalf("%T is no object", object)
	}
	fresh.SetNamespace(object.GetNamespace())
	fresh.SetName(object.GetName())
	found, err := e.Get(e.Context(), fresh)
	e.must(err)
	return fresh, found
}

func (e *examinee) patch(object port.Object, patch string) {
	e.Helper()
	e.must(e.Patch(e.Context(), object, []byte(patch)))
}

func (e *examinee) gone(object port.Object) {
	e.Helper()
	eventually(e.TB, e.wait, func() string {
		if now, found := there(e, object); found && now.GetUID() == object.GetUID() {
			return fmt.Sprintf("%T %s is still there", object, object.GetName())
		}
		return ""
	})
}

func absent(e *examinee) {
	c := e.cluster("none")
	found, err := e.Get(e.Context(), c)
	e.must(err)
	if found {
		e.Error("an object is found that nobody has created")
	}
	var list corev1.PodList
	e.must(e.List(e.Context(), &list, e.namespaces[0], nil))
	if len(list.Items) != 0 {
		e.Errorf("%d pods are listed that nobody has created", len(list.Items))
	}
}

func (e *examinee) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: e.meta(name), Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"pawl.dev/nowhere": "true"}, // no node runs it
		Containers:   []corev1.Container{{Name: "main", Image: "example/main:1"}},
	}}
}

func kinds(e *examinee) {
	labels := map[string]string{"app": "x"}
	for _, o := range []port.Object{
		e.cluster("c"),
		&v1beta2.FoundationDBBackup{ObjectMeta: e.meta("b"), Spec: v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "c", BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "a@b"}}},
		&v1beta2.FoundationDBRestore{ObjectMeta: e.meta("r"), Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "c", BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "a@b"}}},
		e.pod("p"),
		&corev1.PersistentVolumeClaim{ObjectMeta: e.meta("v"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&corev1.Service{ObjectMeta: e.meta("s"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}},
		e.configMap("m", map[string]string{"key": "value"}),
		&appsv1.Deployment{ObjectMeta: e.meta("d"), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/main:1"}}}},
		}},
	} {
		kind := fmt.Sprintf("%T", o)
		if err := e.Create(e.Context(), o); err != nil {
			e.Errorf("%s is not created: %v", kind, err)
			continue
		}
		stored, found := there(e, o)
		if !found || stored.GetUID() != o.GetUID() {
			e.Errorf("%s is not read: %+v", kind, stored)
		}
		if err := e.Patch(e.Context(), o, []byte(`{"metadata":{"labels":{"mark":"1"}}}`)); err != nil || o.GetLabels()["mark"] != "1" {
			e.Errorf("%s is not patched: %v", kind, err)
		}
		if stored, _ = there(e, o); stored.GetLabels()["mark"] != "1" {
			e.Errorf("the patch of %s is not stored", kind)
		}
		e.must(e.Delete(e.Context(), o))
		e.gone(o)
	}
}

func create(e *examinee) {
	c := e.cluster("c")
	c.Labels = map[string]string{"l": "1"}
	c.Status.ConnectionString = "never:stored@1.2.3.4:4501"
	e.must(e.Create(e.Context(), c))
	if c.UID == "" || c.ResourceVersion == "" || c.CreationTimestamp.IsZero() || c.Generation != 1 || c.Spec.Version != "7.3.69" || c.Labels["l"] != "1" {
		e.Errorf("create has filled %+v", c.ObjectMeta)
	}
	if c.Status.ConnectionString != "" {
		e.Error("create has stored a status")
	}
	second := e.cluster("c")
	second.Spec.Version = "7.1.67"
	e.wants(e.Create(e.Context(), second), control.Exists)
	if stored, _ := there(e, c); stored.UID != c.UID || stored.Spec.Version != "7.3.69" || stored.ResourceVersion != c.ResourceVersion {
		e.Errorf("the refused create has changed the object: %+v", stored)
	}
	other := e.cluster("c")
	other.Namespace = e.namespaces[1]
	e.must(e.Create(e.Context(), other))
	if other.UID == c.UID {
		e.Error("two objects have one UID")
	}
}

func copied(e *examinee) {
	m := e.configMap("m", map[string]string{"key": "value"})
	e.must(e.Create(e.Context(), m))
	m.Data["key"] = "changed after create"
	first, _ := there(e, m)
	first.Data["key"] = "changed after get"
	var list corev1.ConfigMapList
	eventually(e.TB, e.wait, func() string {
		e.must(e.List(e.Context(), &list, e.namespaces[0], nil))
		if slices.ContainsFunc(list.Items, func(o corev1.ConfigMap) bool { return o.Name == "m" }) {
			return ""
		}
		return "the config map is not listed"
	})
	for i := range list.Items {
		if list.Items[i].Data != nil {
			list.Items[i].Data["key"] = "changed after list"
		}
	}
	if stored, _ := there(e, m); stored.Data["key"] != "value" {
		e.Errorf("the caller has changed the stored object: %q", stored.Data["key"])
	}
}

func merged(e *examinee) {
	m := e.configMap("m", map[string]string{"stays": "1", "changes": "1", "goes": "1"})
	m.Labels = map[string]string{"stays": "1"}
	m.Finalizers = []string{"example.com/a", "example.com/b"}
	e.must(e.Create(e.Context(), m))
	e.patch(m, `{"metadata":{"labels":{"new":"2"},"annotations":{"a/b":"c"},"finalizers":["example.com/c"]},"data":{"changes":"2","goes":null,"comes":"","gone":null}}`)
	want := map[string]string{"stays": "1", "changes": "2", "comes": ""}
	for _, got := range []*corev1.ConfigMap{m, first(there(e, m))} {
		if !reflect.DeepEqual(got.Data, want) || got.Labels["stays"] != "1" || got.Labels["new"] != "2" || got.Annotations["a/b"] != "c" || !reflect.DeepEqual(got.Finalizers, []string{"example.com/c"}) {
			e.Errorf("the patch has made %+v", got)
		}
	}
	before := m.ResourceVersion
	e.patch(m, `{"data":{"changes":"3"}}`)
	if m.ResourceVersion == before {
		e.Error("a change leaves the resource version")
	}
	e.patch(m, `{"metadata":{"finalizers":null}}`)
}

func first[T, U any](a T, _ U) T { return a }

func guarded(e *examinee) {
	m := e.configMap("m", map[string]string{"n": "1"})
	e.must(e.Create(e.Context(), m))
	old := m.ResourceVersion
	guard := func(version, value string) []byte {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "data": map[string]any{"n": value}})
		e.must(err)
		return text
	}
	e.must(e.Patch(e.Context(), m, guard(old, "2")))
	e.wants(e.Patch(e.Context(), e.configMap("m", nil), guard(old, "3")), fault.WriteConflict)
	if stored, _ := there(e, m); stored.Data["n"] != "2" {
		e.Errorf("the conflict has stored %q", stored.Data["n"])
	}
}

func spared(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	e.patch(c, `{"spec":{"logGroup":"g"},"status":{"runningVersion":"7.1.67"}}`)
	if stored, _ := there(e, c); stored.Spec.LogGroup != "g" || stored.Status.RunningVersion != "" {
		e.Errorf("the patch has made logGroup %q and runningVersion %q", stored.Spec.LogGroup, stored.Status.RunningVersion)
	}
}

func patchless(e *examinee) {
	e.wants(e.Patch(e.Context(), e.configMap("none", nil), []byte(`{"data":{"a":"b"}}`)), control.NotFound)
	if _, found := there(e, e.configMap("none", nil)); found {
		e.Error("the patch has made an object")
	}
}

func generation(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	e.patch(c, `{"metadata":{"labels":{"a":"b"}}}`)
	c.Status.Configured = true
	e.must(e.SaveStatus(e.Context(), c))
	if c.Generation != 1 {
		e.Errorf("labels and status have made the generation %d", c.Generation)
	}
	e.patch(c, `{"spec":{"version":"7.3.70"}}`)
	if c.Generation != 2 {
		e.Errorf("a changed spec has made the generation %d", c.Generation)
	}
}

func status(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	c.Status.RunningVersion = "7.3.69"
	c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{{ProcessGroupID: "storage-1", ProcessClass: "storage", Addresses: []string{"10.1.0.1"}}}
	c.Spec.Version = "7.1.67"
	c.Labels = map[string]string{"not": "saved"}
	before := c.ResourceVersion
	e.must(e.SaveStatus(e.Context(), c))
	for _, got := range []*v1beta2.FoundationDBCluster{c, first(there(e, c))} {
		if got.Status.RunningVersion != "7.3.69" || len(got.Status.ProcessGroups) != 1 || got.Spec.Version != "7.3.69" || got.Labels["not"] != "" {
			e.Errorf("the saved object is %+v", got)
		}
	}
	if c.ResourceVersion == before {
		e.Error("the saved status leaves the resource version")
	}
	e.must(e.SaveStatus(e.Context(), c)) // with the version that the last one has filled in
	c.Status.RunningVersion = ""
	e.must(e.SaveStatus(e.Context(), c))
	if stored, _ := there(e, c); stored.Status.RunningVersion != "" {
		e.Error("an emptied field stays")
	}
	none := e.cluster("none")
	none.ResourceVersion, none.UID = c.ResourceVersion, c.UID
	e.wants(e.SaveStatus(e.Context(), none), control.NotFound)
}

func swapped(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	old := c.DeepCopy()
	e.patch(c, `{"metadata":{"annotations":{"a":"b"}}}`)
	old.Status.RunningVersion = "7.1.67"
	e.wants(e.SaveStatus(e.Context(), old), fault.WriteConflict)
	if stored, _ := there(e, c); stored.Status.RunningVersion != "" || stored.Annotations["a"] != "b" {
		e.Errorf("the conflict has stored %+v", stored)
	}
}

func deleted(e *examinee) {
	m := e.configMap("m", nil)
	e.must(e.Create(e.Context(), m))
	other := m.DeepCopy()
	other.UID = "00000000-0000-4000-8000-00000000beef"
	e.must(e.Delete(e.Context(), other))
	if now, found := there(e, m); !found || now.DeletionTimestamp != nil {
		e.Error("an object was deleted that has another UID")
	}
	e.must(e.Delete(e.Context(), m))
	e.gone(m)
	e.must(e.Delete(e.Context(), m))
	again := e.configMap("m", nil)
	e.must(e.Create(e.Context(), again))
	if again.UID == m.UID {
		e.Error("an object that was made anew has the UID of the old one")
	}
	e.must(e.Delete(e.Context(), m))
	if now, found := there(e, again); !found || now.UID != again.UID || now.DeletionTimestamp != nil {
		e.Error("the object that was made anew is deleted in place of the old one")
	}
}

func held(e *examinee) {
	m := e.configMap("m", nil)
	m.Finalizers = []string{"example.com/held"}
	e.must(e.Create(e.Context(), m))
	e.must(e.Delete(e.Context(), m))
	now, found := there(e, m)
	if !found || now.DeletionTimestamp == nil {
		e.Fatalf("an object with a finalizer is %+v after its deletion", now)
	}
	e.must(e.Delete(e.Context(), m))
	e.patch(m, `{"metadata":{"finalizers":null}}`)
	e.gone(m)
}

func listed(e *examinee) {
	for n := range 6 {
		m := e.configMap(fmt.Sprintf("m-%d", n), nil)
		m.Namespace = e.namespaces[n%2]
		m.Labels = map[string]string{"mark": e.namespaces[0], "third": fmt.Sprint(n % 3)}
		e.must(e.Create(e.Context(), m))
	}
	for _, q := range []struct {
		namespace string
		labels    map[string]string
		want      []string
	}{
		{e.namespaces[0], map[string]string{"mark": e.namespaces[0]}, []string{"m-0", "m-2", "m-4"}},
		{e.namespaces[1], map[string]string{"mark": e.namespaces[0]}, []string{"m-1", "m-3", "m-5"}},
		{"", map[string]string{"mark": e.namespaces[0]}, []string{"m-0", "m-1", "m-2", "m-3", "m-4", "m-5"}},
		{e.namespaces[0], map[string]string{"mark": e.namespaces[0], "third": "1"}, []string{"m-4"}},
		{e.namespaces[0], map[string]string{"mark": "other"}, nil},
		{e.namespaces[0], map[string]string{"none": ""}, nil},
	} {
		eventually(e.TB, e.wait, func() string {
			list := corev1.ConfigMapList{Items: []corev1.ConfigMap{*e.configMap("rest of the caller", nil)}}
			e.must(e.List(e.Context(), &list, q.namespace, q.labels))
			var names []string
			for _, m := range list.Items {
				names = append(names, m.Name)
				if m.UID == "" || m.Labels["mark"] == "" {
					return fmt.Sprintf("%s is listed without its content", m.Name)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, q.want) {
				return fmt.Sprintf("the list of %q with %v is %v, want %v", q.namespace, q.labels, names, q.want)
			}
			return ""
		})
	}
	var nodes corev1.NodeList
	e.must(e.List(e.Context(), &nodes, "", nil))
}

func ended(e *examinee) {
	m := e.configMap("m", map[string]string{"n": "1"})
	e.must(e.Create(e.Context(), m))
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.Create(ctx, e.configMap("late", nil)); err == nil {
		e.Error("create goes on after the end of its context")
	}
	if err := e.Patch(ctx, e.configMap("m", nil), []byte(`{"data":{"n":"2"}}`)); err == nil {
		e.Error("patch goes on after the end of its context")
	}
	if err := e.Delete(ctx, m); err == nil {
		e.Error("delete goes on after the end of its context")
	}
	if stored, found := there(e, m); !found || stored.Data["n"] != "1" {
		e.Error("a call has changed an object after the end of its context")
	}
}

func told(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	e.Tell(c, port.Event{Reason: "Examined", Message: "all is well"})
	e.Tell(c, port.Event{Reason: "Examined", Message: "all is not well", Warning: true})
	e.must(e.Delete(e.Context(), c))
	e.gone(c)
	e.Tell(c, port.Event{Reason: "Examined", Message: "it is gone"})
}

func collected(e *examinee) {
	c := e.cluster("c")
	e.must(e.Create(e.Context(), c))
	m := e.configMap("m", nil)
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta2.GroupVersion.String(), Kind: "FoundationDBCluster", Name: c.Name, UID: c.UID}}
	e.must(e.Create(e.Context(), m))
	free := e.configMap("free", nil)
	e.must(e.Create(e.Context(), free))
	e.must(e.Delete(e.Context(), c))
	e.gone(c)
	e.gone(m)
	if _, found := there(e, free); !found {
		e.Error("an object without owner is gone too")
	}
}
