package rollout_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// plan makes a Rollout with a plan in YAML.
func (w *world) plan(name, text string) {
	w.t.Helper()
	var spec api.RolloutSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec.RolloutPlan); err != nil {
		w.t.Fatal(err)
	}
	w.rollout(name, spec)
	w.is(name, "Ready", metav1.ConditionTrue)
}

// plainRollout makes a Rollout with a plan in YAML, and does not wait for an operator.
func (w *world) plainRollout(r *api.Rollout, text string) {
	w.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &r.Spec.RolloutPlan); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

// listener is a server that keeps what it was asked.
type listener struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []heard
	answer func(n int, h heard) int // the status; nil: 204
}

type heard struct {
	path, key string
	body      map[string]any
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		h := heard{path: r.URL.Path, key: r.Header.Get("Idempotency-Key")}
		_ = json.Unmarshal(text, &h.body)
		l.mu.Lock()
		l.calls = append(l.calls, h)
		n, answer := len(l.calls), l.answer
		l.mu.Unlock()
		status := http.StatusNoContent
		if answer != nil {
			status = answer(n, h)
		}
		rw.WriteHeader(status)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) on(path string) (all []heard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.calls {
		if path == "" || h.path == path {
			all = append(all, h)
		}
	}
	return all
}

// TestHooks: webhooks are called around the rollout and its batches, again after a 503 under the same
// key, and an event hook gets every record of the history once.
func TestHooks(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	refused := map[string]int{}
	l.answer = func(_ int, h heard) int { // the first attempt of each key
		l.mu.Lock()
		defer l.mu.Unlock()
		if refused[h.key]++; refused[h.key] == 1 && h.path == "/pre" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", fmt.Sprintf(`
numBatches: 2
rolloutWebhooks:
- {name: begin, type: initialize-rollout, url: %[1]s/begin, metadata: {team: db}}
- {name: before, type: pre-batch-rollout, url: %[1]s/pre}
- {name: after, type: post-batch-rollout, url: %[1]s/post, method: PUT, expectedStatus: [200]}
- {name: end, type: finalize-rollout, url: %[1]s/end}
- {name: log, type: event, url: %[1]s/event}
`, l.URL))
	w.setImage("db", "r2")
	r := w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2")
	var order []string
	for _, h := range l.on("") {
		if h.path != "/event" {
			order = append(order, h.path)
		}
	}
	if want := "/begin /pre /pre /post /pre /pre /post /end"; strings.Join(order, " ") != want {
		t.Errorf("the calls were %v, expected %s", order, want)
	}
	pre := l.on("/pre")
	if len(pre) != 4 || pre[0].key == "" || pre[0].key != pre[1].key || pre[2].key != pre[3].key || pre[0].key == pre[2].key {
		t.Errorf("the keys of the attempts: %+v", pre)
	}
	begin := l.on("/begin")[0].body
	if begin["name"] != "db" || begin["namespace"] != w.namespace || begin["uid"] != string(r.UID) || begin["phase"] != "initializing" ||
		fmt.Sprint(begin["metadata"]) != "map[team:db]" || fmt.Sprint(begin["batch"]) != "map[count:2 index:0]" {
		t.Errorf("the body is %v", begin)
	}
	if revisions, ok := begin["rollout"].(map[string]any); !ok || revisions["target"] != r.Status.LastTargetRevision || revisions["source"] != r.Status.LastSourceRevision {
		t.Errorf("the revisions are %v", begin["rollout"])
	}
	w.until("the event hook has all records", func() bool { return len(l.on("/event")) >= int(w.now("db").Status.Sequence) })
	for i, h := range l.on("/event") {
		if want := strconv.Itoa(i + 1); fmt.Sprint(h.body["sequence"]) != want || h.key != string(r.UID)+"/"+want || h.body["name"] != "db" {
			t.Errorf("record %s is %+v", want, h)
		}
	}
	w.until("the status says that they are delivered", func() bool {
		s := w.now("db").Status
		return s.Delivered["log"] == s.Sequence
	})
}

// TestHookThatFails: a hook that answers 400 is not asked again, and the rollout is taken back. It is called
// for the batch that goes back too, and does not hold that up.
func TestHookThatFails(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	l.answer = func(int, heard) int { return http.StatusBadRequest }
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", fmt.Sprintf(`
numBatches: 2
rolloutWebhooks:
- {name: smoke, type: post-batch-rollout, url: %[1]s/smoke, onFailure: rollback}
- {name: deaf, type: event, url: %[1]s/event, retries: 0}
`, l.URL))
	w.setImage("db", "r2")
	r := w.is("db", rollout.RolledBack, metav1.ConditionTrue)
	w.expectImages("db", "0=r1 1=r1")
	asked := l.on("/smoke")
	if len(asked) != 2 || asked[0].key == asked[1].key || asked[0].body["rollback"] != nil || asked[1].body["rollback"] != true {
		t.Errorf("the hook was asked %+v", asked)
	}
	if !strings.Contains(r.Status.Rollback.Reason, "status 400") {
		t.Errorf("the reason is %q", r.Status.Rollback.Reason)
	}
}

// TestAddressesThatAreRefused: a hook leads to loopback, and to the API server.
func TestAddressesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 1, appsv1.ParallelPodManagement)
	w.plan("db", `
rolloutWebhooks:
- {name: metadata, type: pre-batch-rollout, url: "http://169.254.169.254/latest/meta-data"}
`)
	w.setImage("db", "r2")
	r := w.is("db", rollout.Paused, metav1.ConditionTrue)
	if p := r.Status.Pause; p == nil || p.By != "Webhook" || !strings.Contains(p.Reason+r.Status.Waiting.Message, "WebhookFailed") {
		t.Errorf("the pause is %+v, %+v", p, r.Status.Waiting)
	}
	if !strings.Contains(w.dump(), "HTTP_ADDRESS_REFUSED") {
		t.Error("the refusal is not told")
	}
	w.expectImages("db", "0=r1")
}

// TestGates: a gate that looks at labels of pods opens when they change; one whose expression is wrong
// stops the rollout before it begins.
func TestGates(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", `
numBatches: 2
gates:
- {name: voters, when: BeforeBatch, expression: 'batch.index == 0 || pods.exists(p, "voter" in p.labels && p.updated)', message: no voter}
`)
	w.setImage("db", "r2")
	r := w.waitsFor("db", "GateClosed")
	if m := r.Status.Waiting.Message; !strings.Contains(m, "gate voters is closed: no voter") || !strings.Contains(m, "batch.index is 1") {
		t.Errorf("it waits: %s", m)
	}
	w.expectImages("db", "0=r1 1=r2")
	w.patch(&corev1.Pod{}, "db-1", `{"metadata":{"labels":{"voter":"yes"}}}`)
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.statefulSet("wrong", 1, appsv1.ParallelPodManagement)
	w.plan("wrong", `
gates:
- {name: typo, when: BeforePod, expression: 'pods.all(p, p.redy)'}
`)
	w.setImage("wrong", "r2")
	r = w.is("wrong", "Stalled", metav1.ConditionTrue)
	if f := r.Status.Failure; f == nil || f.Reason != "GateInvalid" || !strings.Contains(f.Message, "redy") {
		t.Errorf("the failure is %+v", f)
	}
	w.expectImages("wrong", "0=r1")
}

// podServer answers at the address of a pod.
func podServer(w *world, pod string, port int, handler http.HandlerFunc) {
	w.t.Helper()
	p := &corev1.Pod{}
	w.get(pod, p)
	listener, err := net.Listen("tcp", net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port)))
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close() })
}

// TestProbes: a pod counts when its probe passes; its value is seen by a gate.
func TestProbes(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", `
numBatches: 2
batchPartition: 0
probes:
- {name: lag, http: {port: 8471, path: /lag, jsonPath: .seconds}, period: 1s, parse: number, failureThreshold: 1000}
- {name: port, tcp: {port: 8471}, period: 1s, failureThreshold: 1000}
gates:
- {name: caught-up, when: AfterBatch, expression: 'pods.all(p, !p.updated || p.probes["lag"].value < 5.0)'}
`)
	w.setImage("db", "r2")
	w.until("the pod is new", func() bool { return w.images("db") == "0=r1 1=r2" })
	r := w.waitsFor("db", "PodsNotReady")
	if r.Status.UpgradedReadyReplicas != 0 {
		t.Errorf("%d pods are ready without a probe", r.Status.UpgradedReadyReplicas)
	}
	var mu sync.Mutex
	lag := "none"
	podServer(w, "db-1", 8471, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/lag" {
			fmt.Fprintf(rw, `{"seconds": %q}`, lag)
		}
	})
	set := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		lag = text
	}
	set("12.5")
	r = w.waitsFor("db", "GateClosed")
	if !strings.Contains(r.Status.Waiting.Message, "caught-up") {
		t.Errorf("it waits: %s", r.Status.Waiting.Message)
	}
	set("1")
	w.until("the batch is held", func() bool {
		at := w.now("db").Status
		return at.Waiting != nil && at.Waiting.Reason == "HeldByPartition"
	})
}

// TestProbeThatFails: a probe that fails as often as its threshold says stops the rollout; a retry asks
// again.
func TestProbeThatFails(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 1, appsv1.ParallelPodManagement)
	w.plan("db", `
probes:
- {name: health, http: {port: 8472}, period: 1s, failureThreshold: 3, timeout: 1s}
`)
	w.setImage("db", "r2")
	r := w.is("db", rollout.Paused, metav1.ConditionTrue)
	if p := r.Status.Pause; p == nil || p.By != "Probe" {
		t.Fatalf("the pause is %+v", p)
	}
	podServer(w, "db-0", 8472, func(http.ResponseWriter, *http.Request) {})
	w.annotate("db", "retry", "now")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
}

// TestHandover: the leader is asked to give up its role before its pod goes, and goes last.
func TestHandover(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	role := func(pod, is string) {
		w.patch(&corev1.Pod{}, pod, fmt.Sprintf(`{"metadata":{"labels":{"role":%q}}}`, is))
	}
	for ordinal, is := range []string{"leader", "replica", "replica"} {
		role("db-"+strconv.Itoa(ordinal), is)
	}
	var mu sync.Mutex
	var keys, pods []string
	podServer(w, "db-0", 8473, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys, pods = append(keys, r.Header.Get("Idempotency-Key")), append(pods, w.images("db"))
		if len(keys) == 1 {
			http.Error(rw, "busy", http.StatusServiceUnavailable)
			return
		}
		role("db-0", "replica")
		role("db-1", "leader")
	})
	w.plan("db", `
order: {roleLabel: role, roles: [replica, leader], handover: {http: {port: 8473, path: /transfer}, retries: 5}}
disruption: {maxUnavailable: 1}
`)
	w.setImage("db", "r2")
	w.until("db-1 and db-2 are new", func() bool { return strings.HasSuffix(w.images("db"), "2=r2") })
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
	mu.Lock()
	defer mu.Unlock()
	if len(keys) < 2 || slices.Contains(keys, "") || keys[0] != keys[1] {
		t.Errorf("the handover was asked with the keys %v", keys)
	}
	for _, seen := range pods {
		if !strings.HasPrefix(seen, "0=r1 ") {
			t.Errorf("the leader was asked when the pods were %s", seen)
		}
	}
}

// TestMetric: a real Prometheus decides: a batch whose errors rise is taken back.
func TestMetric(t *testing.T) {
	binary := prometheusBinary(t)
	w := newWorld(t)
	var mu sync.Mutex
	rate := "0.001"
	target := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(rw, "error_rate{app=\"db\"} %s\n", rate)
	}))
	t.Cleanup(target.Close)
	address := prometheus(t, binary, strings.TrimPrefix(target.URL, "http://"))
	knows := func(value string) { // it scrapes only seconds after it is ready
		w.t.Helper()
		w.until("Prometheus knows "+value, func() bool {
			answer, err := http.Get(address + "/api/v1/query?query=error_rate") //nolint:noctx // a test
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			return strings.Contains(string(text), `"`+value+`"`)
		})
	}
	knows("0.001")
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	metric := func(query string) string {
		return fmt.Sprintf(`
numBatches: 2
canaryMetric:
- {name: errors, interval: 1s, count: 2, metricsRange: {max: "0.01"}, onFailure: rollback, inconclusiveLimit: 0, provider: {prometheus: {address: %q, query: %q}}}
`, address, query)
	}
	w.plan("db", metric(`error_rate{app="{{workload}}"}`))
	w.setImage("db", "r2")
	r := w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	if at := len(r.Status.Batches); at != 2 {
		t.Errorf("%d batches", at)
	}
	mu.Lock()
	rate = "0.5"
	mu.Unlock()
	knows("0.5")
	w.setImage("db", "r3")
	r = w.is("db", rollout.RolledBack, metav1.ConditionTrue)
	if !strings.Contains(r.Status.Rollback.Reason, "0.5 is outside of at most 0.01") {
		t.Errorf("it was taken back: %s", r.Status.Rollback.Reason)
	}
	w.expectImages("db", "0=r2 1=r2")
	// Without data nothing is decided: it pauses.
	w.statefulSet("other", 1, appsv1.ParallelPodManagement)
	w.plan("other", metric(`error_rate{app="{{rollout}}"}`))
	w.patch(&api.Rollout{}, "other", `{"spec":{"rolloutPlan":{"numBatches":1}}}`)
	w.setImage("other", "r2")
	r = w.is("other", rollout.Paused, metav1.ConditionTrue)
	if p := r.Status.Pause; p == nil || p.Reason != "MetricInconclusive" {
		t.Errorf("the pause is %+v", p)
	}
}

// prometheusBinary is the one of `make prometheus`, or that of the machine.
func prometheusBinary(t *testing.T) string {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(root, "bin", "prometheus"), "prometheus"} {
		if binary, err := exec.LookPath(name); err == nil {
			return binary
		}
	}
	t.Skip("there is no Prometheus: make prometheus, or apt-get install prometheus")
	return ""
}

// prometheus runs one that scrapes a target, and returns its address.
func prometheus(t *testing.T, binary, target string) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 300ms}\nscrape_configs:\n- job_name: test\n  static_configs: [{targets: [%q]}]\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	cmd := exec.CommandContext(t.Context(), binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address) //nolint:gosec // found in PATH
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// Another program says that it is ready only to who asks.
	for end := time.Now().Add(rollouttest.Patience); ; time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/-/ready") //nolint:noctx // a test
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(end) {
			t.Fatalf("prometheus does not start: %v", err)
		}
	}
}
