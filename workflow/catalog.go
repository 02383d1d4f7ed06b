package workflow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/internal/lease"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// catalog holds the definitions of an engine: the loaded flows and healers, and the older flows that
// runs still use.
type catalog struct {
	store    runstore.Store
	actions  map[string]Action
	compile  func(source []byte) (Flow, error) // Options.Compile
	defining lease.Mutex                       // held while a definition is stored

	mu      sync.Mutex
	flows   map[flowKey]*plan
	healers map[fault.Code]Healer
	stored  map[string]*plan // older definitions that runs still use, by hash
	known   map[string]bool  // hashes of the definitions that the store has
}

func (c *catalog) loadedHealers() map[fault.Code]Healer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.healers
}

// load replaces the flows and the healers, or changes nothing if one of them is invalid.
func (c *catalog) load(flows []Flow, healers map[fault.Code]Healer) error {
	plans := make(map[flowKey]*plan, len(flows))
	var errs []error
	for i := range flows {
		p, err := compile(&flows[i], c.actions, false)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		key := keyOf(flows[i])
		if plans[key] != nil {
			errs = append(errs, FlowInvalid.Errorf("two flows are named %s", key))
		}
		plans[key] = p
	}
	errs = append(errs, checkChildren(plans)...)
	for code, h := range healers {
		if wrong := checkStepLimits(h.StepLimits); wrong != "" {
			errs = append(errs, FlowInvalid.Errorf("the healer of %s: %s", code, wrong))
		}
		if h.Do == nil && plans[flowKey{name: h.Flow}] == nil {
			errs = append(errs, FlowInvalid.Errorf("the healer of %s uses the flow %q, which is not loaded", code, h.Flow))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flows, c.healers = plans, healers
	clear(c.stored) // they hold functions of the flows that were just replaced
	return nil
}

// checkChildren reports sub-flows that are not loaded, nested too deeply, or cyclic.
func checkChildren(plans map[flowKey]*plan) []error {
	var errs []error
	uses := func(p *plan) []string {
		var names []string
		for _, path := range slices.Sorted(maps.Keys(p.nodes)) {
			if n := p.nodes[path]; n.step.Flow != "" {
				names = append(names, n.step.Flow)
			}
		}
		return names
	}
	for _, key := range sortedKeys(plans) {
		name := key.String()
		var visit func(flow string, path []string) bool
		visit = func(flow string, path []string) bool {
			p := planFor(plans, flow, key.kind)
			if slices.Contains(path, flow) {
				errs = append(errs, FlowInvalid.Errorf("%s: its sub-flows form a cycle: %s", name, strings.Join(append(path, flow), " > ")))
				return false
			}
			if p == nil {
				errs = append(errs, FlowInvalid.Errorf("%s: the sub-flow %q is not loaded", path[len(path)-1], flow))
				return false
			}
			if len(path) > maxChildDepth {
				errs = append(errs, FlowInvalid.Errorf("%s: sub-flows are nested deeper than %d", name, maxChildDepth))
				return false
			}
			for _, child := range uses(p) {
				if !visit(child, append(slices.Clone(path), flow)) {
					return false
				}
			}
			return true
		}
		visit(key.name, nil)
	}
	return errs
}

func (c *catalog) loadedFlows() []Flow {
	c.mu.Lock()
	defer c.mu.Unlock()
	var flows []Flow
	for _, key := range sortedKeys(c.flows) {
		flows = append(flows, *c.flows[key].flow)
	}
	return flows
}

// loadedPlan returns the flow for a subject; nil: there is none.
func (c *catalog) loadedPlan(flow, subject string) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return planFor(c.flows, flow, kindOf(subject))
}

// planNamed returns the flow with a name, or with kind/name: the one for all kinds, else the first.
func (c *catalog) planNamed(flow string) *plan {
	kind := ""
	if before, after, ok := strings.Cut(flow, "/"); ok {
		kind, flow = before, after
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := planFor(c.flows, flow, kind); p != nil || kind != "" {
		return p
	}
	for _, key := range sortedKeys(c.flows) {
		if key.name == flow {
			return c.flows[key]
		}
	}
	return nil
}

// limitOf returns the limit of concurrent attempts of a flow; 0: no limit.
func (c *catalog) limitOf(flow string) int {
	if p := c.planNamed(flow); p != nil {
		return p.flow.Limit
	}
	return 0
}

// define stores the definition of a flow, once per hash.
func (c *catalog) define(ctx context.Context, p *plan) error {
	definitions, ok := c.store.(runstore.Definitions)
	known := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.known[p.hash]
	}
	if !ok || known() {
		return nil
	}
	if err := c.defining.Lock(ctx); err != nil { // concurrent first runs store it only once
		return err
	}
	defer c.defining.Unlock()
	if known() {
		return nil
	}
	err := definitions.PutDefinition(ctx, runstore.Definition{Hash: p.hash, Flow: p.flow.Name, Version: p.flow.Version, Data: p.data, Source: p.flow.Source})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[p.hash] = true
	return nil
}

// planOf returns the definition that a run is executed with: the loaded one if the content hash is
// the same, else the one that onChange selects.
func (c *catalog) planOf(ctx context.Context, r *runtype.Run) (*plan, *fault.Error) {
	loaded := c.loadedPlan(r.Flow, r.Subject)
	if loaded != nil && (loaded.hash == r.Hash || r.Hash == "") {
		return loaded, nil
	}
	if loaded == nil {
		return c.storedPlan(ctx, r, nil)
	}
	if r.Phase.Final() {
		return loaded, nil
	}
	change := loaded.flow.OnChange
	switch {
	case r.State.Chosen == "old":
		return c.storedPlan(ctx, r, loaded)
	case r.State.Chosen == "new", change == ChangeMigrate:
		err := migrate(r, loaded)
		if err == nil {
			if err := c.define(ctx, loaded); err != nil {
				return loaded, runstore.StoreUnavailable.Errorf("%w", err)
			}
			return loaded, nil
		}
		return loaded, FlowChanged.Errorf("the run has definition %.12s, loaded is %.12s: %w", r.Hash, loaded.hash, err).With("old", r.Hash).With("new", loaded.hash)
	case change == ChangePause:
		return loaded, FlowChanged.Errorf("the run has definition %.12s, loaded is %.12s", r.Hash, loaded.hash).With("old", r.Hash).With("new", loaded.hash)
	default:
		return c.storedPlan(ctx, r, loaded)
	}
}

// storedPlan compiles a stored definition.
func (c *catalog) storedPlan(ctx context.Context, r *runtype.Run, loaded *plan) (*plan, *fault.Error) {
	c.mu.Lock()
	p := c.stored[r.Hash]
	c.mu.Unlock()
	if p != nil && (len(p.flow.Source) > 0 || loaded != nil) {
		return p, nil
	}
	definitions, ok := c.store.(runstore.Definitions)
	if !ok {
		return nil, FlowMissing.Errorf("flow %s (definition %.12s) is not loaded, and the store keeps no definitions", r.Flow, r.Hash)
	}
	d, err := definitions.Definition(ctx, r.Hash)
	if err != nil && !errors.Is(err, runstore.ErrNotFound) {
		return nil, runstore.StoreUnavailable.Errorf("%w", err)
	}
	if err != nil {
		return nil, FlowMissing.Errorf("flow %s: definition %.12s: %w", r.Flow, r.Hash, err)
	}
	var flow *Flow
	switch {
	case len(d.Source) > 0 && c.compile != nil:
		compiled, err := c.compile(d.Source)
		if err != nil {
			return nil, FlowMissing.Errorf("flow %s: its stored definition does not compile: %w", r.Flow, err)
		}
		flow = &compiled
	case loaded != nil:
		if flow, err = rebuild(d.Data, loaded.flow); err != nil {
			return nil, FlowMissing.Errorf("flow %s: %w", r.Flow, err)
		}
	default:
		return nil, FlowMissing.Errorf("flow %s is written in Go and not loaded", r.Flow)
	}
	if p, err = compile(flow, c.actions, true); err != nil {
		var f *fault.Error
		errors.As(err, &f)
		return nil, FlowMissing.Errorf("flow %s: its stored definition: %w", r.Flow, f)
	}
	p.hash = r.Hash
	c.mu.Lock()
	c.stored[r.Hash] = p
	c.mu.Unlock()
	return p, nil
}
