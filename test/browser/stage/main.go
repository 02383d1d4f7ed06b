// Command stage is a Kubernetes cluster with a Rollout, for the tests of the console: a control plane with
// pods on paper, the operator, and a StatefulSet of five with roles and zones.
//
//	go -C test run ./browser/stage
//
// It prints a line with the path of a kubeconfig, then obeys lines of its standard input until that ends:
//
//	image r2      write another template
//	breaks r3     pods with this image never become ready
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const (
	namespace = "default"
	set       = "etcd"
)

// plan has everything that the page shows: roles, a quorum, a gate, a metric, a soak and a deadline.
const plan = `
rolloutBatches: [{replicas: 1}, {replicas: 2}, {}]
batchPartition: 0
batchDeadline: 10m
order: {roleLabel: role, roles: [follower, leader]}
disruption: {quorum: {selector: {matchLabels: {app: etcd}}, minHealthy: majority}}
gates: [{name: lag, when: AfterBatch, expression: "size(pods.filter(p, p.ready)) >= 4", message: too many members are away}]
canaryMetric: [{name: errors, interval: 1s, count: 2, metricsRange: {max: "0.05"}, provider: {prometheus: {address: "%s", query: "sum(rate(errors[1m]))"}}}]
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	log.SetLogger(logr.Discard())
	plane, err := controlplane.Start(controlplane.Options{CRDs: []string{"deploy/crds"}, Kubelet: kubelet.Options{Nodes: 2}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &stage{broken: map[string]bool{}}
	plane.Kubelet.Decide(namespace, s.ready)
	scheme := runtime.NewScheme()
	if err := rollout.AddToScheme(scheme); err != nil {
		return err
	}
	if s.client, err = client.New(plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"0.012"]}]}}`)
	}))
	defer prometheus.Close()
	if err := s.guard(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	if err := s.operate(ctx, plane, scheme, &all); err != nil {
		return err
	}
	all.Go(func() { s.label(ctx) })
	if err := s.fill(ctx, prometheus.URL); err != nil {
		return err
	}
	fmt.Println(plane.Kubeconfig())
	return s.obey(ctx)
}

type stage struct {
	client client.Client
	mu     sync.Mutex
	broken map[string]bool // images
}

func (s *stage) ready(p *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.broken[p.Spec.Containers[0].Image]
}

// guard installs the admission rule of install.yaml.
func (s *stage) guard(ctx context.Context) error {
	objects, err := deploy.Manifest()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
			if err := s.client.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// operate runs the operator with the account that the admission rule lets through.
func (s *stage) operate(ctx context.Context, plane *controlplane.Plane, scheme *runtime.Scheme, all *sync.WaitGroup) error {
	config, _, err := plane.User(deploy.Account, "system:masters")
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	m, err := controller.NewManager(config, controller.Options{Scheme: scheme, Namespaces: []string{namespace}, NoLeaderElection: true, Log: quiet})
	if err != nil {
		return err
	}
	reachable, err := egress.NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}
	o, err := rollout.New(rollout.Options{Manager: m, Log: quiet, Egress: reachable})
	if err != nil {
		return err
	}
	if err := o.Setup(); err != nil {
		return err
	}
	all.Go(func() {
		if err := m.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stage: the operator:", err)
		}
	})
	return nil
}

// label gives new pods a role and a zone, as a database and a scheduler would.
func (s *stage) label(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var pods corev1.PodList
		if s.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": set}) != nil {
			continue
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			role, ordinal := "follower", p.Name[len(p.Name)-1]
			if ordinal == '1' {
				role = "leader"
			}
			zone := fmt.Sprintf("zone-%c", 'a'+(ordinal-'0')%3)
			if p.Labels["role"] == role && p.Labels["topology.kubernetes.io/zone"] == zone { // binding it to a node writes the zone of that
				continue
			}
			patch := fmt.Sprintf(`{"metadata":{"labels":{"role":%q,"topology.kubernetes.io/zone":%q}}}`, role, zone)
			_ = s.client.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch))) // again at the next turn
		}
	}
}

// fill creates the StatefulSet, waits for its pods, and creates its Rollout.
func (s *stage) fill(ctx context.Context, prometheus string) error {
	labels := map[string]string{"app": set}
	workload := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(5)), ServiceName: set, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "main", Image: "r1"}}},
			},
		},
	}
	if err := s.client.Create(ctx, workload); err != nil {
		return err
	}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}}
	r.Spec.TargetRef = api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set}
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, plan, prometheus), &r.Spec.RolloutPlan); err != nil {
		return err
	}
	if err := s.until(ctx, func() (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(workload), workload)
		return workload.Status.ReadyReplicas == 5, err
	}); err != nil {
		return err
	}
	if err := s.client.Create(ctx, r); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(r), r)
		return r.Status.RollingState != "", err
	})
}

func (s *stage) until(ctx context.Context, met func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := met(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// obey does what standard input says until it ends.
func (s *stage) obey(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, image, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "image":
			workload := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}}
			patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image)
			if err := s.client.Patch(ctx, workload, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
				return err
			}
		case "breaks":
			s.mu.Lock()
			s.broken[image] = true
			s.mu.Unlock()
		default:
			return fmt.Errorf("%q is no command: image IMAGE, breaks IMAGE", lines.Text())
		}
	}
	return lines.Err()
}
