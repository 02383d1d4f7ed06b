package sim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// BenchmarkCreate makes a cluster of 1,000 groups.
func BenchmarkCreate(b *testing.B) {
	for b.Loop() {
		f := newFixture(b, sim.Options{Seed: 1, Nodes: 1000}, v1beta2.ImageTypeUnified)
		f.create(800, 50, 150)
	}
}

// BenchmarkPass is what a pass reads in a settled cluster of 1,000 groups: lists and one status.
func BenchmarkPass(b *testing.B) {
	f := newFixture(b, sim.Options{Seed: 1, Nodes: 1000}, v1beta2.ImageTypeUnified)
	f.create(800, 50, 150)
	b.Run("lists", func(b *testing.B) {
		for b.Loop() {
			f.must(f.Objects().List(b.Context(), &corev1.PodList{}, namespace, nil))
			f.must(f.Objects().List(b.Context(), &corev1.PersistentVolumeClaimList{}, namespace, nil))
		}
	})
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			f.status()
		}
	})
	b.Run("minute", func(b *testing.B) {
		for b.Loop() {
			f.Advance(time.Minute)
		}
	})
}
