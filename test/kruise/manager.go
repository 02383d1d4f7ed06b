// Package kruise runs the real manager of OpenKruise for tests: `make kruise` builds it into bin/ from
// the module proxy (test/kruisebin), and Start runs it as a process beside a control plane.
//
//	manager, err := kruise.Start(ctx, plane, "../../bin/kruise-manager")
//
// Its CustomResourceDefinitions and webhooks come from the module itself. The webhooks of pods and the
// daemon are off: the fake kubelet has neither. Version 1.9.1 serves CloneSet v1alpha1 only; v1beta1 of
// CloneSet is not released.
package kruise

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
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Namespace is where the manager keeps its Secret.
const Namespace = "kruise-system"

// Manager is a running manager.
type Manager struct {
	// Log is the file with its output.
	Log     string
	command *exec.Cmd
	ended   chan error
}

// Start installs the definitions and webhooks of OpenKruise, runs the manager, and waits until it
// serves its webhooks. The manager ends with the plane. module is the folder of the module
// github.com/openkruise/kruise.
func Start(ctx context.Context, plane *controlplane.Plane, program, module string) (*Manager, error) {
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	if err := install(ctx, c, module); err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	m := &Manager{Log: filepath.Join(plane.Dir(), "kruise-manager.log"), ended: make(chan error, 1)}
	log, err := os.Create(m.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	health := fmt.Sprintf("127.0.0.1:%d", ports[1])
	m.command = exec.Command(program,
		"--kubeconfig="+plane.Kubeconfig(), "--enable-leader-election=false", "--enable-pprof=false", "--metrics-addr=0", "--health-probe-addr="+health,
		"--rest-config-qps=1000", "--rest-config-burst=2000", "--feature-gates=PodWebhook=false,KruiseDaemon=false", "--v=2")
	m.command.Stdout, m.command.Stderr = log, log
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.command.Env = append(os.Environ(),
		"POD_NAMESPACE="+Namespace, "POD_NAME=kruise-manager", "WEBHOOK_HOST=127.0.0.1", fmt.Sprintf("WEBHOOK_PORT=%d", ports[0]),
		"WEBHOOK_CERT_DIR="+filepath.Join(plane.Dir(), "kruise-certs"))
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	go func() { m.ended <- m.command.Wait() }()
	plane.OnStop(m.Stop)
	if err := m.await(ctx, c); err != nil {
		m.Stop()
		return nil, fmt.Errorf("%w; the end of its log:\n%s", err, m.tail())
	}
	return m, nil
}

// Stop ends the manager.
func (m *Manager) Stop() {
	_ = m.command.Process.Kill()
	select {
	case err := <-m.ended:
		m.ended <- err
	case <-time.After(10 * time.Second):
	}
}

func (m *Manager) tail() string {
	text, err := os.ReadFile(m.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// await waits until the definitions are converted by the manager and its webhooks answer: until a
// CloneSet passes a dry run.
func (m *Manager) await(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := errors.New("it was not asked")
	for {
		select {
		case err := <-m.ended:
			m.ended <- err
			return fmt.Errorf("the manager has ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the manager is not ready: %w", last)
		case <-time.After(200 * time.Millisecond):
		}
		if last = ready(ctx, c); last == nil {
			return nil
		}
	}
}

func ready(ctx context.Context, c client.Client) error {
	for _, kind := range []string{"CloneSet", "StatefulSet"} {
		o := Workload(kind, "default", "probe", 0)
		if err := c.Create(ctx, o, client.DryRunAll); err != nil {
			return err
		}
	}
	return nil
}

// Version is the version of each kind that OpenKruise stores.
var Version = map[string]string{"CloneSet": "apps.kruise.io/v1alpha1", "StatefulSet": "apps.kruise.io/v1beta1"}

// Workload is a CloneSet or an Advanced StatefulSet whose pods run on paper.
func Workload(kind, namespace, name string, replicas int64) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	spec := map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "main", "image": "r1"}}},
		},
	}
	if kind == "StatefulSet" {
		spec["serviceName"] = name
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Version[kind], "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// converted are the definitions with versions that the manager converts.
var converted = []string{"statefulsets.apps.kruise.io", "sidecarsets.apps.kruise.io", "daemonsets.apps.kruise.io"}

func install(ctx context.Context, c client.Client, module string) error {
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no definitions: %w", module, errors.Join(err, os.ErrNotExist))
	}
	var all []*unstructured.Unstructured
	for _, file := range append(files, filepath.Join(module, "config", "webhook", "manifests.yaml")) {
		objects, err := read(file)
		if err != nil {
			return err
		}
		all = append(all, objects...)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := c.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, o := range all {
		if strings.HasSuffix(o.GetKind(), "WebhookConfiguration") { // as the chart names them; the manager fills in the rest
			o.SetName("kruise-" + o.GetName())
		}
		for _, name := range converted {
			if o.GetName() == name {
				conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
					"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": []any{"v1", "v1beta1"},
				}}
				if err := unstructured.SetNestedMap(o.Object, conversion, "spec", "conversion"); err != nil {
					return err
				}
			}
		}
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func read(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		if err := d.Decode(&o.Object); err != nil {
			break
		}
		if o.GetKind() != "" {
			all = append(all, &o)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no objects", file)
	}
	return all, nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
