package classic_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
)

// ConfigMaps are created, read, and updated in the version that was read.
func TestConfigMapFunctions(t *testing.T) {
	plane := suite.Plane(t)
	namespace := plane.Namespace(t)
	k8sutil.SetConfig(plane.Config())
	t.Cleanup(func() { k8sutil.SetConfig(nil) })

	if err := k8sutil.ConfigMapCreateFactory(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace}, Data: map[string]string{"k": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	read, err := k8sutil.ConfigMapFactoryByName("a", namespace)
	if err != nil || read.Data["k"] != "1" {
		t.Fatal(read, err)
	}
	stale := read.DeepCopy()
	read.Data["k"] = "2"
	if err := k8sutil.ConfigMapUpdate(read); err != nil {
		t.Fatal(err)
	}
	if err := k8sutil.ConfigMapUpdate(stale); err == nil {
		t.Error("an old version was written over a newer one")
	}
	if read, err := k8sutil.ConfigMapFactoryByName("a", namespace); err != nil || read.Data["k"] != "2" {
		t.Error(read, err)
	}
}
