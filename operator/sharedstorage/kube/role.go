package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// roles lets the Services know who writes and who is read from. Who is no member
// is neither: one that is detached takes no new clients while it goes, and one
// that is new takes some when it has become a member.
type roles struct {
	client    client.Client
	cluster   port.Ref
	log       *slog.Logger
	applied   map[string]podRole // by the name of the instance
	appliedAt time.Time
}

// podRole is what an instance is to be told as. One at another address may be a pod
// that was made anew.
type podRole struct{ role, address string }

func (r *roles) sync(ctx context.Context, top port.Topology) {
	if top.Writer == "" || len(top.Members) == 0 { // it has been told of nobody yet
		return
	}
	want := map[string]podRole{top.Writer: {role: string(port.Writer)}}
	for _, m := range top.Members {
		s := podRole{address: m.Address}
		switch {
		case m.Name == top.Writer:
			s.role = string(port.Writer)
		case m.Routed:
			s.role = string(port.Reader)
		}
		want[m.Name] = s
	}
	if maps.Equal(r.applied, want) && time.Since(r.appliedAt) < time.Minute { // later somebody may have changed a pod
		return
	}
	if err := r.label(ctx, want); err != nil {
		if r.log != nil && ctx.Err() == nil {
			r.log.Warn("the roles of pods are not told", "err", err)
		}
		return
	}
	r.applied, r.appliedAt = want, time.Now()
}

// label gives all pods of instances their roles, the writer's last: the one before
// has lost it by then.
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
