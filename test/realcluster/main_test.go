package realcluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// variable names the kubeconfig of the cluster.
const variable = "PAWL_TEST_KUBECONFIG"

// sample is the name of the cluster in examples/sharedstorage.
const sample = "orders"

// programs are built once for all tests.
var programs string

func TestMain(m *testing.M) {
	if os.Getenv(variable) == "" {
		fmt.Println("nothing is tested: " + variable + " names no cluster (make test-node, make test-cluster)")
		return
	}
	log.SetLogger(logr.Discard())
	var err error
	if programs, err = os.MkdirTemp("", "pawl-realcluster-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// fixture is a namespace of a cluster in which Pawl is installed.
type fixture struct {
	t         *testing.T
	root      string
	namespace string
	client    client.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, root: root, namespace: fmt.Sprintf("pawl-test-%d", time.Now().UnixNano()/1e6%1e9)}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(variable))
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	if f.client, err = client.New(config, client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	if _, err := install(f); err != nil {
		t.Fatal(err)
	}
	f.kubectl("create", "namespace", f.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			f.logState()
		}
		f.kubectl("delete", "ssc", "--all", "--timeout=3m")
		f.kubectl("delete", "namespace", f.namespace, "--timeout=3m")
	})
	return f
}

var installed struct {
	once sync.Once
	took time.Duration
	err  error
}

// install applies deploy/install.yaml once, with a tag that is pulled once, as a release has
// it: containers with the tag latest would ask the registry at each start.
func install(f *fixture) (time.Duration, error) {
	installed.once.Do(func() {
		began := time.Now()
		text, err := os.ReadFile(filepath.Join(f.root, "deploy", "install.yaml"))
		if err != nil {
			installed.err = err
			return
		}
		image := os.Getenv("PAWL_TEST_IMAGE")
		if image == "" {
			image = "ghcr.io/pawl-dev/pawl:0.1.0"
		}
		text = bytes.ReplaceAll(text, []byte("ghcr.io/pawl-dev/pawl:latest"), []byte(image))
		if _, installed.err = f.try(string(text), "apply", "--server-side", "--force-conflicts", "-f", "-"); installed.err == nil {
			_, installed.err = f.try("", "rollout", "status", "--namespace=pawl-system", "deployment/pawl", "--timeout=3m")
		}
		installed.took = time.Since(began)
	})
	return installed.took, installed.err
}

// try runs kubectl in the namespace, unless another one is named.
func (f *fixture) try(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := f.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out.Bytes())
	}
	return out.String(), nil
}

func (f *fixture) command(ctx context.Context, args ...string) *exec.Cmd {
	all := []string{"--kubeconfig", os.Getenv(variable)}
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--namespace=") }) && f.namespace != "" && args[0] != "apply" {
		all = append(all, "--namespace="+f.namespace)
	}
	program, err := exec.LookPath("kubectl")
	if err != nil {
		program = filepath.Join(f.root, "bin", "kubectl")
	}
	return exec.CommandContext(ctx, program, append(all, args...)...)
}

func (f *fixture) kubectl(args ...string) string {
	f.t.Helper()
	out, err := f.try("", args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) await(limit time.Duration, what string, holds func(context.Context) error) {
	f.t.Helper()
	await.Until(f.t, limit, what, holds)
}

// create applies the sample and waits until it is Ready.
func (f *fixture) create() *v1alpha1.SharedStorageCluster {
	f.t.Helper()
	began := time.Now()
	for _, name := range []string{"classes.yaml", "cluster.yaml"} {
		f.kubectl("create", "-f", filepath.Join(f.root, "examples", "sharedstorage", name))
	}
	c := f.awaitRunning(nil)
	f.t.Logf("Ready with two readers %s after kubectl create", time.Since(began).Round(100*time.Millisecond))
	return c
}

// awaitRunning waits until the sample is Ready with all instances healthy, and also holds.
func (f *fixture) awaitRunning(also func(*v1alpha1.SharedStorageCluster) error) (c *v1alpha1.SharedStorageCluster) {
	f.t.Helper()
	f.await(5*time.Minute, "the cluster is Running", func(ctx context.Context) error {
		c = &v1alpha1.SharedStorageCluster{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: sample}, c); err != nil {
			return err
		}
		s := c.Status
		ready := slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == metav1.ConditionTrue })
		if s.State != "Running" || s.ObservedGeneration != c.Generation || s.Readers != 2 || !ready {
			return fmt.Errorf("%s %s %q, generation %d of %d, %d readers, ready %t", s.State, s.Reason, s.Message, s.ObservedGeneration, c.Generation, s.Readers, ready)
		}
		for id, i := range s.Instances {
			if i.Health != "Healthy" {
				return fmt.Errorf("instance %s is %s: %s", id, i.Health, i.Message)
			}
		}
		if also != nil {
			return also(c)
		}
		return nil
	})
	return c
}

func (f *fixture) logState() {
	for _, args := range [][]string{{"get", "ssc,runs,pods,pvc", "-o", "wide"}, {"describe", "ssc"}, {"get", "events"}, {"logs", "--namespace=pawl-system", "deployment/pawl", "--tail=40"}} {
		out, err := f.try("", args...)
		f.t.Logf("kubectl %v: %v\n%s", args, err, out[max(0, len(out)-6000):])
	}
}
