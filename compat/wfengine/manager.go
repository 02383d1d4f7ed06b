package wfengine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// WfManager has the flows and steps of one type of resource. It is safe for concurrent use, but
// logger, hooks, steps and configuration must be registered before the first flow. On a nil
// manager the Register calls do nothing, so that the caller can still report the error of
// CreateWfManager.
type WfManager struct {
	ResourceType string
	FlowMetaMap  map[string]*FlowMeta // groups are replaced by their steps
	TypeRegistry map[string]reflect.Type
	Logger       logr.Logger

	createHook    CreateHookFunc
	createStorage CreateMementoStorageFunc
	flows         []workflow.Flow

	mu          sync.Mutex
	config      map[define.WFConfKey]string
	recover     Recover
	engines     map[runstore.Store]*workflow.Engine
	memory      runstore.Store // for resources without a storage
	mementos    *mementos      // for resources with a storage of the user's own kind
	sessions    map[string]*session
	withoutMark map[string]bool // runs whose resource was seen without a cancel mark
	tidied      time.Time
	turns       turn.Turns
}

// CreateWfManager reads the flows of a type of resource. createHookFunc and
// createMementoStorageFunc may be nil: then there are no hooks, and flows are kept in memory only.
func CreateWfManager(
	resourceType string,
	workFlowMetaDir string,
	createMetaLoaderFunc CreateMetaLoaderFunc,
	createHookFunc CreateHookFunc,
	createMementoStorageFunc CreateMementoStorageFunc,
) (*WfManager, error) {
	switch {
	case resourceType == "":
		return nil, errors.New("ResourceType is empty")
	case workFlowMetaDir == "":
		return nil, errors.New("WorkFlowMetaDir is empty")
	case createMetaLoaderFunc == nil:
		return nil, errors.New("createMetaLoaderFunc is nil")
	}
	loader, err := createMetaLoaderFunc(resourceType)
	if err != nil {
		return nil, err
	}
	metas, groups, err := loader.GetAllFlowMeta(workFlowMetaDir)
	if err != nil {
		return nil, err
	}
	flows, err := flowsOf(metas, groups)
	if err != nil {
		return nil, err
	}
	return &WfManager{
		ResourceType: resourceType, FlowMetaMap: flatten(metas, groups), TypeRegistry: map[string]reflect.Type{},
		Logger:     logr.FromSlogHandler(slog.Default().Handler()).WithName("workflow").WithName(resourceType),
		createHook: createHookFunc, createStorage: createMementoStorageFunc, flows: flows, config: maps.Clone(define.DefaultWfConf),
	}, nil
}

// RegisterLogger sets the logger of flows, steps and hooks.
func (m *WfManager) RegisterLogger(logger logr.Logger) *WfManager {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Logger = logger.WithName("workflow")
	return m
}

// RegisterRecover sets how a resource is marked when its flow is interrupted.
func (m *WfManager) RegisterRecover(recover Recover) *WfManager {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recover = recover
	return m
}

// RegisterConf sets items of this manager's configuration. CreateResourceWorkflow reports an
// invalid one.
func (m *WfManager) RegisterConf(conf map[define.WFConfKey]string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = maps.Clone(m.config)
	if m.config == nil {
		m.config = maps.Clone(define.DefaultWfConf)
	}
	maps.Copy(m.config, conf)
	p, err := policyOf(m.config)
	if err != nil {
		return
	}
	for _, engine := range m.engines {
		if err := engine.Load(m.tuned(p)); err != nil {
			m.Logger.Error(err, "the flows could not be loaded again")
		}
	}
}

// GetConfItem returns an item of the configuration.
func (m *WfManager) GetConfItem(confKey define.WFConfKey) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config[confKey]
}

// conf returns a copy of the configuration.
func (m *WfManager) conf() map[define.WFConfKey]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.config)
}

// CreateResourceWorkflow returns the flows of one resource.
func (m *WfManager) CreateResourceWorkflow(resource statemachine.StateResource) (*ResourceWorkflow, error) {
	return CreateResourceWorkflow(resource, m)
}

// policy is the part of the configuration about steps.
type policy struct {
	timeout, first, longest, cancelEvery time.Duration
	attempts                             int
}

func policyOf(conf map[define.WFConfKey]string) (p policy, err error) {
	var errs []error
	read := func(key define.WFConfKey, otherwise time.Duration) time.Duration {
		text := conf[key]
		if text == "" {
			return otherwise
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("configuration %s: %q is no duration like 30s", key, text))
		}
		return d
	}
	p = policy{
		timeout: read(define.WFStepTimeout, 24*time.Hour), first: read(define.WFRetryFirst, 0), longest: read(define.WFRetryLongest, 0),
		cancelEvery: read(define.WFCancelEvery, 5*time.Second),
	}
	if text := conf[define.WFRetryAttempts]; text != "" {
		if p.attempts, err = strconv.Atoi(text); err != nil || p.attempts < 1 {
			errs = append(errs, fmt.Errorf("configuration %s: %q is no number of attempts", define.WFRetryAttempts, text))
		}
	}
	return p, errors.Join(errs...)
}

func (m *WfManager) tuned(p policy) []workflow.Flow {
	flows := make([]workflow.Flow, len(m.flows))
	for i, flow := range m.flows {
		flows[i] = tune(flow, p)
	}
	return flows
}

// flow returns the flow of this name, or nil.
func (m *WfManager) flow(name string) *workflow.Flow {
	i := slices.IndexFunc(m.flows, func(f workflow.Flow) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &m.flows[i]
}

// engine returns the engine for a store.
func (m *WfManager) engine(store runstore.Store) (*workflow.Engine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if engine := m.engines[store]; engine != nil {
		return engine, nil
	}
	p, err := policyOf(m.config)
	if err != nil {
		return nil, err
	}
	actions := m.actions()
	engine, err := workflow.New(store, m.tuned(p), workflow.Options{
		Attempts:  1 << 16, // the callers decide how many run concurrently
		Exhausted: ManyRetry,
		Actions:   actions,
		Hooks:     []workflow.Hook{{Name: "classic", OnEvent: m.hear}},
		Logger:    slog.New(logr.ToSlogHandler(m.Logger)),
		Compile: func(source []byte) (workflow.Flow, error) {
			flow, err := flowfile.FromSource(source, flowfile.Options{Actions: actions})
			if err != nil {
				return flow, err
			}
			p, _ := policyOf(m.conf())
			return tune(flow, p), nil
		},
	})
	if err != nil {
		return nil, err
	}
	if m.engines == nil {
		m.engines = map[runstore.Store]*workflow.Engine{}
	}
	m.engines[store] = engine
	return engine, nil
}

// actions returns an action for each type that is registered or that a flow names. The action of
// an unregistered type fails when it runs. m.mu is held.
func (m *WfManager) actions() []workflow.Action {
	classes := map[string]bool{}
	for class := range m.TypeRegistry {
		classes[class] = true
	}
	var visit func(steps []workflow.Step)
	visit = func(steps []workflow.Step) {
		for _, s := range steps {
			if s.Uses != "" {
				classes[s.Uses] = true
			}
			if s.UndoCall != nil {
				classes[s.UndoCall.Uses] = true
			}
			for _, part := range [][]workflow.Step{oneStep(s.Open), s.Steps, oneStep(s.Close)} {
				visit(part)
			}
		}
	}
	for _, flow := range m.flows {
		visit(flow.Steps)
		visit(flow.Finally)
	}
	var actions []workflow.Action
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		actions = append(actions, m.action(class))
	}
	return actions
}

// tidyEvery is how often old finished runs are removed.
const tidyEvery = 10 * time.Minute

// retention of a finished run whose flow sets none.
var retention = runtype.Retention{}

// retained returns how long the runs of a flow are kept.
func (m *WfManager) retained(name string) runtype.Retention {
	if flow := m.flow(name); flow != nil && flow.Retention != nil {
		return *flow.Retention
	}
	return retention
}

// retentionDue reports whether it is time to remove old runs, and starts the next interval.
func (m *WfManager) retentionDue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.tidied) < tidyEvery {
		return false
	}
	m.tidied = time.Now()
	return true
}

// subject returns the subject of a resource: type/namespace/name, and its uid if it has one.
func (m *WfManager) subject(resource statemachine.StateResource) string {
	subject := m.ResourceType + "/" + resource.GetNamespace() + "/" + resource.GetName()
	if kube, ok := resource.(IKubeResource); ok && kube.GetResource() != nil {
		if uid := kube.GetResource().GetUID(); uid != "" {
			subject += "/" + string(uid)
		}
	}
	return subject
}

// storeOf returns the store of the runs of a resource.
func (m *WfManager) storeOf(resource statemachine.StateResource) (runstore.Store, error) {
	if m.createStorage == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.memory = cmp.Or[runstore.Store](m.memory, runstore.NewMemory())
		return m.memory, nil
	}
	storage, err := m.createStorage(resource)
	if err != nil {
		return nil, err
	}
	if maintainer, ok := storage.(maintainer); ok {
		return maintainer.store(m, resource)
	}
	m.mu.Lock()
	if m.mementos == nil {
		m.mementos = newMementos(m)
	}
	shelves := m.mementos
	m.mu.Unlock()
	if err := shelves.add(resource, storage); err != nil {
		return nil, err
	}
	return shelves, nil
}
