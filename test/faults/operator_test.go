package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// operator is `pawl operator` for the namespace of a fixture, behind a proxy.
type operator struct {
	w     *fixture
	proxy *controlplane.Proxy
	log   string
	args  []string

	restarts int32 // restarts of the API server at the start

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{}
	over   bool // do not start it again
	starts int
	since  time.Time // time of the newest start
}

// patient prevents failovers because of a slow machine: only the operator chooses the
// writer.
var patient = []string{"--writer-lease", "30s", "--failover-after", "2m"}

// alone returns the arguments for one operator without leader election: it only waits for
// the leases of runs.
func alone(lease time.Duration) []string {
	return append([]string{"--no-leader-election", "--lease", lease.String()}, patient...)
}

// operators have the rights of install.yaml.
var operators deploy.Operators

// operator creates an operator. It does not run yet.
func (w *fixture) operator(args ...string) *operator {
	w.t.Helper()
	path, err := operators.Kubeconfig(context.Background(), w.plane) // shared by all tests
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		w.t.Fatal(err)
	}
	config.QPS = -1
	proxy, err := w.plane.NewProxyAs(config)
	if err != nil {
		w.t.Fatal(err)
	}
	root, err := controlplane.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	user := int64(os.Getuid())
	if user == 0 {
		images, err := controlplane.Images("")
		if err != nil {
			w.t.Fatal(err)
		}
		user = images["postgres:15"].User
	}
	o := &operator{w: w, proxy: proxy, restarts: apiRestarts.Load(), log: filepath.Join(w.plane.Dir(), fmt.Sprintf("%s.operator-%d.log", w.namespace, len(w.operators)))}
	o.args = slices.Concat([]string{filepath.Join(root, "bin", "pawl"), "operator", "--kubeconfig", proxy.Kubeconfig(), "--namespaces", w.namespace,
		"--operator-namespace", w.namespace, "--listen", "127.0.0.1:0", "--image", "pawl:dev", "--engine-image", "15=postgres:15",
		"--engine-user", strconv.FormatInt(user, 10)}, args)
	w.operators = append(w.operators, o)
	return o
}

// apiRestarts counts the restarts of the API server: after a start it does not know the
// roles yet, and refuses all requests.
var apiRestarts atomic.Int32

// checkNothingForbidden checks that no request was refused.
func (o *operator) checkNothingForbidden() {
	o.w.t.Helper()
	if o.started() == 0 || apiRestarts.Load() != o.restarts {
		return
	}
	if said, err := os.ReadFile(o.log); err != nil || len(deploy.Forbidden(said)) > 0 {
		o.w.t.Errorf("the operator wants more than its role (%v):\n%s", err, deploy.Forbidden(said))
	}
}

// start runs the operator.
func (o *operator) start() {
	o.w.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.launch(); err != nil {
		o.w.t.Fatal(err)
	}
}

// keep runs the operator, and restarts it whenever it ends, as a Deployment does.
func (o *operator) keep() {
	o.w.t.Helper()
	o.start()
	go func() {
		for {
			o.mu.Lock()
			ended := o.ended
			o.mu.Unlock()
			<-ended
			time.Sleep(200 * time.Millisecond)
			o.mu.Lock()
			if o.over || o.launch() != nil {
				o.mu.Unlock()
				return
			}
			o.mu.Unlock()
		}
	}()
}

func (o *operator) launch() error {
	log, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(o.args[0], o.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	o.cmd, o.ended = cmd, ended
	o.starts, o.since = o.starts+1, time.Now()
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ended by a signal; otherwise its log has the reason
	}()
	return nil
}

func (o *operator) signal(sig syscall.Signal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cmd != nil {
		_ = o.cmd.Process.Signal(sig) // it may have ended
	}
}

// kill kills the process, and returns when it is gone.
func (o *operator) kill() {
	o.signal(syscall.SIGKILL)
	o.mu.Lock()
	ended := o.ended
	o.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// end stops the operator for good.
func (o *operator) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.kill()
}

func (o *operator) started() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.starts
}

// flow reports whether a write belongs to the flow: Events and renewals of leases do not.
func flow(c *controlplane.Call) bool {
	if !c.Writes() || c.Resource == "events" {
		return false
	}
	return c.Resource != "leases" || !strings.HasPrefix(c.Name, "pawl-worker-") && c.Name != "pawl-operator" && !bytes.Contains(c.Body, []byte(`"pawl-worker-`)) && !bytes.Contains(c.Body, []byte(`"pawl-operator"`))
}

// logState logs the state after a failed test.
func (w *fixture) logState() {
	for _, o := range w.operators {
		text, _ := os.ReadFile(o.log)
		w.t.Logf("an operator, started %d times, said:\n%s", o.started(), text[max(0, len(text)-8_000):])
		calls := o.proxy.Calls()
		var lines []string
		for _, c := range calls {
			if flow(&c) {
				lines = append(lines, c.At.Format("05.000 ")+c.String())
			}
		}
		w.t.Logf("its last writes:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	for _, args := range [][]string{{"get", "ssc,runs,pods,pvc,deploy", "-o", "wide"}, {"describe", "ssc"}, {"get", "events"}} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		out, _ := exec.CommandContext(ctx, w.plane.Binaries.Kubectl, slices.Concat([]string{"--kubeconfig", w.plane.Kubeconfig(), "-n", w.namespace}, args)...).CombinedOutput()
		cancel()
		w.t.Logf("kubectl %v\n%s", args, out[max(0, len(out)-8_000):])
	}
}

// pods returns the pods of the instances.
func (w *fixture) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := w.client.List(ctx, &list, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/cluster": clusterName, "pawl.dev/component": "instance"})
	return list.Items, err
}

// runs returns all runs of the namespace.
func (w *fixture) runs(ctx context.Context) ([]v1alpha1.Run, error) {
	var list v1alpha1.RunList
	err := w.client.List(ctx, &list, client.InNamespace(w.namespace))
	return list.Items, err
}
