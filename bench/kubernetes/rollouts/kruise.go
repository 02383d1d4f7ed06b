package rollouts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OpenKruise Rollouts comes from the module proxy, in a module of its own.
const (
	kruiseModule    = "github.com/openkruise/rollouts"
	kruiseFolder    = "kruiserollouts"
	kruiseNamespace = "kruise-rollout"
	kruisePrefix    = "kruise-rollout-" // of its webhook configurations
	// kruiseLabel marks the workloads whose changes its webhook holds.
	kruiseLabel = "rollouts.kruise.io/workload-type"
)

// delayOfKruise rolls all sets by OpenKruise Rollouts: as many batches, without pauses.
func (w *world) delayOfKruise(ctx context.Context, f Figures) error {
	manager, err := w.startKruise(ctx)
	if err != nil {
		return err
	}
	defer manager.stop()
	if err := each(w.Rollouts, 50, func(i int) error { return w.createKruise(ctx, setName(i)) }); err != nil {
		return manager.failed(err)
	}
	from, err := w.offset()
	if err != nil {
		return err
	}
	cpu := manager.cpu()
	ended := rolled("r3")
	took, err := w.rollAll(ctx, w.Rollouts, 0, func(name string) error { return w.setImage(ctx, name, "r3") },
		func(s *appsv1.StatefulSet) bool { return ended(s) && partition(s) == 0 })
	if err != nil {
		return manager.failed(err)
	}
	f["kruiseSeconds"], f["kruiseCPUSeconds"] = took.Seconds(), (manager.cpu() - cpu).Seconds()
	delays, early, err := w.delaysAndEarly(from, w.Rollouts)
	if err != nil {
		return fmt.Errorf("OpenKruise Rollouts: %w", err)
	}
	addDelays(f, "kruise", delays)
	f["kruiseEarly"] = float64(early)
	w.Logf("OpenKruise Rollouts: %d rollouts in %v", w.Rollouts, took.Round(time.Millisecond))
	return nil
}

// createKruise makes the Rollout of OpenKruise for a set, and waits until it is healthy and its webhook
// holds a new template.
func (w *world) createKruise(ctx context.Context, name string) error {
	if err := w.patch(ctx, name, `{"metadata":{"labels":{"`+kruiseLabel+`":"statefulset"}}}`); err != nil {
		return err
	}
	var steps []any
	for batch := range w.Batches {
		steps = append(steps, map[string]any{"replicas": int64(w.cumulative(batch)), "pause": map[string]any{"duration": int64(0)}})
	}
	r := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
			"strategy":    map[string]any{"canary": map[string]any{"steps": steps}},
		},
	}}
	if err := w.client.Create(ctx, r); err != nil {
		return err
	}
	for {
		phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
		if held, err := w.heldByKruise(ctx, name); err != nil || phase == "Healthy" && held {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
	}
}

// heldByKruise reports whether the webhook of OpenKruise holds a new template, by a dry run.
func (w *world) heldByKruise(ctx context.Context, name string) (bool, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"held":"?"}}}}}`))
	err := w.client.Patch(ctx, set, patch, client.DryRunAll)
	return partition(set) > int32(w.Pods), err
}

// startKruise builds the manager once, installs its definitions and webhooks, and starts it.
func (w *world) startKruise(ctx context.Context) (*operator, error) {
	program := filepath.Join(w.Bin, "kruise-rollouts-manager")
	if _, err := os.Stat(program); err != nil {
		path, err := filepath.Abs(program)
		if err != nil {
			return nil, err
		}
		w.Logf("building OpenKruise Rollouts")
		if text, err := exec.CommandContext(ctx, "go", "build", "-C", kruiseFolder, "-trimpath", "-o", path, kruiseModule).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building OpenKruise Rollouts: %w\n%s", err, text)
		}
	}
	module, err := exec.CommandContext(ctx, "go", "-C", kruiseFolder, "list", "-m", "-f", "{{.Dir}}", kruiseModule).Output()
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", kruiseModule, err)
	}
	if err := w.installKruise(ctx, strings.TrimSpace(string(module))); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	o := &operator{
		log: filepath.Join(w.plane.Dir(), "kruise.log"),
		cmd: exec.Command(program, "--kubeconfig="+w.plane.Kubeconfig(), "--metrics-bind-address=0", "--health-probe-bind-address=0"),
	}
	o.cmd.Env = append(os.Environ(), "POD_NAMESPACE="+kruiseNamespace, "WEBHOOK_HOST=127.0.0.1", fmt.Sprintf("WEBHOOK_PORT=%d", port),
		"WEBHOOK_CERT_DIR="+filepath.Join(w.plane.Dir(), "kruise-certs"))
	if err := w.run(o); err != nil {
		return nil, err
	}
	err = o.failed(w.awaitKruise(ctx, o))
	return o, err
}

// awaitKruise waits until the webhook of Rollouts answers: until one passes a dry run.
func (w *world) awaitKruise(ctx context.Context, o *operator) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := errors.New("it was not asked")
	for {
		select {
		case <-o.ended:
			return errors.New("the manager of OpenKruise Rollouts has ended")
		default:
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("the manager of OpenKruise Rollouts is not ready: %w", last)
		}
		r := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"namespace": namespace, "name": "probe"},
			"spec": map[string]any{
				"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "probe"},
				"strategy":    map[string]any{"canary": map[string]any{"steps": []any{map[string]any{"replicas": int64(1)}}}},
			},
		}}
		if last = w.client.Create(ctx, r, client.DryRunAll); last == nil {
			return nil
		}
	}
}

// installKruise creates the definitions and the webhooks of OpenKruise Rollouts, as its kustomization
// has them.
func (w *world) installKruise(ctx context.Context, module string) error {
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no definitions: %w", module, errors.Join(err, os.ErrNotExist))
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kruiseNamespace}}}
	for _, file := range append(files, filepath.Join(module, "config", "webhook", "manifests.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := d.Decode(&o.Object); err != nil {
				break
			}
			if o.GetKind() == "" {
				continue
			}
			if err := completeKruise(o); err != nil {
				return err
			}
			objects = append(objects, o)
		}
	}
	for _, o := range objects {
		if err := w.client.Create(ctx, o); err != nil {
			return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// completeKruise changes an object as the kustomization does: names of webhook configurations, the
// selector of workloads, and the conversion of the kinds that have two versions.
func completeKruise(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		if name := o.GetName(); name != "rollouts.rollouts.kruise.io" && name != "batchreleases.rollouts.kruise.io" {
			return nil
		}
		return unstructured.SetNestedMap(o.Object, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": []any{"v1", "v1beta1"},
		}}, "spec", "conversion")
	case "MutatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, hook := range hooks {
			if h, ok := hook.(map[string]any); ok {
				h["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": kruiseLabel, "operator": "Exists"}}}
			}
		}
		o.SetName(kruisePrefix + o.GetName())
		return unstructured.SetNestedSlice(o.Object, hooks, "webhooks")
	case "ValidatingWebhookConfiguration":
		o.SetName(kruisePrefix + o.GetName())
	}
	return nil
}
