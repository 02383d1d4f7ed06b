package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// Namespace creates a namespace for one test, where pods can be created at once. When the
// test ends, its pods and their processes are gone; the rest is deleted in the background,
// because Kubernetes waits five seconds before it empties a namespace.
func (p *Plane) Namespace(t testing.TB) string {
	t.Helper()
	return p.namespace(t, nil)
}

func (p *Plane) namespace(t testing.TB, annotations map[string]string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	name, err := p.makeNamespace(ctx, t.Name(), annotations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := p.drainNamespace(ctx, name); err != nil {
			t.Errorf("leaving the test's namespace: %v", err)
		}
	})
	return name
}

// drainNamespace begins to delete a namespace, and returns when no process runs there.
func (p *Plane) drainNamespace(ctx context.Context, name string) error {
	if err := p.terminateNamespace(ctx, name); err != nil {
		return err
	}
	p.background.Go(func() {
		if err := p.deleteNamespace(p.ctx, name, time.Second); err != nil && p.ctx.Err() == nil {
			p.o.Log("namespace %s: %v", name, err)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 1; p.running(name) > 0; n++ {
		if n%10 == 0 { // new pods may have appeared
			if err := p.terminateNamespace(ctx, name); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d pods of namespace %s still run: %w", p.running(name), name, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// terminateNamespace deletes a namespace, and its pods without grace period.
func (p *Plane) terminateNamespace(ctx context.Context, name string) error {
	now := int64(0)
	err := p.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil || apierrors.IsConflict(err) { // Conflict: it is deleted already
		err = p.client.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// running returns how many pods of a namespace have processes, on all nodes.
func (p *Plane) running(name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kubelets {
		n += k.Pods(name)
	}
	return n
}

// MakeNamespace creates a namespace whose name begins with the given one, and waits until
// pods can be created there.
func (p *Plane) MakeNamespace(ctx context.Context, like string) (string, error) {
	return p.makeNamespace(ctx, like, nil)
}

func (p *Plane) makeNamespace(ctx context.Context, like string, annotations map[string]string) (string, error) {
	ns, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: label(like) + "-", Annotations: annotations},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return ns.Name, p.awaitAccount(ctx, ns.Name)
}

// label converts any text to a name prefix.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	s = strings.TrimPrefix(s, "test")
	return strings.Trim("t-"+strings.Trim(s[:min(len(s), 40)], "-"), "-")
}

// DeleteNamespace deletes a namespace without the grace period of its pods, and returns
// when all is gone. It removes finalizers that no controller serves.
func (p *Plane) DeleteNamespace(ctx context.Context, name string) error {
	return p.deleteNamespace(ctx, name, 100*time.Millisecond)
}

func (p *Plane) deleteNamespace(ctx context.Context, name string, every time.Duration) error {
	released := time.Now() // give the controller manager time: reading all finalizers is expensive
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := p.terminateNamespace(ctx, name); err != nil {
			return err
		}
		ns, err := p.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && p.running(name) == 0 {
			return nil
		}
		if err == nil && hasFinalizers(ns) && time.Since(released) > 2*time.Second {
			err = p.removeFinalizers(ctx, name)
			released = time.Now()
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s is not gone: %w: %s", name, ctx.Err(), remainingContent(ns))
		case <-tick.C:
		}
	}
}

// hasFinalizers reports whether finalizers block the deletion of a namespace.
func hasFinalizers(ns *corev1.Namespace) bool {
	for _, c := range ns.Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func remainingContent(ns *corev1.Namespace) string {
	var said []string
	if ns != nil {
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				said = append(said, c.Message)
			}
		}
	}
	return strings.Join(said, "; ")
}

// removeFinalizers removes the finalizers of all deleted objects of a namespace, except
// those of Kubernetes itself: their controllers run.
func (p *Plane) removeFinalizers(ctx context.Context, namespace string) error {
	objects, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return err
	}
	lists, err := p.client.Discovery().ServerPreferredNamespacedResources()
	if err != nil && len(lists) == 0 {
		return err
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "patch"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			of := objects.Resource(gv.WithResource(r.Name)).Namespace(namespace)
			found, err := of.List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // a resource may disappear with its CRD
			}
			for _, o := range found.Items {
				before := o.GetFinalizers()
				after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return !isBuiltinFinalizer(f) })
				if o.GetDeletionTimestamp() == nil || len(after) == len(before) {
					continue
				}
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": after, "resourceVersion": o.GetResourceVersion()}})
				if err != nil {
					return err
				}
				_, err = of.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return err
				}
			}
		}
	}
	return nil
}

// isBuiltinFinalizer reports whether the controller manager serves a finalizer.
func isBuiltinFinalizer(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
}
