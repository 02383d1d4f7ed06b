package rollouttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods are those of an app that do not go, by name.
func (w *World) Pods(app string) []corev1.Pod {
	w.Helper()
	var pods corev1.PodList
	if err := w.Client.List(w.Context(), &pods, client.InNamespace(w.Namespace), client.MatchingLabels{"app": app}); err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// Images counts the ready pods of an app by their image, as "r1=2 r2=1"; those that are not ready have a
// minus.
func (w *World) Images(app string) string {
	w.Helper()
	counts := map[string]int{}
	for _, p := range w.Pods(app) {
		image := p.Spec.Containers[0].Image
		if !Ready(p) {
			image += "-"
		}
		counts[image]++
	}
	var all []string
	for image, n := range counts {
		all = append(all, fmt.Sprintf("%s=%d", image, n))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Ready reports whether a pod is ready.
func Ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// LastReady is when the last pod of an app became ready, to the second; the zero time without one.
func (w *World) LastReady(app string) time.Time {
	w.Helper()
	var last time.Time
	for _, p := range w.Pods(app) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return last
}

// Expect compares Images.
func (w *World) Expect(app, want string) {
	w.Helper()
	if got := w.Images(app); got != want {
		w.Errorf("the pods are %s, expected %s\n%s", got, want, w.Dump())
	}
}

// UIDs are those of the pods of an app, sorted.
func (w *World) UIDs(app string) []string {
	w.Helper()
	var all []string
	for _, p := range w.Pods(app) {
		all = append(all, string(p.UID))
	}
	slices.Sort(all)
	return all
}

// PodImages are the images of the pods of an app by their names without that of the app, as "0=r1 1=r2";
// of one that is not ready, or goes, with a minus.
func (w *World) PodImages(app string) string {
	w.Helper()
	var pods corev1.PodList
	if err := w.Client.List(w.Context(), &pods, client.InNamespace(w.Namespace), client.MatchingLabels{"app": app}); err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, p := range pods.Items {
		text := strings.TrimPrefix(p.Name, app+"-") + "=" + p.Spec.Containers[0].Image
		if !Ready(p) || p.DeletionTimestamp != nil {
			text += "-"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// ExpectPods compares PodImages.
func (w *World) ExpectPods(app, want string) {
	w.Helper()
	if got := w.PodImages(app); got != want {
		w.Errorf("the pods are %s, expected %s\n%s", got, want, w.Dump())
	}
}
