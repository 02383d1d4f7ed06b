package kube

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// routingFixture is an API server with pods, and a manager that labels them.
type routingFixture struct {
	roles
	t      *testing.T
	asked  int   // lists of pods
	failed error // error of lists; nil: they succeed
}

func newRoutingFixture(t *testing.T, pods map[string]string) *routingFixture {
	t.Helper()
	r := &routingFixture{t: t}
	b := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		if r.asked++; r.failed != nil {
			return r.failed
		}
		return c.List(ctx, list, o...)
	}})
	r.roles = roles{client: b.Build(), cluster: blue}
	for name, role := range pods {
		r.made(blue, name, role)
	}
	return r
}

func (r *routingFixture) made(c port.Ref, name, role string) {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: meta(c, name, instanceComponent)}
	label(pod, map[string]string{InstanceLabel: name, RoleLabel: role})
	if err := r.client.Create(r.t.Context(), pod); err != nil {
		r.t.Fatal(err)
	}
}

// is checks the roles that the Services select by.
func (r *routingFixture) is(when string, want map[string]string) {
	r.t.Helper()
	asked := r.asked
	var pods corev1.PodList
	if err := r.client.List(r.t.Context(), &pods, client.InNamespace(blue.Namespace)); err != nil {
		r.t.Fatal(err)
	}
	r.asked = asked
	got := map[string]string{}
	for _, pod := range pods.Items {
		got[pod.Name] = pod.Labels[RoleLabel]
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("%s the roles are %v, want %v", when, got, want)
	}
}

func seen(writer string, members ...string) port.Topology {
	top := port.Topology{Present: true, Ready: true, Writer: writer}
	for _, name := range members {
		top.Members = append(top.Members, port.Member{Name: name, Address: "10.0.0.1", Routed: true})
	}
	return top
}

// Clients are sent to members only. A detached reader is behind no Service from then on, before
// its pod ends, whichever process is the manager; a new one is behind a Service once it is
// attached.
func TestWhoIsNoMemberIsNotRouted(t *testing.T) {
	ctx := t.Context()
	r := newRoutingFixture(t, map[string]string{"w": "rw", "a": "ro", "b": "ro"})
	green := port.Ref{Namespace: blue.Namespace, Name: "green"}
	r.made(green, "g", "ro")
	r.sync(ctx, seen("w", "w", "a", "b"))
	r.is("at rest", map[string]string{"w": "rw", "a": "ro", "b": "ro", "g": "ro"})
	r.sync(ctx, seen("w", "w", "a"))
	r.is("with b detached", map[string]string{"w": "rw", "a": "ro", "b": "", "g": "ro"})

	r.made(blue, "c", "ro")
	r.sync(ctx, seen("w", "w", "a", "c"))
	r.is("with c attached", map[string]string{"w": "rw", "a": "ro", "b": "", "c": "ro", "g": "ro"})

	again := &roles{client: r.client, cluster: blue} // a new manager without a former state
	again.sync(ctx, port.Topology{Writer: "w"})
	r.is("by a manager that was told of nobody yet", map[string]string{"w": "rw", "a": "ro", "b": "", "c": "ro", "g": "ro"})
	again.sync(ctx, seen("w", "w", "c"))
	r.is("by a new manager, with a detached", map[string]string{"w": "rw", "a": "", "b": "", "c": "ro", "g": "ro"})
	again.sync(ctx, seen("c", "w", "c"))
	r.is("after a failover", map[string]string{"w": "ro", "a": "", "b": "", "c": "rw", "g": "ro"})
	off := seen("c", "w", "c")
	off.Members[0].Routed = false
	again.sync(ctx, off)
	r.is("with w as a member that is not routed", map[string]string{"w": "", "a": "", "b": "", "c": "rw", "g": "ro"})
}

// The pods are listed when a member is added, removed or moved, and each minute; a failed
// labelling is tried again.
func TestRolesAreToldWhenTheyChange(t *testing.T) {
	ctx, top := t.Context(), seen("w", "w", "a")
	r := newRoutingFixture(t, map[string]string{"w": "", "a": ""})
	r.failed = errors.New("no answer")
	for range 2 {
		r.sync(ctx, top)
	}
	r.failed = nil
	for range 3 {
		r.sync(ctx, top)
	}
	r.is("at rest", map[string]string{"w": "rw", "a": "ro"})
	if r.asked != 3 {
		t.Errorf("the pods were asked for %d times, want 3: twice in vain, then once", r.asked)
	}
	if err := r.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	r.made(blue, "a", "")
	top.Members[1].Address = "10.0.0.2"
	r.sync(ctx, top)
	r.is("with a's pod created again", map[string]string{"w": "rw", "a": "ro"})
	if err := r.client.Patch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "a"}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pawl.dev/role":"rw"}}}`))); err != nil {
		t.Fatal(err)
	}
	r.appliedAt = r.appliedAt.Add(-2 * time.Minute)
	r.sync(ctx, top)
	r.is("a minute after somebody has changed a", map[string]string{"w": "rw", "a": "ro"})
}
