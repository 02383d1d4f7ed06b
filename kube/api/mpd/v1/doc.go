// Package v1 holds the kind MPDCluster of PolarDB Stack, as far as it is read
// and written here: fields of the CRD that are not named stay as they are.
//
// +kubebuilder:object:generate=true
// +groupName=mpd.polardb.aliyun.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../../../tools/go.mod controller-gen crd:allowDangerousTypes=true paths=. output:crd:dir=../../../../deploy/mpd

// GroupVersion is mpd.polardb.aliyun.com/v1.
var GroupVersion = schema.GroupVersion{Group: "mpd.polardb.aliyun.com", Version: "v1"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MPDCluster{}, &MPDClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
