package stored

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A list may miss a pod that was just created. Once it had the pod, a list without it says that somebody has deleted it.
func TestSeen(t *testing.T) {
	pod := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: version}}
	}
	w := &Writes{written: map[types.UID]written{"u": {object: pod("5"), created: true}}}
	for n, c := range []struct {
		list []corev1.Pod
		want string // the version that is seen
	}{
		{nil, "5"}, {[]corev1.Pod{*pod("4")}, "5"}, {[]corev1.Pod{*pod("5")}, "5"}, {[]corev1.Pod{*pod("6")}, "6"}, {nil, ""},
	} {
		got := ""
		for _, o := range Seen[corev1.Pod](w, c.list) {
			got += o.ResourceVersion
		}
		if got != c.want {
			t.Errorf("list %d: version %q is seen, want %q", n, got, c.want)
		}
	}
}
