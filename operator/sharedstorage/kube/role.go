package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// roles labels the pods of writer and readers for the Services. An instance that is not a member
// has no role: a detached one gets no new clients while it leaves, and a new one gets clients once
// it is a member.
type roles struct {
	client    client.Client
	cluster   port.Ref
	log       *slog.Logger
	applied   map[string]podRole // by the name of the instance
	appliedAt time.Time
}

// podRole is the role of an instance. Another address may mean that the pod was created again.
type podRole struct{ role, address string }

func (r *roles) sync(ctx context.Context, top port.Topology) {
	if top.Writer == "" || len(top.Members) == 0 { // the manager knows nobody yet
		return
	}
	want := map[string]podRole{top.Writer: {role: string(port.Writer)}}
	for _, m := range top.Members {
		s := podRole{address: m.Address}
		switch {
		case m.Name == top.Writer:
			s.role = string(port.Writer)
		case m.Routed && !slices.Contains(top.Stale, m.Name):
			s.role = string(port.Reader)
		}
		want[m.Name] = s
	}
	if maps.Equal(r.applied, want) && time.Since(r.appliedAt) < time.Minute { // after that time somebody may have changed a pod
		return
	}
	if err := r.label(ctx, want); err != nil {
		if r.log != nil && ctx.Err() == nil {
			r.log.Warn("the roles of pods could not be set", "err", err)
		}
		return
	}
	r.applied, r.appliedAt = want, time.Now()
}

// label labels all pods of instances. The writer is last, so that the former writer has lost its
// label by then.
func (r *roles) label(ctx context.Context, want map[string]podRole) error {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, of(r.cluster, instanceComponent)...); err != nil {
		return err
	}
	var first error
	for _, gives := range []bool{false, true} {
		for n := range pods.Items {
			pod := &pods.Items[n]
			role := want[pod.Labels[InstanceLabel]].role
			if pod.Labels[RoleLabel] == role || gives != (role == string(port.Writer)) {
				continue
			}
			if err := r.patch(ctx, pod, role); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

func (r *roles) patch(ctx context.Context, pod *corev1.Pod, role string) error {
	var value any
	if role != "" {
		value = role
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": map[string]any{RoleLabel: value}}})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)))
}
