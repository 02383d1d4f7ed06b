package sandbox

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// kind is a kind of objects that the API serves.
type kind struct {
	metav1.APIResource

	version schema.GroupVersion
	object  func() port.Object    // nil: it is not stored
	list    func() runtime.Object // of several
}

func (k kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.version.Group, Resource: k.Name}
}

func (k kind) custom() bool { return k.version == v1beta2.GroupVersion }

var (
	core   = corev1.SchemeGroupVersion
	apps   = appsv1.SchemeGroupVersion
	stored = metav1.Verbs{"get", "list", "watch", "create", "patch", "update", "delete"}
	read   = metav1.Verbs{"get", "list"}
)

// kinds are all that there are.
var kinds = []kind{
	kindOf(core, "Pod", "pods", "po", func() port.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }),
	kindOf(core, "Service", "services", "svc", func() port.Object { return &corev1.Service{} }, func() runtime.Object { return &corev1.ServiceList{} }),
	kindOf(core, "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", func() port.Object { return &corev1.PersistentVolumeClaim{} }, func() runtime.Object { return &corev1.PersistentVolumeClaimList{} }),
	kindOf(core, "ConfigMap", "configmaps", "cm", func() port.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }),
	kindOf(core, "Node", "nodes", "no", func() port.Object { return &corev1.Node{} }, func() runtime.Object { return &corev1.NodeList{} }),
	kindOf(core, "Namespace", "namespaces", "ns", nil, nil),
	kindOf(core, "Event", "events", "ev", nil, nil),
	kindOf(apps, "Deployment", "deployments", "deploy", func() port.Object { return &appsv1.Deployment{} }, func() runtime.Object { return &appsv1.DeploymentList{} }),
	kindOf(v1beta2.GroupVersion, clusterKind, "foundationdbclusters", "fdb", func() port.Object { return &v1beta2.FoundationDBCluster{} }, func() runtime.Object { return &v1beta2.FoundationDBClusterList{} }),
	kindOf(v1beta2.GroupVersion, backupKind, "foundationdbbackups", "fdbbackup", func() port.Object { return &v1beta2.FoundationDBBackup{} }, func() runtime.Object { return &v1beta2.FoundationDBBackupList{} }),
	kindOf(v1beta2.GroupVersion, restoreKind, "foundationdbrestores", "fdbrestore", func() port.Object { return &v1beta2.FoundationDBRestore{} }, func() runtime.Object { return &v1beta2.FoundationDBRestoreList{} }),
}

func kindOf(version schema.GroupVersion, name, plural, short string, object func() port.Object, list func() runtime.Object) kind {
	k := kind{version: version, object: object, list: list, APIResource: metav1.APIResource{
		Name: plural, SingularName: strings.ToLower(name), Kind: name, Namespaced: name != "Node" && name != "Namespace", ShortNames: []string{short}, Verbs: stored,
	}}
	if object == nil {
		k.Verbs = read
	}
	if k.custom() {
		k.Categories = []string{"pawl"}
	}
	return k
}

// named returns a copy of an object that says what it is, as JSON has it.
func (k kind) named(o runtime.Object) runtime.Object {
	c := o.DeepCopyObject()
	c.GetObjectKind().SetGroupVersionKind(k.version.WithKind(k.Kind))
	return c
}

// nameOfKind is the kind of an object.
func nameOfKind(o runtime.Object) string { return reflect.TypeOf(o).Elem().Name() }

func refOf(o port.Object) control.Ref {
	return control.Ref{Kind: nameOfKind(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}
