package rollouts

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollEvery is how often KubeVela's controller of rollouts looks.
const pollEvery = 5 * time.Second

// poll rolls one set by looking: it releases the next batch when all pods of the last one have the new
// revision and are ready. The looks of different sets are spread over the interval.
func (w *world) poll(ctx context.Context, name, image string) error {
	if err := w.setImageAt(ctx, name, image, w.Pods-w.cumulative(0)); err != nil {
		return err
	}
	next := time.NewTimer(rand.N(pollEvery)) //nolint:gosec // spreads the looks
	defer next.Stop()
	for batch := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.C:
			next.Reset(pollEvery)
		}
		ready, err := w.updatedReady(ctx, name)
		switch {
		case err != nil:
			return err
		case ready < w.cumulative(batch):
			continue
		case batch == w.Batches-1:
			return nil
		}
		batch++
		if err := w.setImageAt(ctx, name, image, w.Pods-w.cumulative(batch)); err != nil {
			return err
		}
	}
}

// updatedReady counts the pods of a set that have its update revision and are ready.
func (w *world) updatedReady(ctx context.Context, name string) (int, error) {
	var set appsv1.StatefulSet
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &set); err != nil {
		return 0, err
	}
	var pods corev1.PodList
	if err := w.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": name}); err != nil {
		return 0, err
	}
	n := 0
	for _, p := range pods.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if ready && p.DeletionTimestamp == nil && p.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision && set.Status.ObservedGeneration >= set.Generation {
			n++
		}
	}
	return n, nil
}
