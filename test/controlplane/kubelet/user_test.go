package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// User 999 of an image may have another id on this machine: the pod and its containers get
// the local user and group ids; other ids and the cached pod stay unchanged.
func TestUsersOfImagesAreThoseOfTheMachine(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: id(999), RunAsGroup: id(999), FSGroup: id(999)},
		InitContainers:  []corev1.Container{{SecurityContext: &corev1.SecurityContext{RunAsUser: id(65532)}}},
		Containers:      []corev1.Container{{SecurityContext: &corev1.SecurityContext{RunAsUser: id(999), RunAsGroup: id(0)}}, {}},
	}}
	got := withLocalUsers(pod, map[int64]int64{999: 101})
	s := got.Spec
	if *s.SecurityContext.RunAsUser != 101 || *s.SecurityContext.RunAsGroup != 101 || *s.SecurityContext.FSGroup != 101 ||
		*s.InitContainers[0].SecurityContext.RunAsUser != 65532 || *s.Containers[0].SecurityContext.RunAsUser != 101 || *s.Containers[0].SecurityContext.RunAsGroup != 0 {
		t.Errorf("the pod runs as %+v", s)
	}
	if *pod.Spec.SecurityContext.RunAsUser != 999 {
		t.Error("the pod of the cache was changed")
	}
	if withLocalUsers(nil, nil) != nil || withLocalUsers(pod, nil) != pod {
		t.Error("without users nothing is changed")
	}
}

// An image is found by its reference, or by its repository for any tag.
func TestImagesOfARepository(t *testing.T) {
	images := map[string]Image{"ghcr.io:443/pawl/pawl": {User: 1}, "ghcr.io:443/pawl/pawl:v2": {User: 2}, "postgres:15": {User: 3}}
	for reference, want := range map[string]int64{
		"ghcr.io:443/pawl/pawl": 1, "ghcr.io:443/pawl/pawl:v1": 1, "ghcr.io:443/pawl/pawl:v2": 2, "ghcr.io:443/pawl/pawl:v1@sha256:00": 1, "ghcr.io:443/pawl/pawl@sha256:00": 1,
		"postgres:15": 3, "postgres:16": 0, "postgres": 0,
	} {
		if image, ok := pull(images, reference); image.User != want || ok != (want > 0) {
			t.Errorf("%s: %+v, %t", reference, image, ok)
		}
	}
}
