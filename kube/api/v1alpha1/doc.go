// Package v1alpha1 has the kinds of the group pawl.dev as Kubernetes stores them.
//
//	SharedStorageCluster   ssc     a database cluster: one writer, many readers
//	SharedStorageBackup    ssb     one base backup of such a cluster
//	Run                    prun    one execution of a flow
//	RunHistory             prunh   a hundred older events of a Run
//	Rollout                prol    a change of a workload, in batches
//
// The package has only types; the packages that serve them have the logic. Deep copies and
// the CRDs in deploy/crds are generated from here.
//
// +kubebuilder:object:generate=true
// +groupName=pawl.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../../tools/go.mod controller-gen crd paths=. output:crd:dir=../../../deploy/crds

// GroupVersion is pawl.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "pawl.dev", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &SharedStorageCluster{}, &SharedStorageClusterList{}, &SharedStorageBackup{}, &SharedStorageBackupList{}, &Run{}, &RunList{}, &RunHistory{}, &RunHistoryList{}, &Rollout{}, &RolloutList{},
		&Application{}, &ApplicationList{}, &ApplicationRevision{}, &ApplicationRevisionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
