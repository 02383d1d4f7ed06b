package wfengine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/implement"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

var objects = schema.GroupResource{Resource: "things"}

// cluster stores objects as an API server does: with compare-and-swap by version.
type cluster struct {
	mu      sync.Mutex
	objects map[string]*corev1.ConfigMap
	refuse  func(what string) error // called before each write with state or update
}

func (c *cluster) get(name string) (*corev1.ConfigMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(objects, name)
}

func (c *cluster) put(what string, o *corev1.ConfigMap) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(what); err != nil {
			return err
		}
	}
	old := c.objects[o.Name]
	if old != nil && old.ResourceVersion != o.ResourceVersion {
		return apierrors.NewConflict(objects, o.Name, errors.New("it was changed"))
	}
	n, _ := strconv.Atoi(o.ResourceVersion)
	o.ResourceVersion = strconv.Itoa(n + 1)
	c.objects[o.Name] = o.DeepCopy()
	return nil
}

// edit changes an object as another program would.
func (c *cluster) edit(t *testing.T, name string, change func(*corev1.ConfigMap)) {
	t.Helper()
	o, err := c.get(name)
	if err == nil {
		change(o)
		err = c.put("edit", o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// object is a resource in the style of the library.
type object struct {
	implement.KubeResource
	cluster *cluster
}

func (r *object) object() *corev1.ConfigMap    { return r.Resource.(*corev1.ConfigMap) }
func (r *object) GetState() statemachine.State { return statemachine.State(r.object().Data["state"]) }
func (r *object) Update() error                { return r.cluster.put("update", r.object()) }
func (r *object) GetScheme() *runtime.Scheme   { return scheme.Scheme }
func (r *object) Fetch() (statemachine.StateResource, error) {
	o, err := r.cluster.get(r.GetName())
	if err != nil {
		return nil, err
	}
	return &object{implement.KubeResource{Resource: o}, r.cluster}, nil
}
func (r *object) UpdateState(s statemachine.State) (statemachine.StateResource, error) {
	newest, err := r.Fetch()
	if err != nil {
		return nil, err
	}
	o := newest.(*object).object()
	o.Data["state"] = string(s)
	return newest, r.cluster.put("state", o)
}
func (r *object) IsCancelled() bool {
	newest, err := r.Fetch()
	return err == nil && newest.(*object).object().Annotations["cancelled"] == "true"
}

// harness is one operator with one resource, whose steps are scripted.
type harness struct {
	t       *testing.T
	cluster *cluster
	manager *wfengine.WfManager
	storage wfengine.CreateMementoStorageFunc
	hook    wfengine.CreateHookFunc

	mu    sync.Mutex
	steps map[string]func(ctx context.Context, values map[string]interface{}) (map[string]interface{}, error)
	did   []string
}

var harnesses sync.Map // by name of their resource

func newHarness(t *testing.T, change ...func(*harness)) *harness {
	t.Helper()
	l := &harness{t: t, steps: map[string]func(context.Context, map[string]interface{}) (map[string]interface{}, error){}}
	name := "thing-" + fmt.Sprintf("%p", l)
	l.cluster = &cluster{objects: map[string]*corev1.ConfigMap{}}
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-1"}, Data: map[string]string{"state": "Creating"}}
	if err := l.cluster.put("create", o); err != nil {
		t.Fatal(err)
	}
	harnesses.Store(name, l)
	t.Cleanup(func() { harnesses.Delete(name) })
	for _, c := range change {
		c(l)
	}
	l.restart()
	return l
}

// restart starts a new process: everything but the storage and the cluster is new.
func (l *harness) restart() {
	l.t.Helper()
	manager, err := wfengine.CreateWfManager("demo", "testdata/flows", wfengine.CreateDefaultWfMetaLoader, l.hook, l.storage)
	if err != nil {
		l.t.Fatal(err)
	}
	manager.RegisterRecover(wfengine.CreateDefaultRecover())
	manager.RegisterSteps(&First{}, &Second{}, &Third{}, &Last{})
	l.manager = manager
}

func (l *harness) name() string {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	for name := range l.cluster.objects {
		return name
	}
	return ""
}

func (l *harness) resource() *object {
	l.t.Helper()
	o, err := l.cluster.get(l.name())
	if err != nil {
		l.t.Fatal(err)
	}
	return &object{implement.KubeResource{Resource: o}, l.cluster}
}

func (l *harness) flow() *wfengine.ResourceWorkflow {
	l.t.Helper()
	flow, err := l.manager.CreateResourceWorkflow(l.resource())
	if err != nil {
		l.t.Fatal(err)
	}
	return flow
}

func (l *harness) state() statemachine.State { return l.resource().GetState() }

// creating is the checker of the state Creating.
func creating(obj statemachine.StateResource) (*statemachine.Event, error) {
	if obj.GetState() == statemachine.StateCreating {
		return statemachine.CreateEvent("create", map[string]interface{}{"size": 3}), nil
	}
	return nil, nil
}

// pass is one Reconcile.
func (l *harness) pass() error {
	l.t.Helper()
	if l.manager.CheckRecovery(l.resource()) {
		return nil
	}
	switch l.state() {
	case statemachine.StateCreating:
		return l.flow().CommonWorkFlowMainEnter(context.Background(), l.resource(), "Create", false, creating)
	case statemachine.StateRebuild:
		return l.flow().CommonWorkFlowMainEnter(context.Background(), l.resource(), "Rebuild", true, func(obj statemachine.StateResource) (*statemachine.Event, error) {
			if obj.GetState() == statemachine.StateRebuild {
				return statemachine.CreateEvent("rebuild", nil), nil
			}
			return nil, nil
		})
	}
	return nil
}

// until makes passes until one succeeds and the state is reached.
func (l *harness) until(want statemachine.State, most int) {
	l.t.Helper()
	var err error
	for range most {
		if err = l.pass(); err == nil && l.state() == want {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.t.Fatalf("after %d passes the state is %s, not %s: %v; did %v", most, l.state(), want, err, l.done())
}

func (l *harness) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what)
}

func (l *harness) done() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.did)
}

func (l *harness) want(what ...string) {
	l.t.Helper()
	if did := l.done(); !slices.Equal(did, what) {
		l.t.Errorf("did\n  %q, want\n  %q", did, what)
	}
}

// resume requests a recovery with the annotation.
func (l *harness) resume() {
	l.t.Helper()
	l.cluster.edit(l.t, l.name(), func(o *corev1.ConfigMap) { o.Annotations["interrupt.recover"] = "T" })
}

// base is the step base type of this operator.
type base struct {
	harness *harness
	values  map[string]interface{}
	output  map[string]interface{}
}

func (s *base) Init(values map[string]interface{}, _ logr.Logger) error {
	name, _ := values[define.DefaultWfConf[define.WorkFlowResourceName]].(string)
	found, ok := harnesses.Load(name)
	if !ok {
		return fmt.Errorf("no resource %q", name)
	}
	s.harness, s.values = found.(*harness), maps.Clone(values)
	return nil
}

func (s *base) Output(logr.Logger) map[string]interface{} { return s.output }

func (s *base) do(ctx context.Context, name string) (err error) {
	s.harness.note(name)
	s.harness.mu.Lock()
	do := s.harness.steps[name]
	s.harness.mu.Unlock()
	if do != nil {
		s.output, err = do(ctx, s.values)
	}
	return err
}

type First struct{ base }
type Second struct{ base }
type Third struct{ base }

// Last writes the next state, as the last steps of such flows do.
type Last struct{ base }

func (s *First) DoStep(ctx context.Context, _ logr.Logger) error  { return s.do(ctx, "First") }
func (s *Second) DoStep(ctx context.Context, _ logr.Logger) error { return s.do(ctx, "Second") }
func (s *Third) DoStep(ctx context.Context, _ logr.Logger) error  { return s.do(ctx, "Third") }
func (s *Last) DoStep(ctx context.Context, _ logr.Logger) error {
	if err := s.do(ctx, "Last"); err != nil {
		return err
	}
	_, err := s.harness.resource().UpdateState(statemachine.StateRunning)
	return err
}

// on sets what a step does. Other steps succeed.
func (l *harness) on(step string, do func() error) {
	l.onValues(step, func(context.Context, map[string]interface{}) (map[string]interface{}, error) { return nil, do() })
}

func (l *harness) onValues(step string, do func(context.Context, map[string]interface{}) (map[string]interface{}, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps[step] = do
}

// times returns a function that fails n times, then succeeds.
func times(n int, err error) func() error {
	return func() error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// texts is a storage of the user's own kind.
type texts struct {
	mu     sync.Mutex
	data   map[string]string
	refuse func(key string) error
	saves  int
}

// errStored is the error of a write that took effect.
var errStored = errors.New("no answer came")

func (s *texts) factory(statemachine.StateResource) (wfengine.WfRuntimeMementoStorage, error) {
	return s, nil
}

func (s *texts) Save(key, content string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.refuse != nil {
		err = s.refuse(key)
	}
	if err != nil && !errors.Is(err, errStored) {
		return err
	}
	s.saves++
	if s.data == nil {
		s.data = map[string]string{}
	}
	s.data[key] = content
	return err
}

func (s *texts) LoadMementoMap(string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data), nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
