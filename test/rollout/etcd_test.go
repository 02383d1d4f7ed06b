package rollout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	demo "github.com/pawl-dev/pawl/test/demo/rollout"
	"github.com/pawl-dev/pawl/test/etcdproc"
)

// machines are the nodes whose pods are processes. They take only those that tolerate them.
var machines struct {
	once    sync.Once
	kubelet *kubelet.Kubelet
	err     error
}

const machineTaint = "test.pawl.dev/processes"

func startMachines(plane *controlplane.Plane) (*kubelet.Kubelet, error) {
	machines.once.Do(func() {
		root, err := controlplane.Root()
		if err != nil {
			machines.err = err
			return
		}
		images, err := demo.Images(filepath.Join(root, "bin"), filepath.Join(plane.Dir(), "images"))
		if err != nil {
			machines.err = err
			return
		}
		machines.kubelet, machines.err = plane.StartKubelet(kubelet.Options{
			Name: "machine", Mode: kubelet.Process, Images: images, DNS: true,
			Node: func(_ int, node *corev1.Node) {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: machineTaint, Effect: corev1.TaintEffectNoSchedule})
			},
		})
	})
	return machines.kubelet, machines.err
}

// etcd is the cluster of examples/rollout in a world.
type etcd struct {
	*world
	kubelet *kubelet.Kubelet
	members int
	dial    etcdproc.Dial
	urls    []string
	client  *clientv3.Client

	mu    sync.Mutex
	order []string // pods in the order in which they went
	away  int      // the most that were away at once
}

// newEtcd makes the objects of examples/rollout with so many members, and waits until they are ready. plan
// changes the Rollout; scripts replaces what the ConfigMap holds.
func newEtcd(t *testing.T, members int, scripts map[string]string, plan func(*api.RolloutPlan)) *etcd {
	t.Helper()
	if err := kubelet.CanMount(); err != nil {
		t.Skip("members find each other by names: ", err)
	}
	w := newQuietWorld(t)
	k, err := startMachines(w.plane)
	if err != nil {
		t.Fatal(err)
	}
	w.Options.Exec = true
	w.start(w.config)
	e := &etcd{world: w, kubelet: k, members: members, dial: demo.Dial(k), urls: demo.URLs(w.namespace, "etcd", members)}
	e.apply(scripts, plan)
	w.until("the members are ready", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("etcd", set)
		return set.Status.ReadyReplicas == int32(members)
	})
	w.is("etcd", "Ready", metav1.ConditionTrue)
	if e.client, err = etcdproc.NewClient(e.dial, e.urls...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.client.Close() })
	e.follow()
	return e
}

func (e *etcd) apply(scripts map[string]string, plan func(*api.RolloutPlan)) {
	e.t.Helper()
	text, err := os.ReadFile("../../examples/rollout/etcd.yaml")
	if err != nil {
		e.t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if decoder.Decode(&u.Object) != nil {
			return
		}
		if len(u.Object) == 0 {
			continue
		}
		u.SetNamespace(e.namespace)
		text, err := json.Marshal(u.Object)
		if err != nil {
			e.t.Fatal(err)
		}
		switch u.GetKind() {
		case "ConfigMap":
			for name, script := range scripts {
				_ = unstructured.SetNestedField(u.Object, script, "data", name)
			}
			err = e.world.client.Create(e.t.Context(), u)
		case "StatefulSet":
			err = e.create(text, &appsv1.StatefulSet{})
		case "Rollout":
			r := &api.Rollout{}
			if err = json.Unmarshal(text, r); err == nil {
				r.Spec.RolloutPlan.Disruption.Quorum.Members = new(int32(e.members))
				if plan != nil {
					plan(&r.Spec.RolloutPlan)
				}
				err = e.world.client.Create(e.t.Context(), r)
			}
		default:
			err = e.world.client.Create(e.t.Context(), u)
		}
		if err != nil {
			e.t.Fatalf("%s: %v", u.GetKind(), err)
		}
	}
}

// create makes the StatefulSet on the machines.
func (e *etcd) create(text []byte, set *appsv1.StatefulSet) error {
	if err := json.Unmarshal(text, set); err != nil {
		return err
	}
	var initial []string
	for i := range e.members {
		initial = append(initial, fmt.Sprintf("etcd-%d=http://etcd-%d.etcd:2380", i, i))
	}
	spec := &set.Spec.Template.Spec
	for i, arg := range spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--initial-cluster=") {
			spec.Containers[0].Args[i] = "--initial-cluster=" + strings.Join(initial, ",")
		}
	}
	set.Spec.Replicas = new(int32(e.members))
	// A machine that does much else holds up heartbeats: that is no reason for another leader.
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "ETCD_HEARTBEAT_INTERVAL", Value: "500"}, corev1.EnvVar{Name: "ETCD_ELECTION_TIMEOUT", Value: "5000"})
	spec.NodeSelector = map[string]string{"node.pawl.dev/process": "true"}
	spec.Tolerations = []corev1.Toleration{{Key: machineTaint, Operator: corev1.TolerationOpExists}}
	spec.TopologySpreadConstraints = nil
	return e.world.client.Create(e.t.Context(), set)
}

// follow notes which pods go, and how many are away at once.
func (e *etcd) follow() {
	e.t.Helper()
	list, err := e.plane.Client().CoreV1().Pods(e.namespace).List(e.t.Context(), metav1.ListOptions{LabelSelector: "app=etcd"})
	if err != nil {
		e.t.Fatal(err)
	}
	ready := map[string]bool{}
	for _, p := range list.Items {
		ready[p.Name] = true
	}
	watch, err := e.plane.Client().CoreV1().Pods(e.namespace).Watch(e.t.Context(), metav1.ListOptions{LabelSelector: "app=etcd", ResourceVersion: list.ResourceVersion})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(watch.Stop)
	go func() {
		for event := range watch.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			e.mu.Lock()
			is := p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if ready[p.Name] && p.DeletionTimestamp != nil {
				e.order = append(e.order, p.Name)
			}
			ready[p.Name] = is
			away := e.members
			for _, is := range ready {
				if is {
					away--
				}
			}
			e.away = max(e.away, away)
			e.mu.Unlock()
		}
	}()
}

// went are the pods that went since the last call, in order, and the most that were away at once.
func (e *etcd) went() (pods string, away int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pods, away = strings.Join(e.order, " "), e.away
	e.order, e.away = nil, 0
	return pods, away
}

// leader is the pod of the leader.
func (e *etcd) leader() string {
	e.t.Helper()
	found := ""
	e.until("there is a leader", func() bool {
		for i, url := range e.urls {
			ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Second)
			status, err := e.client.Status(ctx, url)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				found = fmt.Sprintf("etcd-%d", i)
				return true
			}
		}
		return false
	})
	return found
}

// move makes a member the leader, as another operator would.
func (e *etcd) move(to string) {
	e.t.Helper()
	members, err := e.client.MemberList(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, m := range members.Members {
		if m.Name != to {
			continue
		}
		from, err := etcdproc.NewClient(e.dial, e.urls[slices.IndexFunc(e.urls, func(u string) bool { return strings.Contains(u, "//"+e.leader()+".") })])
		if err != nil {
			e.t.Fatal(err)
		}
		defer from.Close()
		if _, err := from.MoveLeader(e.t.Context(), m.ID); err != nil {
			e.t.Fatal(err)
		}
	}
	e.until(to+" is the leader", func() bool { return e.leader() == to })
}

func (e *etcd) setImage(image string) {
	e.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "etcd"}}
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
	if err := e.world.client.Patch(e.t.Context(), set, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		e.t.Fatal(err)
	}
}

// write writes all the time, and asks the members whether they answer.
func (e *etcd) write() (writer *etcdproc.Writer, answering *etcdproc.Answering) {
	e.t.Helper()
	writer, err := etcdproc.NewWriterThrough(e.dial, "/"+e.t.Name()+"/", e.urls...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(writer.Close)
	writer.WaitAcked(e.t, 1)
	answering = etcdproc.StartAnswering(e.dial, e.urls...)
	e.t.Cleanup(answering.Stop)
	return writer, answering
}

// noneLost checks that every key is there, and that at least so many members have always answered.
func (e *etcd) noneLost(writer *etcdproc.Writer, answering *etcdproc.Answering, least int) {
	e.t.Helper()
	report := writer.Stop()
	lost, err := report.Lost(e.t.Context(), e.client)
	if err != nil {
		e.t.Fatal(err)
	}
	answered, rounds := answering.Least()
	e.t.Logf("%d keys were acknowledged, %d writes had no answer, the longest gap was %s; at least %d members answered in %d rounds",
		len(report.Acked), report.Unknown, report.Gap.Round(time.Millisecond), answered, rounds)
	if len(report.Acked) < 100 || len(lost) > 0 {
		e.t.Errorf("%d of %d acknowledged keys are lost", len(lost), len(report.Acked))
	}
	if answered < least || rounds < 10 {
		e.t.Errorf("only %d of %d members answered at once, in %d rounds", answered, e.members, rounds)
	}
}
