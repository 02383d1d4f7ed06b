package wfengine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/implement"
	implwfengine "github.com/pawl-dev/pawl/compat/implement/wfengine"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

// Every name of the interface with its type: a missing one does not compile.
var (
	_ func(string, string, wfengine.CreateMetaLoaderFunc, wfengine.CreateHookFunc, wfengine.CreateMementoStorageFunc) (*wfengine.WfManager, error) = wfengine.CreateWfManager
	_ func(*wfengine.WfManager, wfengine.StepAction)                                                                                               = (*wfengine.WfManager).RegisterStep
	_ func(*wfengine.WfManager, ...wfengine.StepAction)                                                                                            = (*wfengine.WfManager).RegisterSteps
	_ func(*wfengine.WfManager, wfengine.Recover) *wfengine.WfManager                                                                              = (*wfengine.WfManager).RegisterRecover
	_ func(*wfengine.WfManager, logr.Logger) *wfengine.WfManager                                                                                   = (*wfengine.WfManager).RegisterLogger
	_ func(*wfengine.WfManager, map[define.WFConfKey]string)                                                                                       = (*wfengine.WfManager).RegisterConf
	_ func(*wfengine.WfManager, define.WFConfKey) string                                                                                           = (*wfengine.WfManager).GetConfItem
	_ func(*wfengine.WfManager, statemachine.StateResource) bool                                                                                   = (*wfengine.WfManager).CheckRecovery
	_ func(*wfengine.WfManager, statemachine.StateResource) (*wfengine.ResourceWorkflow, error)                                                    = (*wfengine.WfManager).CreateResourceWorkflow
	_ func(*wfengine.ResourceWorkflow, context.Context, string, map[string]interface{}) error                                                      = (*wfengine.ResourceWorkflow).Run
	_ func(*wfengine.ResourceWorkflow, context.Context, string, bool) (string, bool, error)                                                        = (*wfengine.ResourceWorkflow).RunLastUnCompletedRuntime
	_ func(*wfengine.ResourceWorkflow) error                                                                                                       = (*wfengine.ResourceWorkflow).RetryInterruptedStep
	_ func(*wfengine.ResourceWorkflow, context.Context, statemachine.StateResource, string, bool, statemachine.EventChecker) error                 = (*wfengine.ResourceWorkflow).CommonWorkFlowMainEnter

	_ func() *wfengine.DefaultRecover                                          = wfengine.CreateDefaultRecover
	_ wfengine.Recover                                                         = wfengine.CreateDefaultRecover()
	_ wfengine.CreateMetaLoaderFunc                                            = wfengine.CreateDefaultWfMetaLoader
	_ wfengine.CreateHookFunc                                                  = wfengine.CreateDefaultWorkflowHook
	_ func(string, bool) wfengine.CreateMementoStorageFunc                     = wfengine.GetDefaultMementoStorageFactory
	_ func(reason, message string) error                                       = wfengine.NewInterruptError
	_ func() error                                                             = wfengine.NewWaitingError
	_ wfengine.MetaDataLoader                                                  = (wfengine.WfMetaLoader)(nil)
	_ wfengine.MementoStorage                                                  = (wfengine.WfRuntimeMementoStorage)(nil)
	_ wfengine.KubeResource                                                    = implement.KubeResource{}
	_ implement.IKubeResource                                                  = (*wfengine.KubeResource)(nil)
	_ func() *implwfengine.DefaultRecover                                      = implwfengine.CreateDefaultRecover
	_ wfengine.CreateMetaLoaderFunc                                            = implwfengine.CreateDefaultWfMetaLoader
	_ wfengine.CreateHookFunc                                                  = implwfengine.CreateDefaultWorkflowHook
	_ func(string, bool) wfengine.CreateMementoStorageFunc                     = implwfengine.GetDefaultMementoStorageFactory
	_ wfengine.WfRuntimeMementoStorage                                         = (*wfengine.DefaultMementoStorage)(nil)
	_ func(statemachine.EventName, map[string]interface{}) *statemachine.Event = statemachine.CreateEvent
	_ func(name, namespace string) (*corev1.ConfigMap, error)                  = k8sutil.ConfigMapFactoryByName
)

func TestCreateWfManager(t *testing.T) {
	load := wfengine.CreateDefaultWfMetaLoader
	for name, c := range map[string]struct {
		kind, dir string
		loader    wfengine.CreateMetaLoaderFunc
		err       string
	}{
		"fine":            {"demo", "testdata/flows", load, ""},
		"no type":         {"", "testdata/flows", load, "ResourceType is empty"},
		"no folder":       {"demo", "", load, "WorkFlowMetaDir is empty"},
		"no loader":       {"demo", "testdata/flows", nil, "createMetaLoaderFunc is nil"},
		"not a folder":    {"demo", "testdata/none", load, "no such file"},
		"a broken loader": {"demo", "testdata/flows", func(string) (wfengine.WfMetaLoader, error) { return nil, errors.New("no loader today") }, "no loader today"},
		"a cycle":         {"demo", "testdata/cyclic", load, "b_step_group.yaml:3:16: the group contains itself"},
		"a repeated name": {"demo", "testdata/twice", load, "Same"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wfengine.CreateWfManager(c.kind, c.dir, c.loader, nil, nil)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}

// Defect 23: a mistake in a file is an error with its line.
func TestUnknownKey(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "demo"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(read(t, "testdata/flows/demo/rebuild.yaml"), "stepName: First", "stepname: First", 1)
	if err := os.WriteFile(filepath.Join(dir, "demo", "rebuild.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := wfengine.CreateWfManager("demo", dir, wfengine.CreateDefaultWfMetaLoader, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "rebuild.yaml:5:") || !strings.Contains(err.Error(), "stepname") {
		t.Error(err)
	}
}

// metas is a loader of the user's own kind.
type metas struct {
	flows  map[string]*wfengine.FlowMeta
	groups map[string]*wfengine.StepGroupMeta
}

func (m metas) GetAllFlowMeta(string) (map[string]*wfengine.FlowMeta, map[string]*wfengine.StepGroupMeta, error) {
	return m.flows, m.groups, nil
}

// Flows need not come from files.
func TestOwnLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		own := metas{
			flows: map[string]*wfengine.FlowMeta{"Own": {FlowName: "Own", Steps: []*wfengine.StepMeta{
				{ClassName: "Twice", StepName: "A"}, {ClassName: "Twice", StepName: "B"}, {ClassName: "wfengine_test.Last", StepName: "Last"}}}},
			groups: map[string]*wfengine.StepGroupMeta{"Twice": {GroupName: "Twice", Steps: []*wfengine.StepMeta{{ClassName: "wfengine_test.First", StepName: "First"}}}},
		}
		manager, err := wfengine.CreateWfManager("demo", "none", func(string) (wfengine.WfMetaLoader, error) { return own, nil }, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.manager = manager
		l.manager.RegisterSteps(&First{}, &Last{})
		if err := l.flow().Run(t.Context(), "Own", nil); err != nil {
			t.Fatal(err)
		}
		l.want("First", "First", "Last") // defect 6: a group used twice runs twice
	})
}

// Defect 29: two types of one name do not replace each other.
func TestStepTypesCollide(t *testing.T) {
	l := newHarness(t)
	l.manager.RegisterStep(&First{}) // registering the same type again is allowed
	defer func() {
		if recover() == nil {
			t.Error("another type of the same name was registered")
		}
	}()
	func() {
		type First struct{ base2 }
		l.manager.RegisterStep(&First{})
	}()
}

type base2 struct{}

func (base2) Init(map[string]interface{}, logr.Logger) error { return nil }
func (base2) DoStep(context.Context, logr.Logger) error      { return nil }
func (base2) Output(logr.Logger) map[string]interface{}      { return nil }

// A file may use all keys of Pawl's flow files: here a budget of its own.
func TestNewKeysInAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "demo"), 0o755); err != nil {
			t.Fatal(err)
		}
		text := read(t, "testdata/flows/demo/rebuild.yaml") + "    retry: {attempts: 1}\n"
		if err := os.WriteFile(filepath.Join(dir, "demo", "rebuild.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		l := newHarness(t)
		manager, err := wfengine.CreateWfManager("demo", dir, wfengine.CreateDefaultWfMetaLoader, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.manager = manager
		l.manager.RegisterSteps(&First{}, &Last{})
		l.on("Last", times(1, errors.New("not ready")))
		begin := time.Now()
		err = l.flow().Run(t.Context(), "Rebuild", nil)
		if is, _ := define.IsInterruptError(err); !is || time.Since(begin) > time.Second {
			t.Error(err)
		}
	})
}

// The base of resources reports which methods are not implemented.
func TestKubeResource(t *testing.T) {
	r := &implement.KubeResource{}
	if _, err := r.Fetch(); !errors.Is(err, implement.NotImplementError) {
		t.Error(err)
	}
	if _, err := r.UpdateState("a"); !errors.Is(err, implement.NotImplementError) {
		t.Error(err)
	}
	if !errors.Is(r.Update(), implement.NotImplementError) || r.GetState() != statemachine.StateNil || r.GetScheme() != nil {
		t.Error("its defaults have changed")
	}
}

func TestErrors(t *testing.T) {
	stop := define.NewInterruptError("R", "m")
	wrapped := errors.Join(errors.New("a"), stop)
	if is, found := define.IsInterruptError(wrapped); !is || found.Reason != "R" || found.ErrorMsg != "m" {
		t.Error("an interruption is not found in what wraps it")
	}
	if is, _ := define.IsInterruptError(nil); is || define.IsWaitingError(stop) || !define.IsWaitingError(wfengine.NewWaitingError()) {
		t.Error("errors are mistaken for each other")
	}
}

// Operators register before they check the error of CreateWfManager: they must report the error of
// the flow file, not panic with a nil dereference.
func TestFinding26RegisterOnANilManager(t *testing.T) {
	manager, err := wfengine.CreateWfManager("demo", "testdata/twice", wfengine.CreateDefaultWfMetaLoader, nil, nil)
	if manager != nil || err == nil {
		t.Fatalf("%v, %v", manager, err)
	}
	manager.RegisterLogger(logr.Discard()).RegisterRecover(wfengine.CreateDefaultRecover()).RegisterConf(map[define.WFConfKey]string{define.WFRetryAttempts: "2"})
	manager.RegisterStep(&First{})
	manager.RegisterSteps(&Second{}, &Third{})
}
