package testfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/workflowtest"
)

// Options of a load.
type Options struct {
	Actions []workflow.Action // the actions that there are; a case replaces them, or allows them with real
	Check   bool              // only check the files: the faults of the flows are not registered
}

// Suite is a loaded file of tests with the flows of its folder.
type Suite struct {
	File  string
	Cases []*Case

	flows   *flowfile.Set
	steps   []string // names of steps that execute a function, of all flows
	used    []string // names of actions that the flows use
	options Options
}

// waits are the actions that reach nothing outside of the run. They need no replacement.
var waits = []string{"sleep", "signal", "approval"}

// Load reads a file of tests and the flows beside it. An error about the content of a file is
// [flowfile.Problems].
func Load(path string, options Options) (*Suite, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reader, root := flowfile.NewReader(flowfile.File{Name: path, Data: data})
	if root == nil {
		return nil, reader.Problems()
	}
	d := decoder{reader}
	doc := d.document(root)
	set, err := flowfile.Load([]string{filepath.Dir(path)}, flowfile.Options{Actions: options.Actions, AnyAction: true, Check: options.Check})
	if err != nil {
		if found := reader.Problems(); len(found) > 0 {
			return nil, found
		}
		return nil, err
	}
	s := &Suite{File: path, Cases: doc.cases, flows: set, options: options}
	for _, f := range set.Flows() {
		s.steps = append(s.steps, workflowtest.StepNames(f)...)
		s.used = appendUses(s.used, f.Steps)
		s.used = appendUses(s.used, f.Finally)
	}
	for _, c := range s.Cases {
		s.check(d, c)
	}
	if found := reader.Problems(); len(found) > 0 {
		return nil, found
	}
	return s, nil
}

func appendUses(used []string, steps []workflow.Step) []string {
	add := func(name string) {
		if name != "" && !slices.Contains(used, name) {
			used = append(used, name)
		}
	}
	for _, s := range steps {
		add(s.Uses)
		if s.UndoCall != nil {
			add(s.UndoCall.Uses)
		}
		for _, end := range []*workflow.Step{s.Open, s.Close} {
			if end != nil {
				used = appendUses(used, []workflow.Step{*end})
			}
		}
		used = appendUses(used, s.Steps)
	}
	return used
}

// check reports what does not fit to the flows.
func (s *Suite) check(d decoder, c *Case) {
	var names []string
	for _, f := range s.flows.Flows() {
		names = append(names, f.Name)
	}
	switch {
	case c.flow != nil && !slices.Contains(names, c.flow.Value):
		d.Problem(c.flow, "there is no flow %q beside this file%s", c.flow.Value, flowfile.Hint(c.flow.Value, names))
	case c.flow == nil && s.flowName(c) == "":
		d.Problem(c.at, "the case names no flow, and there are %d beside this file: add flow", len(names))
	}
	known := slices.Concat(s.steps, s.used)
	for _, r := range c.actions {
		if name := r.key.Value; !slices.Contains(s.used, name) && !slices.Contains(s.steps, workflowtest.WithoutItems(name)) {
			d.Problem(r.key, "the flows have neither a step nor an action %q%s", name, flowfile.Hint(name, known))
		}
		for _, t := range r.tries {
			if t.fault != "" && !s.declared(t.fault) {
				d.Problem(t.at, "fault %s is not declared: declare it in a *_faults.yaml", t.fault)
			}
		}
	}
	for _, name := range c.real {
		switch {
		case name == "http" || name == "status":
			d.Problem(c.at, "%s cannot be real in a test, which has neither network nor objects: replace it under actions", name)
		case !slices.ContainsFunc(s.options.Actions, func(a workflow.Action) bool { return a.Name == name }):
			d.Problem(c.at, "real names %q, which is no action of this program", name)
		}
	}
}

func (s *Suite) declared(code string) bool {
	if _, ok := fault.Lookup(code); ok {
		return true
	}
	return slices.ContainsFunc(s.flows.Faults(), func(k fault.Kind) bool { return string(k.Code) == code })
}

// flowName is the flow of a case: the named one, that of the flow file with the name of this file, or
// the only one.
func (s *Suite) flowName(c *Case) string {
	if c.flow != nil {
		return c.flow.Value
	}
	ext := filepath.Ext(s.File)
	beside := s.flows.In(strings.TrimSuffix(s.File, "_test"+ext) + ext)
	if len(beside) == 1 {
		return beside[0].Name
	}
	if all := s.flows.Flows(); len(all) == 1 {
		return all[0].Name
	}
	return ""
}

// Lint returns what is wrong with a file of tests. It executes nothing.
func Lint(path string, actions []workflow.Action) (flowfile.Problems, error) {
	_, err := Load(path, Options{Actions: actions, Check: true})
	found, ok := err.(flowfile.Problems)
	if ok {
		return slices.DeleteFunc(found, func(p flowfile.Problem) bool { return p.File != path }), nil
	}
	return nil, err
}

func (s *Suite) problem(n *yaml.Node, format string, args ...any) flowfile.Problem {
	return flowfile.Problem{File: s.File, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
}
