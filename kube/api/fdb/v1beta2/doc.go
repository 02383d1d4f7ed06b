// Package v1beta2 has the kinds of FoundationDB as Kubernetes stores them.
//
//	FoundationDBCluster    fdb         a cluster: its processes and the configuration of its database
//	FoundationDBBackup     fdbbackup   a backup that runs as long as the object asks for it
//	FoundationDBRestore    fdbrestore  one restore of a backup
//
// Group, names and shapes follow the published manifests of these kinds (release 2.33), so that manifests
// and clusters made by other operators can be used as they are. Unknown fields of a spec are preserved.
//
// The package has only types; package operator/foundationdb has the defaults and the judgements. Deep
// copies and the CRDs in deploy/fdb are generated from here.
//
// +kubebuilder:object:generate=true
// +groupName=apps.foundationdb.org
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../../../tools/go.mod controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true paths=. output:crd:dir=../../../../deploy/fdb

// GroupVersion is apps.foundationdb.org/v1beta2.
var GroupVersion = schema.GroupVersion{Group: "apps.foundationdb.org", Version: "v1beta2"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FoundationDBCluster{}, &FoundationDBClusterList{}, &FoundationDBBackup{}, &FoundationDBBackupList{},
		&FoundationDBRestore{}, &FoundationDBRestoreList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
