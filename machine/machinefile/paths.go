package machinefile

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/pawl-dev/pawl/machine"
)

// presence is the last part of a path that is only asked whether it is there: has(object.status.members).
const presence = "has()"

// paths are places of object, old and now that expressions read: object, spec, members.
type paths [][]string

// readsOf finds what an expression reads. A place that depends on a value, as
// object.spec[x] does, counts as all that it may be.
func readsOf(e ast.Expr) paths {
	var found paths
	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		if path, whole := chain(e); len(path) > 0 {
			found = append(found, path)
			if whole {
				return
			}
		}
		switch e.Kind() {
		case ast.SelectKind:
			walk(e.AsSelect().Operand())
		case ast.CallKind:
			call := e.AsCall()
			if call.IsMemberFunction() {
				walk(call.Target())
			}
			for _, arg := range call.Args() {
				walk(arg)
			}
		case ast.ListKind:
			for _, item := range e.AsList().Elements() {
				walk(item)
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				walk(entry.AsMapEntry().Key())
				walk(entry.AsMapEntry().Value())
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
				walk(part)
			}
		}
	}
	walk(e)
	return found
}

// chain is the place that an expression names, if it begins at a variable.
// whole: nothing else is read in it.
func chain(e ast.Expr) (path []string, whole bool) {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "object" || name == "old" || name == "now" {
			return []string{name}, true
		}
	case ast.SelectKind:
		if path, whole := chain(e.AsSelect().Operand()); whole {
			path = append(slices.Clone(path), e.AsSelect().FieldName())
			if e.AsSelect().IsTestOnly() {
				path = append(path, presence)
			}
			return path, true
		}
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.OptSelect, operators.Index, operators.OptIndex:
		default:
			return nil, false
		}
		path, whole := chain(call.Args()[0])
		if !whole || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, false
		}
		if key, ok := call.Args()[1].AsLiteral().(types.String); ok {
			return append(slices.Clone(path), string(key)), true
		}
		return path, true // an element of a list: the list counts
	}
	return nil, false
}

// tidyPaths puts them in order, each once.
func tidyPaths(all paths) paths {
	out := slices.Clone(all)
	slices.SortFunc(out, slices.Compare[[]string])
	return slices.CompactFunc(out, slices.Equal[[]string])
}

// within keeps what lies in a place; what holds the place counts as the place itself.
func (p paths) within(place ...string) paths {
	out := paths{}
	for _, path := range p {
		switch {
		case len(path) < len(place) && slices.Equal(path, place[:len(path)]):
			out = append(out, place)
		case len(path) >= len(place) && slices.Equal(path[:len(place)], place):
			out = append(out, path)
		}
	}
	return tidyPaths(out)
}

// fixed reports places that the work of a state does not change: none of status, old and now.
func (p paths) fixed() bool {
	return !slices.ContainsFunc(p, func(path []string) bool {
		return path[0] != "object" || len(path) < 2 || path[1] == "status" ||
			path[1] == "metadata" && (len(path) < 3 || !slices.Contains([]string{"name", "namespace", "uid", "createdAt", "generation"}, path[2]))
	})
}

// values gives what stands at the places: by the place, null where nothing does.
// The time of a pass, and what the driver keeps, are left out.
func (p paths) values(s *machine.Subject) (any, error) {
	object, old, err := s.Values()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, path := range p {
		var at any
		switch path[0] {
		case "object":
			at = object
		case "old":
			at = old
		default:
			continue
		}
		for i, key := range path[1:] {
			if key == presence {
				at = at != nil
				break
			}
			fields, ok := at.(map[string]any)
			if !ok {
				at = nil
				break
			}
			if at = fields[key]; i == 0 && key == "status" && len(path) == 2 {
				at = withoutDriverKeys(at)
			}
		}
		if len(path) == 1 && path[0] == "object" {
			all := map[string]any{"kind": object["kind"], "metadata": object["metadata"], "spec": object["spec"], "status": withoutDriverKeys(object["status"])}
			at = all
		}
		out[strings.Join(path, ".")] = at
	}
	return out, nil
}

// free is a status without what the driver keeps in it.
func withoutDriverKeys(status any) any {
	fields, ok := status.(map[string]any)
	if !ok {
		return status
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		if !slices.Contains(machine.StatusKeys, key) {
			out[key] = value
		}
	}
	return out
}
