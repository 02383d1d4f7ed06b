// Package v1 has the kind MPDCluster of PolarDB Stack, with the fields that Pawl reads
// and writes. Other fields of the CRD are preserved.
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

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MPDCluster{}, &MPDClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
