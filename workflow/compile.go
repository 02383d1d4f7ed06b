package workflow

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Limits of a flow.
const (
	maxGroupDepth = 16
	maxSteps      = 10_000
	maxChildDepth = 8
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)
	// A group that is used again without a name of its own becomes Name#2, Name#3.
	stepPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}(#[1-9][0-9]{0,4})?$`)
)

type nodeKind uint8

const (
	leafNode     nodeKind = iota // Do, Uses or Wait
	childNode                    // Flow
	groupNode                    // children in order
	parallelNode                 // children side by side
	loopNode                     // body once per item
	bracketNode                  // open, body, close
)

// node is one step of a compiled flow.
type node struct {
	step   *Step
	kind   nodeKind
	path   string // path in the definition: the instance name without the keys of loops
	loop   bool   // within a loop: the instance name has keys
	index  int    // index among its siblings
	parent *node

	children          []*node
	body, open, close *node
	virtual           bool // the body of a loop or bracket: it has neither a record nor a name of its own

	do, undo Func
	missing  string // name of an action that is not registered
	opens    bool   // the step is the open of a bracket
	closes   bool   // the step is the close of a bracket
	finally  bool
}

// plan is a compiled flow.
type plan struct {
	flow    *Flow
	hash    string
	body    *node
	finally *node
	nodes   map[string]*node // by path in the definition
	count   int
	limited bool   // it has limits of steps, or a rate
	data    []byte // canonical definition
}

// node returns the node of an instance name.
func (p *plan) node(instance string) *node {
	if n, ok := p.nodes[instance]; ok {
		return n
	}
	n := p.nodes[stripKeys(instance)]
	if n != nil && n.kind == loopNode && strings.HasSuffix(instance, "]") {
		return n.body
	}
	return n
}

func stripKeys(instance string) string {
	if !strings.Contains(instance, "[") {
		return instance
	}
	var b strings.Builder
	inside := false
	for _, c := range instance {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case !inside:
			b.WriteRune(c)
		}
	}
	return b.String()
}

type compiler struct {
	plan    *plan
	actions map[string]Action
	errs    []error
}

// compile checks and compiles a flow. It joins all errors. A missing action is an error unless
// lenient is set; then the step fails with ACTION_MISSING when the run reaches it.
func compile(flow *Flow, actions map[string]Action, lenient bool) (*plan, error) {
	c := &compiler{plan: &plan{flow: flow, nodes: map[string]*node{}}, actions: actions}
	if !namePattern.MatchString(flow.Name) {
		c.fail("", "the flow's name %q does not match %s", flow.Name, namePattern)
	}
	if len(flow.Steps) == 0 {
		c.fail("", "the flow has no steps")
	}
	if wrong := checkRunLimits(flow.Limits); wrong != "" {
		c.fail("", "%s", wrong)
	}
	c.plan.body = &node{kind: groupNode, step: &Step{}, virtual: true}
	c.plan.body.children = c.steps(flow.Steps, c.plan.body, "", 0)
	c.plan.finally = &node{kind: groupNode, step: &Step{}, virtual: true, finally: true}
	c.plan.finally.children = c.steps(flow.Finally, c.plan.finally, "", 0)
	for _, n := range c.plan.nodes {
		if n.missing != "" && !lenient {
			c.fail(n.path, "uses the action %q, which is not registered", n.missing)
		}
	}
	if c.plan.count > maxSteps {
		c.fail("", "the flow has %d steps, the limit is %d", c.plan.count, maxSteps)
	}
	c.plan.limited = c.plan.usesStepLimits()
	if len(c.errs) > 0 {
		return nil, FlowInvalid.Errorf("%w", errors.Join(c.errs...))
	}
	var err error
	if c.plan.data, c.plan.hash, err = canonical(flow); err != nil {
		return nil, FlowInvalid.Errorf("%w", err)
	}
	return c.plan, nil
}

func (c *compiler) fail(path, format string, args ...any) {
	where := c.plan.flow.Name
	if path != "" {
		where += ": " + path
	}
	c.errs = append(c.errs, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

func (c *compiler) steps(steps []Step, parentNode *node, path string, depth int) []*node {
	if depth > maxGroupDepth {
		c.fail(path, "structures are nested deeper than %d", maxGroupDepth)
		return nil
	}
	children := make([]*node, 0, len(steps))
	for i := range steps {
		n := c.step(&steps[i], parentNode, path, depth)
		n.index = i
		children = append(children, n)
	}
	return children
}

func (c *compiler) step(step *Step, parentNode *node, path string, depth int) *node {
	c.plan.count++
	n := &node{step: step, parent: parentNode, path: join(path, step.Name), loop: parentNode.loop, finally: parentNode.finally}
	if !stepPattern.MatchString(step.Name) {
		c.fail(path, "the step's name %q does not match %s", step.Name, namePattern)
	}
	if other := c.plan.nodes[n.path]; other != nil {
		c.fail(n.path, "two steps have this name")
	}
	c.plan.nodes[n.path] = n
	c.check(n)
	if step.ForEach == nil {
		c.compileKind(n, depth)
		return n
	}
	n.kind = loopNode
	if step.ForEach.List == nil {
		c.fail(n.path, "forEach has no list")
	}
	inner := *step
	inner.ForEach, inner.When = nil, nil
	n.body = &node{step: &inner, parent: n, path: n.path, loop: true, virtual: true, finally: n.finally}
	c.compileKind(n.body, depth)
	return n
}

// compileKind sets the kind of a step and compiles the steps inside.
func (c *compiler) compileKind(n *node, depth int) {
	s := n.step
	kinds := 0
	for _, is := range []bool{s.Do != nil, s.Uses != "", s.Flow != "", s.Steps != nil, s.Wait != nil && s.Do == nil && s.Uses == "" && s.Flow == "" && s.Steps == nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		c.fail(n.path, "a step is exactly one of: an action, a wait, a flow, steps")
		return
	}
	if wrong := checkStepLimits(s.Limits); wrong != "" {
		c.fail(n.path, "%s", wrong)
	} else if len(s.Limits) > 0 && s.Do == nil && s.Uses == "" {
		c.fail(n.path, "limits are those of an action: this step calls nothing")
	}
	switch {
	case s.Open != nil || s.Close != nil:
		c.bracket(n, depth)
	case s.Steps != nil:
		n.kind = groupNode
		if s.Parallel > 0 {
			n.kind = parallelNode
		}
		n.children = c.steps(s.Steps, n, n.path, depth+1)
		if len(n.children) == 0 {
			c.fail(n.path, "it has no steps")
		}
	case s.Flow != "":
		n.kind = childNode
	default:
		c.bind(n)
	}
}

func (c *compiler) bracket(n *node, depth int) {
	s := n.step
	n.kind = bracketNode
	if s.Open == nil || s.Close == nil || s.Steps == nil {
		c.fail(n.path, "a bracket has open, close and steps")
		return
	}
	n.open = c.step(s.Open, n, n.path, depth+1)
	n.close = c.step(s.Close, n, n.path, depth+1)
	n.open.opens, n.close.closes = true, true
	for _, end := range []*node{n.open, n.close} {
		if end.kind != leafNode {
			c.fail(end.path, "the open and close of a bracket are single steps")
		}
	}
	inner := *s
	inner.Open, inner.Close, inner.When = nil, nil, nil
	n.body = &node{step: &inner, parent: n, path: n.path, loop: n.loop, virtual: true, finally: n.finally}
	c.compileKind(n.body, depth)
}

func (c *compiler) bind(n *node) {
	s := n.step
	n.kind = leafNode
	n.do, n.undo = s.Do, s.Undo
	if s.Uses != "" {
		if action, ok := c.actions[s.Uses]; ok {
			n.do = action.Do
		} else {
			n.missing = s.Uses
		}
	}
	if n.do == nil && s.Wait != nil {
		n.do = waitOnly
	}
	if s.UndoCall != nil {
		if action, ok := c.actions[s.UndoCall.Uses]; ok {
			n.undo = action.Do
		} else {
			n.missing = s.UndoCall.Uses
			missing := s.UndoCall.Uses
			n.undo = func(context.Context, *Task) outcome.Outcome {
				return outcome.Fail(ActionMissing.Errorf("the undo uses %q", missing))
			}
		}
	}
}

func (c *compiler) check(n *node) {
	s := n.step
	for _, r := range []struct {
		bad  bool
		what string
	}{
		{s.Retry.Attempts < 0, "retry.attempts is negative"},
		{s.Retry.First < 0 || s.Retry.Longest < 0, "a retry delay is negative"},
		{s.Retry.Factor != 0 && s.Retry.Factor < 1, "retry.factor is below 1"},
		{s.Retry.Jitter > 1, "retry.jitter is above 1"},
		{s.Timeout < 0 || s.Heartbeat < 0 || s.Grace < 0, "a duration is negative"},
		{s.MaxOutput < 0 || s.MaxOutput > runtype.MaxOutputRaised, "maxOutput is not between 0 and 262144"},
		{s.Parallel < 0, "parallel is negative"},
		{s.ForEach != nil && s.ForEach.Max < 0, "forEach.max is negative"},
	} {
		if r.bad {
			c.fail(n.path, "%s", r.what)
		}
	}
}

// waitOnly is the function of a step that is only a wait block. The engine calls it when the wait
// is over.
func waitOnly(context.Context, *Task) outcome.Outcome { return outcome.Done() }

func (n *node) timeout() (timeout, grace, heartbeat int64) {
	t, g := n.step.Timeout, n.step.Grace
	if t == 0 {
		t = defaultTimeout
	}
	if g == 0 {
		g = defaultGrace
	}
	return int64(t), int64(g), int64(n.step.Heartbeat)
}
