package controlplane_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// A proxy forwards and records requests and answers, refuses requests, loses answers of
// executed requests, and holds back watches.
func TestProxy(t *testing.T) {
	plane := suite.Plane(t)
	namespace := plane.Namespace(t)
	proxy, err := plane.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(namespace)
	create := func(name string) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	there := func(name string) bool {
		_, err := plane.Client().CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil
	}

	if err := create("passed"); err != nil || !there("passed") {
		t.Fatal(err)
	}
	calls := proxy.Calls()
	if last := calls[len(calls)-1]; last.Verb != "create" || last.Resource != "configmaps" || last.Namespace != namespace || last.Code != 201 || !last.Writes() || len(last.Body) == 0 {
		t.Errorf("it was %+v", last)
	}

	meet := func(act controlplane.Reaction) {
		proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
			if c.Verb != "create" {
				return controlplane.Reaction{}
			}
			return act
		})
	}
	meet(controlplane.Reaction{Drop: true, Answer: &metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict}})
	if err := create("refused"); !apierrors.IsConflict(err) || there("refused") {
		t.Errorf("refused: %v, there %t", err, there("refused"))
	}
	code := 0
	meet(controlplane.Reaction{Lose: true, After: func(c int) { code = c }})
	if err := create("lost"); err == nil || code != 201 || !there("lost") {
		t.Errorf("lost: %v, answered %d, there %t", err, code, there("lost"))
	}
	meet(controlplane.Reaction{Drop: true})
	if err := create("cut"); err == nil || there("cut") {
		t.Errorf("cut: %v, there %t", err, there("cut"))
	}
	proxy.Intercept(nil)

	watch, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=told"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	proxy.Freeze(true)
	if err := create("told"); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-watch.ResultChan():
		t.Errorf("a frozen watch sent %v", e)
	case <-time.After(300 * time.Millisecond):
	}
	proxy.Freeze(false)
	select {
	case e := <-watch.ResultChan():
		if m, ok := e.Object.(*corev1.ConfigMap); !ok || m.Name != "told" {
			t.Errorf("it sent %v", e)
		}
	case <-ctx.Done():
		t.Error("the watch sends nothing")
	}
}
