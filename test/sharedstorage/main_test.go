// Package sharedstorage runs the shared-storage operator as a program against a
// real control plane, with pods that are real PostgreSQL processes.
package sharedstorage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/test/pgtraffic"
)

var suite = controlplane.NewSuite(options())

func options() controlplane.Options {
	images, err := controlplane.Images("")
	if err != nil {
		panic(err)
	}
	return controlplane.Options{
		CRDs: []string{"../../deploy/crds", "../../deploy/mpd"}, Endpoints: true, NodeGrace: 8 * time.Second, Admission: []string{controlplane.NodeSelector}, Keep: os.Getenv("KEEP") != "",
		Kubelet: kubelet.Options{Mode: kubelet.Process, Nodes: 3, Images: images, Lease: 2 * time.Second, Labels: map[string]string{controlplane.ApartLabel: shared}},
	}
}

// parallelTests is how many tests run concurrently: four, beside another package, starve each other on two cores.
const parallelTests = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallelTests); err != nil {
			panic(err)
		}
	}
	suite.Main(m)
}

// engineUser runs engines: PostgreSQL refuses root.
func engineUser(t *testing.T) int64 {
	t.Helper()
	if user := os.Getuid(); user != 0 {
		return int64(user)
	}
	images, err := controlplane.Images("")
	if err != nil {
		t.Fatal(err)
	}
	return images["postgres:15"].User
}

// shared are the nodes that no test stops.
const shared = "shared"

// fixture is a namespace with its own operator, which has the rights of
// deploy/install.yaml.
type fixture struct {
	t          *testing.T
	plane      *controlplane.Plane
	kubeconfig string // of the operator
	namespace  string
	client     client.Client
	log        string
	operator   *operator
}

// operators have the rights of install.yaml.
var operators deploy.Operators

// kubeconfig returns a kubeconfig file of the operator's account.
func kubeconfig(t *testing.T, plane *controlplane.Plane) string {
	t.Helper()
	path, err := operators.Kubeconfig(context.Background(), plane) // of all tests
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// operator is a running `pawl operator`.
type operator struct {
	ended chan struct{} // closed when it has ended for good

	mu     sync.Mutex
	cmd    *exec.Cmd
	ending bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("PostgreSQL 15 of Debian is not installed: apt-get install postgresql-15")
	}
	return newFixtureIn(t, suite.Plane(t).NamespaceOn(t, shared))
}

// newFixtureIn is newFixture for a namespace that is there.
func newFixtureIn(t *testing.T, namespace string) *fixture {
	t.Helper()
	w := &fixture{t: t, plane: suite.Plane(t), namespace: namespace}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, mpd.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.kubeconfig = kubeconfig(t, w.plane)
	if w.client, err = client.New(w.plane.Config(), client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	w.log = filepath.Join(w.plane.Dir(), w.namespace+".operator.log")
	w.start()
	t.Cleanup(func() {
		w.end(syscall.SIGTERM)
		if said, err := os.ReadFile(w.log); err != nil || len(deploy.Forbidden(said)) > 0 {
			t.Errorf("the operator wants more than its role (%v):\n%s", err, deploy.Forbidden(said))
		}
		if t.Failed() {
			w.logState()
		}
	})
	return w
}

// start runs `pawl operator` for this namespace only. If it ends by itself, because it has
// lost its lease on a paused machine, it is restarted, as a Deployment does. After a panic
// it is not.
func (w *fixture) start() {
	w.t.Helper()
	user := engineUser(w.t)
	cmd, err := w.launch(user)
	if err != nil {
		w.t.Fatal(err)
	}
	o := &operator{ended: make(chan struct{}), cmd: cmd}
	w.operator = o
	go func() {
		defer close(o.ended)
		for {
			_ = cmd.Wait() // its log has the exit reason
			time.Sleep(500 * time.Millisecond)
			if next := w.restart(o, user); next != nil {
				cmd = next
				continue
			}
			return
		}
	}()
}

// restart restarts an operator; nil: it must stay stopped.
func (w *fixture) restart(o *operator, user int64) *exec.Cmd {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, _ := os.ReadFile(w.log)
	if o.ending || bytes.Contains(text, []byte("panic: ")) || bytes.Contains(text, []byte("fatal error: ")) {
		return nil
	}
	next, err := w.launch(user)
	if err != nil {
		return nil
	}
	o.cmd = next
	return next
}

func (w *fixture) launch(user int64) (*exec.Cmd, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(root, "bin", "pawl"), "operator", "--kubeconfig", w.kubeconfig, "--namespaces", w.namespace,
		"--operator-namespace", w.namespace, "--listen", "127.0.0.1:0", "--image", "pawl:dev", "--engine-image", "15=postgres:15", "--engine-user", fmt.Sprint(user))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// end ends the operator.
func (w *fixture) end(sig syscall.Signal) {
	w.t.Helper()
	o := w.operator
	signal := func(sig syscall.Signal) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ending = true
		_ = o.cmd.Process.Signal(sig) // it may have ended
	}
	signal(sig)
	select {
	case <-o.ended:
	case <-time.After(3 * time.Minute):
		w.t.Error("the operator did not end in three minutes")
		signal(syscall.SIGKILL)
		<-o.ended
	}
}

// logState logs the state after a failed test.
func (w *fixture) logState() {
	text, _ := os.ReadFile(w.log)
	w.t.Logf("the operator said:\n%s", text[max(0, len(text)-12_000):])
	for _, args := range [][]string{{"get", "ssc,runs,pods,pvc,deploy", "-o", "wide"}, {"describe", "ssc"}, {"get", "events"}} {
		out, _ := w.try(args...)
		w.t.Logf("kubectl %v\n%s", args, out[max(0, len(out)-9_000):])
	}
	logs, _ := filepath.Glob(filepath.Join(w.plane.Dir(), "by-name", w.namespace+"*", "*"))
	w.t.Log("logs:", logs, w.plane.Dir())
}

func (w *fixture) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // some commands wait
	defer cancel()
	cmd := exec.CommandContext(ctx, w.plane.Binaries.Kubectl, slices.Concat([]string{"--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace}, args)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// kubectl runs kubectl and returns its output.
func (w *fixture) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (w *fixture) await(limit time.Duration, what string, holds func(ctx context.Context) error) {
	w.t.Helper()
	await.Until(w.t, limit, what, func(ctx context.Context) error {
		err := holds(ctx)
		select {
		case <-w.operator.ended:
			w.t.Fatalf("%s: the operator has ended: %v", what, err)
		default:
		}
		return err
	})
}

func (w *fixture) cluster(ctx context.Context, name string) (*v1alpha1.SharedStorageCluster, error) {
	c := &v1alpha1.SharedStorageCluster{}
	return c, w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, c)
}

// awaitRunning waits until a cluster is Running with the given number of readers, all
// healthy, of its newest spec, and nothing is left to do.
func (w *fixture) awaitRunning(name string, readers int32, also func(*v1alpha1.SharedStorageCluster) error) *v1alpha1.SharedStorageCluster {
	w.t.Helper()
	var c *v1alpha1.SharedStorageCluster
	w.await(8*time.Minute, fmt.Sprintf("%s is Running with %d readers", name, readers), func(ctx context.Context) (err error) {
		if c, err = w.cluster(ctx, name); err != nil {
			return err
		}
		s := c.Status
		ready := slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool {
			return c.Type == "Ready" && c.Status == metav1.ConditionTrue
		})
		if s.State != "Running" || s.ObservedGeneration != c.Generation || s.Readers != readers || !ready {
			run, _ := json.Marshal(s.Run)
			return fmt.Errorf("%s %s %q, generation %d of %d, %d readers, ready %t, run %s", s.State, s.Reason, s.Message, s.ObservedGeneration, c.Generation, s.Readers, ready, run)
		}
		for id, i := range s.Instances {
			if i.Health != "Healthy" || i.Role == "tempro" {
				return fmt.Errorf("instance %s (%s) is %s: %s", id, i.Role, i.Health, i.Message)
			}
		}
		if also != nil {
			return also(c)
		}
		return nil
	})
	return c
}

// password returns the password of the user postgres.
func (w *fixture) password(ctx context.Context, name string) (string, error) {
	secret := &corev1.Secret{}
	err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name + "-auth"}, secret)
	return string(secret.Data["password"]), err
}

// connString returns the connection string of an instance.
func connString(password string, i v1alpha1.InstanceStatus) string {
	return fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable connect_timeout=2", i.Address, i.Port, password)
}

// queryRow runs a query on an instance and returns its value.
func queryRow[T any](ctx context.Context, w *fixture, name string, i v1alpha1.InstanceStatus, sql string, args ...any) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	password, err := w.password(ctx, name)
	if err != nil {
		return value, err
	}
	conn, err := pgx.Connect(ctx, connString(password, i))
	if err != nil {
		return value, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, sql, args...).Scan(&value)
	return value, err
}

// routedPods returns the pods that a Service selects: the fake kubelet's pods have no
// route from Services.
func (w *fixture) routedPods(ctx context.Context, name, role string) ([]corev1.Pod, error) {
	service := &corev1.Service{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name + "-" + role}, service); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := w.client.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}), nil
}

// traffic is a client that commits rows through the Service, until it is stopped.
type traffic struct {
	*pgtraffic.Writer
	w    *fixture
	name string
}

func (w *fixture) write(name string) *traffic {
	w.t.Helper()
	f := &traffic{w: w, name: name}
	f.Writer = pgtraffic.Start(func(ctx context.Context) (string, error) {
		pods, err := w.routedPods(ctx, name, "rw")
		if err == nil && len(pods) == 0 {
			err = errors.New("the Service has no instance")
		}
		if err != nil {
			return "", err
		}
		password, err := w.password(ctx, name) // it may be rotated
		if err != nil {
			return "", err
		}
		return connString(password, v1alpha1.InstanceStatus{Address: pods[0].Status.PodIP, Port: 5432}), nil
	})
	w.t.Cleanup(func() { f.Stop() })
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer cancel()
	if err := f.Begun(ctx); err != nil {
		w.t.Fatalf("no row is committed: %v", err)
	}
	return f
}

// end stops writing and checks that each instance has each answered row.
func (f *traffic) end(c *v1alpha1.SharedStorageCluster) (rows int, pause time.Duration) {
	f.w.t.Helper()
	pause = f.MaxPause()
	rows = f.Stop()
	password, err := f.w.password(f.w.t.Context(), f.name)
	if err != nil {
		f.w.t.Fatal(err)
	}
	for id, i := range c.Status.Instances {
		f.w.await(4*time.Minute, "each answered row is on instance "+id, func(ctx context.Context) error {
			missing, err := f.Missing(ctx, connString(password, i))
			if err == nil && missing > 0 {
				err = fmt.Errorf("%d of %d answered rows are not on instance %s (%s)", missing, rows, id, i.Role)
			}
			return err
		})
	}
	return rows, pause
}
