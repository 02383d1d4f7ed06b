package podfiles

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
)

// TestPodIsToldAgain: a pod whose annotation says already that its files are outdated is told again after a while, and
// where the database is not available once its sidecar has brought the program that was missing.
func TestPodIsToldAgain(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, x := range map[string]struct {
		told, sidecar time.Duration // ago
		works         bool          // the database
		done, want    bool
	}{
		"just told":                           {told: time.Second, sidecar: time.Hour},
		"the sidecar starts":                  {told: 10 * time.Second, sidecar: 5 * time.Second},
		"the sidecar has brought programs":    {told: 20 * time.Second, sidecar: 12 * time.Second, want: true},
		"while the database works":            {told: 20 * time.Second, sidecar: 12 * time.Second, works: true},
		"told while it brought them":          {told: 14 * time.Second, sidecar: 20 * time.Second, want: true},
		"told since then":                     {told: 8 * time.Second, sidecar: 20 * time.Second},
		"told long ago":                       {told: 6 * time.Minute, sidecar: time.Hour, want: true},
		"told long ago, and it has the files": {told: 6 * time.Minute, sidecar: time.Minute, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Annotations = map[string]string{
				foundationdb.ConfigAnnotation:         "hash",
				foundationdb.OutdatedConfigAnnotation: strconv.FormatInt(now.Add(-x.told).Unix(), 10),
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: foundationdb.SidecarContainer, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-x.sidecar))},
			}}}
			o := Outdated{Member: &groups.Member{Pod: pod}, Hash: "hash", Image: v1beta2.ImageTypeUnified, Down: !x.works}
			if _, told := o.Annotations(x.done, now)[foundationdb.OutdatedConfigAnnotation]; told != x.want {
				t.Errorf("told: %v", told)
			}
		})
	}
}
