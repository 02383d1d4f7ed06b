// Package cli_test runs the commands of pawl on two backends: on a local store and on
// Kubernetes. Their output must be the same.
package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// No nodes: instances are simulated, by the same simulation on both backends.
var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds", "../../deploy/mpd"}, Kubelet: kubelet.Options{Nodes: -1}})

func TestMain(m *testing.M) { suite.Main(m) }

// fixture is a backend with runs and clusters, and how pawl reaches it.
type fixture struct {
	t         *testing.T
	name      string
	namespace string
	flags     []string
	env       []string
	engine    *workflow.Engine
	sim       *sim.Simulation // of the clusters
	dir       string          // of a kubectl-pawl
	home      string
	program   string
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func flows(t *testing.T) ([]workflow.Flow, []workflow.Action) {
	t.Helper()
	actions, err := action.Standard(action.Options{Only: []string{"sleep", "signal", "exec"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	set, err := flowfile.Load([]string{"testdata/flows"}, flowfile.Options{Actions: actions})
	if err != nil {
		t.Fatal(err)
	}
	return set.Flows(), actions
}

func operator(t *testing.T, o sharedstorage.Options) (*sharedstorage.Operator, *sim.Simulation) {
	t.Helper()
	clusters := sim.New(sim.Options{Shared: true})
	o.Ports, o.Logger, o.RunInterval, o.IdleInterval = clusters.Ports(), quiet, time.Second, 5*time.Second
	created, err := sharedstorage.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return created, clusters
}

// engineOf returns an engine with the flows of the operator and of the tests.
func engineOf(t *testing.T, op *sharedstorage.Operator, store runstore.Store) *workflow.Engine {
	t.Helper()
	own, actions := flows(t)
	engine, err := op.Engine(store, workflow.Options{Actions: actions, Object: op.Object, Logger: quiet})
	if err == nil {
		err = engine.Load(slices.Concat(own, engine.Flows()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// runInBackground runs a function until the test ends.
func runInBackground(t *testing.T, what string, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	})
}

// standalone returns a fixture with a local store.
func standalone(t *testing.T, namespace string) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	store, err := sql.Open(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	op, clusters := operator(t, sharedstorage.Options{Store: local.ClusterStore{Objects: store.Objects()}})
	engine := engineOf(t, op, store)
	runInBackground(t, "the engine", engine.Serve)
	runInBackground(t, "the controller", local.Controller{Operator: op, Objects: store.Objects(), Touch: engine.Touch, Log: quiet}.Serve)
	return &fixture{t: t, home: t.TempDir(), program: program(t), name: "standalone", namespace: namespace, engine: engine, sim: clusters, flags: []string{"--dsn", path, "--flows", "testdata/flows"}}
}

// onKubernetes returns a fixture with a namespace of a real control plane.
func onKubernetes(t *testing.T, kind kuberuns.Kind) *fixture {
	t.Helper()
	plane := suite.Plane(t)
	namespace := plane.Namespace(t)
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	m, err := controller.NewManager(plane.Config(), controller.Options{Scheme: scheme, Namespaces: []string{namespace}, LeaseNamespace: namespace, NoLeaderElection: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := kube.NewCache(m)
	if err != nil {
		t.Fatal(err)
	}
	site, err := kube.NewPlacement(kube.Options{Client: cache.Client(), Live: m.Live(), Image: "none", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	mpds := kube.NewMPDClusterStore(cache.Client(), m.Live(), "")
	op, clusters := operator(t, sharedstorage.Options{
		Store: kube.NewClusterStore(cache.Client(), m.Live()), Stores: map[string]sharedstorage.ClusterStore{kube.MPDKind: mpds},
		Event: kube.EventWriter(m.Events("sharedstorage")),
	})
	opening, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := kuberuns.Open(opening, kuberuns.Options{Config: plane.Config(), Kind: kind, Namespace: namespace, SingleNamespace: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	engine := engineOf(t, op, store)
	controllers := kube.Controllers{Manager: m, Cache: cache, Operator: op, Placement: site, Engine: engine, Workers: 4}
	if err := errors.Join(controllers.Setup(), controllers.SetupMPD(mpds)); err != nil {
		t.Fatal(err)
	}
	runInBackground(t, "the engine", engine.Serve)
	runInBackground(t, "requests", func(ctx context.Context) error { return store.ServeRequests(ctx, engine) })
	runInBackground(t, "the manager", m.Start)
	w := &fixture{t: t, home: t.TempDir(), program: program(t), name: "kubernetes", namespace: namespace, engine: engine, sim: clusters, env: []string{"KUBECONFIG=" + plane.Kubeconfig()}, flags: []string{"--kubernetes", "--flows", "testdata/flows"}}
	if kind == kuberuns.ConfigMap {
		w.flags = append(w.flags, "--store", "configmap")
	}
	return w
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

func (r result) String() string { return fmt.Sprintf("exit %d\n%s%s", r.code, r.out, r.err) }

func program(t *testing.T) string {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin", "pawl")
}

// call runs a program.
func (w *fixture) call(path string, args ...string) result {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=" + w.dir + ":" + os.Getenv("PATH"), "HOME=" + w.home, "USER=ann", "NO_COLOR=1", "TZ=UTC", "EDITOR=sed -i s/gold/silver/"}, w.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return result{code: -1, err: fmt.Sprintf("%s %v: %v", path, args, err)}
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// pawl runs a pawl command on this backend.
func (w *fixture) pawl(args ...string) result {
	return w.call(w.program, append(slices.Clone(args), w.flags...)...)
}

// await repeats a command until it prints text.
func (w *fixture) await(text string, args ...string) (r result, err error) {
	wanted := regexp.MustCompile(text)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if r = w.pawl(args...); wanted.MatchString(r.out + r.err) {
			return r, nil
		}
		if time.Now().After(deadline) {
			return r, fmt.Errorf("%s: pawl %s does not print %q:\n%s", w.name, strings.Join(args, " "), text, r)
		}
	}
}

// client returns a client of the API server.
func (w *fixture) client() kubernetes.Interface { return suite.Plane(w.t).Client() }

// key returns the reference of a cluster.
func (w *fixture) key(name string) control.Ref {
	return control.Ref{Kind: sharedstorage.Kind, Namespace: w.namespace, Name: name}
}
