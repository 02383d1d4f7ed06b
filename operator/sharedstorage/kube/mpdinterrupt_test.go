package kube

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/control"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// mpdFixture serves one MPDCluster with simulated ports.
type mpdFixture struct {
	t      *testing.T
	client client.Client
	sim    *sim.Simulation
	server *mpdServer

	mu     sync.Mutex
	writes []string // patches of objects
	asked  int      // reads of <name>-user-params
}

var polar = control.Ref{Kind: MPDKind, Namespace: "default", Name: "polar"}

func polarObject(edit func(c *mpd.MPDCluster)) *mpd.MPDCluster {
	c := &mpd.MPDCluster{ObjectMeta: metav1.ObjectMeta{Namespace: polar.Namespace, Name: polar.Name, UID: "u", Annotations: map[string]string{}}, Spec: mpd.MPDClusterSpec{
		FollowerNum: 1, ClassInfo: mpd.ClassInfo{ClassName: "small"}, VersionCfg: mpd.VersionInfo{VersionName: "15.4"},
	}}
	edit(c)
	return c
}

// watching records the calls of the API server. No object is written as a whole, since that would
// lose fields that are unknown here.
func (s *mpdFixture) watching() interceptor.Funcs {
	wrote := func(obj client.Object, p client.Patch) {
		if _, ours := obj.(*mpd.MPDCluster); !ours {
			return
		}
		data, err := p.Data(obj)
		if err != nil {
			s.t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes = append(s.writes, string(data))
	}
	whole := func(obj client.Object) {
		if _, ours := obj.(*mpd.MPDCluster); ours {
			s.t.Error("an MPDCluster is written as a whole")
		}
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if _, config := obj.(*corev1.ConfigMap); config && key.Name == polar.Name+"-user-params" {
				s.mu.Lock()
				s.asked++
				s.mu.Unlock()
			}
			return c.Get(ctx, key, obj, o...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			wrote(obj, p)
			return c.Patch(ctx, obj, p, o...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			wrote(obj, p)
			return c.SubResource(sub).Patch(ctx, obj, p, o...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.UpdateOption) error {
			whole(obj)
			return c.Update(ctx, obj, o...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, o ...client.SubResourceUpdateOption) error {
			whole(obj)
			return c.SubResource(sub).Update(ctx, obj, o...)
		},
	}
}

// withMPD runs a test in virtual time.
func withMPD(t *testing.T, test func(s *mpdFixture), objects ...client.Object) {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &mpdFixture{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&mpd.MPDCluster{}).WithObjects(objects...).WithInterceptorFuncs(s.watching()).Build()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		s.t, s.client, s.sim = t, c, sim.New(sim.Options{Latency: 50 * time.Millisecond, Times: sim.Times{Create: time.Second, Start: time.Second}})
		store := NewMPDClusterStore(c, c, "")
		op, err := sharedstorage.New(sharedstorage.Options{Stores: map[string]sharedstorage.ClusterStore{MPDKind: store}, Ports: s.sim.Ports(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := op.Engine(runstore.NewMemory(), workflow.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		s.server = &mpdServer{operator: op, store: store, engine: engine, now: time.Now}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = engine.Serve(ctx) })
		defer func() { cancel(); all.Wait() }()
		test(s)
		if wrong := s.sim.Violations(); len(wrong) > 0 {
			t.Errorf("never: %s", strings.Join(wrong, "\n"))
		}
	})
}

// patchesOnly checks that nothing else of the spec was written. Fields such as resourceAdditional
// and dbProxyInfo must stay.
func (s *mpdFixture) patchesOnly(fields ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.writes) == 0 {
		s.t.Error("nothing was written")
	}
	for _, text := range s.writes {
		var merge struct {
			Spec map[string]json.RawMessage `json:"spec"`
		}
		var ops []struct{ Op, Path string }
		if json.Unmarshal([]byte(text), &ops) != nil {
			if err := json.Unmarshal([]byte(text), &merge); err != nil {
				s.t.Error(err)
			}
		}
		for field := range merge.Spec {
			if !slices.Contains(fields, field) {
				s.t.Errorf("a patch of the spec: %s", text)
			}
		}
		for _, op := range ops {
			path := strings.Split(op.Path, "/")
			if len(path) < 3 || path[1] == "spec" && !slices.Contains(fields, path[2]) {
				s.t.Errorf("a patch of the spec: %s", text)
			}
		}
	}
}

func (s *mpdFixture) observe() *mpd.MPDCluster {
	s.t.Helper()
	c := &mpd.MPDCluster{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: polar.Namespace, Name: polar.Name}, c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *mpdFixture) patch(text string) {
	s.t.Helper()
	if err := s.client.Patch(s.t.Context(), s.observe(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *mpdFixture) annotate(key, value string) {
	s.t.Helper()
	s.patch(`{"metadata":{"annotations":{"` + key + `":"` + value + `"}}}`)
}

// passes makes passes for up to most.
func (s *mpdFixture) passes(most time.Duration, until func(c *mpd.MPDCluster) bool) *mpd.MPDCluster {
	s.t.Helper()
	for end := time.Now().Add(most); ; time.Sleep(500 * time.Millisecond) {
		out := s.server.reconcile(s.t.Context(), polar)
		c := s.observe()
		if until != nil && until(c) {
			return c
		}
		if time.Now().After(end) {
			if until != nil {
				s.t.Fatalf("it is %s, annotations %v: %s", c.Status.ClusterStatus, c.Annotations, out.Message())
			}
			return c
		}
	}
}

func (s *mpdFixture) until(state string) *mpd.MPDCluster {
	s.t.Helper()
	return s.passes(10*time.Minute, func(c *mpd.MPDCluster) bool { return c.Status.ClusterStatus == state })
}

// An object that an earlier operator has left interrupted, with the run records of its engine, is
// taken over: nothing is done to it until somebody sets T, true or 1, and then it reaches Running.
func TestAnInterruptedClusterIsTakenOver(t *testing.T) {
	record := `{"flowName":"ModifyClass","flowStatus":"failedAndCompleted","errorMessage":"pod is pending","runningSteps":[{"StepName":"Init","stepStatus":"completed"},{"StepName":"CreateTempRo","stepStatus":"failed"}]}`
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: polar.Namespace, Name: "polar-workflow"}, Data: map[string]string{
		"1-CreateCluster": `{"flowName":"CreateCluster","flowStatus":"completed"}`, "2-ModifyClass": record,
	}}
	for _, yes := range []string{"T", "true", "1"} {
		t.Run(yes, func(t *testing.T) {
			obj := polarObject(func(c *mpd.MPDCluster) {
				c.Status.ClusterStatus = "Interrupt"
				c.Annotations = map[string]string{interruptRecover: "F", interruptReason: "TEMP_RO_FOR_RW_MEAT_LOST", interruptMessage: "no record of the pod", interruptPrevious: "ModifyClass"}
			})
			withMPD(t, func(s *mpdFixture) {
				for _, no := range []string{"F", "false", "0", "yes", "t", "TRUE", ""} {
					s.annotate(interruptRecover, no)
					c := s.passes(5*time.Second, nil)
					if c.Status.ClusterStatus != "Interrupt" || len(s.sim.Instances(port.Ref{Namespace: polar.Namespace, Name: polar.Name})) > 0 {
						t.Fatalf("%q resumes: it is %s", no, c.Status.ClusterStatus)
					}
				}
				c := s.observe()
				if c.Annotations[interruptPrevious] != "ModifyClass" || c.Annotations[interruptReason] != "TempRoForRwMetaLost" {
					t.Errorf("the annotations have become %v", c.Annotations)
				}
				for _, word := range []string{"flow ModifyClass at step CreateTempRo", "pod is pending", "no record of the pod"} {
					if !strings.Contains(c.Annotations[interruptMessage], word) {
						t.Errorf("the message %q does not tell of %q", c.Annotations[interruptMessage], word)
					}
				}
				s.annotate(interruptRecover, yes)
				c = s.until("Running")
				if c.Status.FollowerNum != 1 || c.Status.LeaderInstanceID == "" {
					t.Errorf("it has %d followers and the leader %q", c.Status.FollowerNum, c.Status.LeaderInstanceID)
				}
				for key := range c.Annotations {
					if strings.HasPrefix(key, "interrupt.") {
						t.Errorf("the annotation %s is left", key)
					}
				}
				kept := &corev1.ConfigMap{}
				if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(left), kept); err != nil || kept.Data["2-ModifyClass"] != record {
					t.Errorf("the records were changed: %v %v", kept.Data, err)
				}
			}, obj, left.DeepCopy())
		})
	}
}

// cancelled holds the run and is removed once that was done; interrupt.recover continues it; the
// completed change becomes the spec.
func TestCancelledAndRecover(t *testing.T) {
	withMPD(t, func(s *mpdFixture) {
		s.until("Running")
		s.patch(`{"spec":{"classInfoModifyTo":{"className":"medium"}}}`)
		s.until("ModifyClass")
		for _, no := range []string{"F", "0", "yes"} {
			s.annotate(cancelledKey, no)
			if c := s.passes(0, nil); c.Status.ClusterStatus != "ModifyClass" || c.Annotations[cancelledKey] != no {
				t.Fatalf("%q cancels: it is %s, annotations %v", no, c.Status.ClusterStatus, c.Annotations)
			}
		}
		s.annotate(cancelledKey, "T")
		c := s.until("Interrupt")
		if _, there := c.Annotations[cancelledKey]; there {
			t.Error("cancelled was carried out and is there still")
		}
		if c.Annotations[interruptRecover] != "F" || c.Annotations[interruptReason] == "" || c.Annotations[interruptMessage] == "" || c.Annotations[interruptPrevious] != "ModifyClass" {
			t.Errorf("the interruption is told by %v", c.Annotations)
		}
		if c = s.passes(time.Minute, nil); c.Status.ClusterStatus != "Interrupt" {
			t.Errorf("F resumes: it is %s", c.Status.ClusterStatus)
		}
		s.annotate(interruptRecover, "T")
		c = s.passes(10*time.Minute, func(c *mpd.MPDCluster) bool {
			return c.Status.ClusterStatus == "Running" && c.Spec.ClassInfo.ClassName == "medium"
		})
		if c.Spec.ClassInfoModifyTo.ClassName != "" || c.Annotations[interruptRecover] != "" {
			t.Errorf("the desired class %+v and the annotations %v are left", c.Spec.ClassInfoModifyTo, c.Annotations)
		}
		s.patchesOnly("classInfo", "classInfoModifyTo")
	}, polarObject(func(*mpd.MPDCluster) {}))
}

// A completed change moves to the plain field; a newer one in its place stays.
func TestSettleDesired(t *testing.T) {
	for name, q := range map[string]struct {
		status          v1alpha1.SharedStorageClusterStatus
		newer           string
		class, modify   string
		version, wanted string
	}{
		"both are done":          {status: v1alpha1.SharedStorageClusterStatus{State: "Running", Class: "large", Version: "15.5"}, class: "large", version: "15.5"},
		"only the class is done": {status: v1alpha1.SharedStorageClusterStatus{State: "Running", Class: "large", Version: "15.4"}, class: "large", version: "15.4", wanted: "15.5"},
		"none is done":           {status: v1alpha1.SharedStorageClusterStatus{State: "Running", Class: "small", Version: "15.4"}, class: "small", modify: "large", version: "15.4", wanted: "15.5"},
		"the flow has not ended": {status: v1alpha1.SharedStorageClusterStatus{State: "ChangingSpecification", Class: "large", Version: "15.4"}, class: "small", modify: "large", version: "15.4", wanted: "15.5"},
		"a newer class is asked for": {status: v1alpha1.SharedStorageClusterStatus{State: "Running", Class: "large", Version: "15.4"}, newer: `{"spec":{"classInfoModifyTo":{"className":"huge"}}}`,
			class: "small", modify: "huge", version: "15.4", wanted: "15.5"},
		"a newer version is asked for": {status: v1alpha1.SharedStorageClusterStatus{State: "Running", Class: "small", Version: "15.5"}, newer: `{"spec":{"versionCfgModifyTo":{"versionName":"15.6"}}}`,
			class: "small", modify: "large", version: "15.4", wanted: "15.6"},
	} {
		t.Run(name, func(t *testing.T) {
			withMPD(t, func(s *mpdFixture) {
				read := s.observe()
				if q.newer != "" {
					s.patch(q.newer)
				}
				err := settleDesired(t.Context(), s.client, read, &q.status)
				if err != nil && q.newer == "" { // the fake client returns a general error for a failed test
					t.Fatal(err)
				}
				c := s.observe()
				if c.Spec.ClassInfo.ClassName != q.class || c.Spec.ClassInfoModifyTo.ClassName != q.modify || c.Spec.VersionCfg.VersionName != q.version || c.Spec.VersionCfgModifyTo.VersionName != q.wanted {
					t.Errorf("the spec is %+v", c.Spec)
				}
				if q.version == "15.5" && c.Spec.VersionCfg.EngineImage != "new" {
					t.Errorf("the image of the desired version did not come along: %+v", c.Spec.VersionCfg)
				}
			}, polarObject(func(c *mpd.MPDCluster) {
				c.Spec.ClassInfoModifyTo, c.Spec.VersionCfgModifyTo = mpd.ClassInfo{ClassName: "large"}, mpd.VersionInfo{VersionName: "15.5", EngineImage: "new"}
			}))
		})
	}
}

// The annotations of an interruption, by the state and the annotations before.
func TestAnnotationsOfAnInterruption(t *testing.T) {
	held := v1alpha1.SharedStorageClusterStatus{State: "Interrupted", PreviousState: "Upgrading", Reason: "PodLost", Message: "gone"}
	for name, q := range map[string]struct {
		status  v1alpha1.SharedStorageClusterStatus
		was     string
		has     map[string]string
		recover string
		there   bool
	}{
		"it begins":                        {status: held, was: "UpgradeMinorVersion", recover: "F", there: true},
		"it begins, and T is an old word":  {status: held, was: "UpgradeMinorVersion", has: map[string]string{interruptRecover: "T"}, recover: "F", there: true},
		"it goes on, and T was just asked": {status: held, was: "Interrupt", has: map[string]string{interruptRecover: "T"}},
		"it goes on, and F stands there":   {status: held, was: "Interrupt", has: map[string]string{interruptRecover: "F"}},
		"it goes on, and nothing is there": {status: held, was: "Interrupt", recover: "F", there: true},
		"it has ended":                     {status: v1alpha1.SharedStorageClusterStatus{State: "Upgrading"}, was: "Interrupt", has: map[string]string{interruptRecover: "F"}, there: true},
	} {
		got := interrupted(&sharedstorage.Cluster{Status: q.status}, q.was, q.has)
		value, there := got[interruptRecover]
		if value != q.recover || there != q.there {
			t.Errorf("%s: interrupt.recover is %q %t, want %q %t", name, value, there, q.recover, q.there)
		}
		want := map[string]string{interruptReason: "", interruptMessage: "", interruptPrevious: ""}
		if q.status.State == "Interrupted" {
			want = map[string]string{interruptReason: "PodLost", interruptMessage: "gone", interruptPrevious: "UpgradeMinorVersion"}
		}
		for key, value := range want {
			if had, there := got[key]; !there || had != value {
				t.Errorf("%s: %s is %q, want %q", name, key, had, value)
			}
		}
	}
}

func TestOpenRun(t *testing.T) {
	for name, q := range map[string]struct {
		records map[string]string
		want    string
	}{
		"none":                   {nil, ""},
		"all have ended":         {map[string]string{"1-A": `{"flowName":"A","flowStatus":"completed"}`}, ""},
		"by number, not by name": {map[string]string{"9-A": `{"flowName":"A","flowStatus":"failed"}`, "10-B": `{"flowName":"B","flowStatus":"running"}`}, "flow B"},
		"one that is damaged":    {map[string]string{"2-B": `{`, "1-A": `{"flowName":"A","flowStatus":"failedAndCompleted","errorMessage":"no"}`}, "flow A (no)"},
		"other keys":             {map[string]string{"notes": "x", "x-A": `{"flowStatus":"failed"}`}, ""},
	} {
		if got := openRun(q.records); got != q.want {
			t.Errorf("%s: %q, want %q", name, got, q.want)
		}
	}
}
