package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// Admit checks manifests before anything is stored: their kinds are served, and
// their specs fit the schemas of their machines. Every finding names file, line and column.
func Admit(ctx context.Context, b backend.Backend, manifests []Manifest) error {
	kinds, err := b.Served(ctx)
	if err != nil {
		return err
	}
	if len(kinds) == 0 { // nobody says what is served: what is known of this program's own kinds is checked
		manifests = slices.DeleteFunc(slices.Clone(manifests), func(m Manifest) bool { return !backend.IsOwn(m.Object.Kind) })
		kinds = backend.OwnKinds()
	}
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	var problems flowfile.Problems
	for _, m := range manifests {
		k, refused := driver.Serves(kinds, m.Object.Kind)
		if refused != nil {
			_, err := objects.Get(ctx, m.Object.Ref)
			switch {
			case err == nil: // it was stored before: it may be changed
			case fault.Of(err) == control.NotFound:
				problems = append(problems, m.problem(m.kind, fault.Message(refused)))
			default:
				return err
			}
			continue
		}
		if k.Schema == nil {
			continue
		}
		spec := m.Object.Spec
		if spec == nil {
			spec = []byte("{}")
		}
		for _, found := range splitErrors(k.Schema.Check(spec)) {
			at, what := m.spec, found.Error()
			var placed interface{ Path() []string }
			if errors.As(found, &placed) {
				at = nodeAt(m.spec, placed.Path())
				what = "spec." + what
				if len(placed.Path()) == 0 {
					what = "spec: " + found.Error()
				}
			}
			problems = append(problems, m.problem(at, what))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	problems.Sort()
	return problems
}

func (m Manifest) problem(at *yaml.Node, message string) flowfile.Problem {
	p := flowfile.Problem{File: m.File, Line: m.Line, Column: 1, Message: strings.ReplaceAll(message, "\n", " ")}
	if at != nil {
		p.Line, p.Column = at.Line, at.Column
	}
	return p
}

// SpecProblem is a finding at a path of the spec: at its nearest existing value.
func (m Manifest) SpecProblem(path []string, message string) flowfile.Problem {
	return m.problem(nodeAt(m.spec, path), message)
}

// splitErrors splits an error into its findings.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// nodeAt returns the value at a path, or its nearest existing ancestor. For an
// unknown key it returns the key itself.
func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	for i, step := range path {
		if n == nil {
			return nil
		}
		next := n
		switch n.Kind {
		case yaml.MappingNode:
			for j := 0; j+1 < len(n.Content); j += 2 {
				if n.Content[j].Value == step {
					next = n.Content[j+1]
					if i == len(path)-1 {
						return n.Content[j+1]
					}
				}
			}
		case yaml.SequenceNode:
			var at int
			if _, err := fmt.Sscan(step, &at); err == nil && at >= 0 && at < len(n.Content) {
				next = n.Content[at]
			}
		}
		if next == n {
			return n
		}
		n = next
	}
	return n
}
