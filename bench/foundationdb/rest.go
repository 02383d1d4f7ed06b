package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	fdbtest "github.com/pawl-dev/pawl/test/foundationdb"
)

const (
	tested     = "7.3.69"
	account    = "bench-operator" // whom the operator acts as
	podsOfNode = 500
	patience   = time.Hour // for clusters to come up, on a busy machine
)

// paper is a real control plane with pods on paper, whose launchers and servers this process plays, and `pawl operator`
// as a process. Its tools are the executables of fdbsim.
type paper struct {
	plane       *controlplane.Plane
	environment *fdbtest.Environment
	client      client.Client
	kubeconfig  string // of the operator
	folder      string
	launchers   *launchers
	closers     []func() error
}

// onPaper starts a control plane with nodes for a number of pods.
func onPaper(ctx context.Context, pods int) (p *paper, err error) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	p = &paper{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	p.plane, err = controlplane.StartContext(ctx, controlplane.Options{
		CRDs: []string{"../deploy/crds", "../deploy/fdb"}, Kubelet: kubelet.Options{Nodes: -1}, Audit: []string{account},
	})
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.plane.Stop)
	p.environment, err = fdbtest.Start(ctx, p.plane, "fdb", fdbtest.Options{
		Nodes: 6 + pods/podsOfNode, Seed: 1, Kubelet: func(o *kubelet.Options) { o.Mode = kubelet.StatusOnly },
	})
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, func() error { return p.environment.Close(context.WithoutCancel(ctx)) })
	if p.folder, err = os.MkdirTemp("", "pawl-fdb-"); err != nil {
		return p, err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(p.folder) })
	if _, p.kubeconfig, err = p.plane.User(account, "system:masters"); err != nil {
		return p, err
	}
	scheme, err := kinds()
	if err != nil {
		return p, err
	}
	config := p.plane.Config()
	config.QPS = -1
	if p.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return p, err
	}
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return p, err
	}
	playing, stop := context.WithCancel(ctx)
	p.closers = append(p.closers, func() error {
		stop()
		if p.launchers != nil {
			p.launchers.running.Wait()
		}
		return nil
	})
	p.launchers, err = p.launch(playing)
	return p, err
}

func (p *paper) close() (err error) {
	for _, end := range slices.Backward(p.closers) {
		err = errors.Join(err, end())
	}
	return err
}

// fill makes clusters and waits until all are as they should be.
func (p *paper) fill(ctx context.Context, n, groups int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	operator, err := p.environment.StartOperator(p.kubeconfig, namespace, append(slices.Clone(fdbtest.QuickFlags), "--fdb-look", "60s", "--workers", "4")...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Stop(context.WithoutCancel(ctx))) }()
	began := time.Now()
	for i := range n {
		c := clusterOf(fmt.Sprintf("c-%03d", i), groups)
		c.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{v1beta2.ProcessClass("general"): {PodTemplate: small()}}
		if err := p.client.Create(ctx, c); err != nil {
			return err
		}
	}
	for told := -1; ; {
		var all v1beta2.FoundationDBClusterList
		if err := p.client.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return err
		}
		ready := 0
		for _, c := range all.Items {
			if c.Status.Generations.Reconciled == c.Generation && c.Status.ReconciledProcessGroups == groups {
				ready++
			}
		}
		if ready != told {
			fmt.Fprintf(os.Stderr, "%d of %d clusters after %s\n", ready, n, time.Since(began).Round(time.Second))
		}
		if told = ready; ready == n {
			return nil
		}
		if err := errors.Join(operator.Check(), pause(ctx, 2*time.Second)); err != nil {
			return fmt.Errorf("%d of %d clusters are up: %w\n%s", ready, n, err, operator.Tail())
		}
	}
}

// small is the template of pods of which hundreds fit on a node.
func small() *corev1.PodTemplateSpec {
	need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	t := &corev1.PodTemplateSpec{}
	for _, name := range []string{"foundationdb", foundationdb.SidecarContainer} {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: need, Limits: need}})
	}
	return t
}

// resting is an operator that has nothing to do.
type resting struct {
	cores, tools float64 // of the operator, and of the processes that it starts
	resident     float64 // MiB
	calls        map[string]int
	took         time.Duration // over which the calls were counted
}

// rest measures an operator with the default flags, after it has had time for caches, first looks and the garbage of
// both.
func (p *paper) rest(ctx context.Context, settle, took time.Duration) (r resting, err error) {
	operator, err := p.environment.StartOperator(p.kubeconfig, namespace)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, operator.Stop(context.WithoutCancel(ctx))) }()
	if err := pause(ctx, settle); err != nil {
		return r, err
	}
	before, err := p.plane.Requests()
	if err != nil {
		return r, err
	}
	own, tools, err := cpuOf(operator.PID())
	if err != nil {
		return r, err
	}
	if err := pause(ctx, took); err != nil {
		return r, err
	}
	own2, tools2, err := cpuOf(operator.PID())
	if err != nil {
		return r, err
	}
	after, err := p.plane.Requests()
	if err != nil {
		return r, err
	}
	r = resting{cores: (own2 - own).Seconds() / took.Seconds(), tools: (tools2 - tools).Seconds() / took.Seconds(), calls: map[string]int{}, took: took}
	for _, q := range after[len(before):] {
		r.calls[q.Verb+" "+q.Object.Resource]++
	}
	r.resident, err = resident(operator.PID())
	return r, errors.Join(err, operator.Check())
}

// String lists the calls, those for the lease apart.
func (r resting) String() string {
	texts := make([]string, 0, len(r.calls))
	for _, call := range slices.Sorted(maps.Keys(r.calls)) {
		texts = append(texts, fmt.Sprintf("%d %s", r.calls[call], call))
	}
	return fmt.Sprintf("%s in %s", strings.Join(texts, ", "), r.took)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// cpuOf is the CPU time of a process, and that of the processes it has started and waited for.
func cpuOf(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var ticks [4]int64 // utime, stime, cutime, cstime: proc_pid_stat(5)
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	const tick = time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
	return time.Duration(ticks[0]+ticks[1]) * tick, time.Duration(ticks[2]+ticks[3]) * tick, nil
}

// resident is the resident memory of a process in MiB.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20), nil
}

// atRest measures clusters at rest.
func atRest(groups int, row func(...any)) error {
	p, err := onPaper(context.Background(), clustersAtRest*groups)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.fill(context.Background(), clustersAtRest, groups); err != nil {
		return err
	}
	r, err := p.rest(context.Background(), 2*time.Minute, 2*time.Minute)
	if err != nil {
		return err
	}
	row(groups, clustersAtRest, fmt.Sprintf("%.4f", r.cores), fmt.Sprintf("%.4f", r.tools), fmt.Sprintf("%.0f", r.resident), r)
	return nil
}

// process measures the resident memory of the operator with a cluster, against none.
func process(groups int, row func(...any)) error {
	p, err := onPaper(context.Background(), groups)
	if err != nil {
		return err
	}
	defer p.close()
	none, err := p.rest(context.Background(), 30*time.Second, time.Second)
	if err != nil {
		return err
	}
	if err := p.fill(context.Background(), 1, groups); err != nil {
		return err
	}
	one, err := p.rest(context.Background(), 2*time.Minute, 2*time.Minute)
	if err != nil {
		return err
	}
	row(groups, fmt.Sprintf("%.0f", none.resident), fmt.Sprintf("%.0f", one.resident), fmt.Sprintf("%.0f", one.resident-none.resident), fmt.Sprintf("%.4f", one.cores), fmt.Sprintf("%.4f", one.tools))
	return nil
}
