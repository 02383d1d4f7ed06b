package foundationdb

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// change is what a verb is about to do.
type change struct {
	object string   // what it does it to: FoundationDBCluster/ns/name
	found  []string // what was found before
	does   []string // what will happen
	lost   []string // what may be lost
	// ref and edit change a spec; steps are done in this order, each of which can be done again; do does anything else.
	steps []step
	ref   control.Ref
	edit  func(o *control.Object, spec map[string]any) error
	do    func(ctx context.Context) (done string, err error)
}

// step is a part of a change that is told by itself.
type step struct {
	name string
	do   func(ctx context.Context) (done string, err error)
}

// Told is a change in the answer of a verb.
type Told struct {
	Object  string   `json:"object"`
	Found   []string `json:"found,omitempty"`
	Does    []string `json:"does"`
	MayLose []string `json:"mayLose,omitempty"`
	Changed bool     `json:"changed"`         // false: --dry-run
	Steps   []string `json:"steps,omitempty"` // that were done
	Result  string   `json:"result,omitempty"`
}

// carryOut says what changes do, asks, and does them.
func (a verbs) carryOut(ctx context.Context, s *source, changes []change, how cli.Confirmation) error {
	for _, c := range changes {
		a.Say("%s", c.object)
		for _, line := range slices.Concat(c.found, c.does) {
			a.Say("  %s", line)
		}
		for _, line := range c.lost {
			a.Say("  may be lost: %s", line)
		}
	}
	all := make([]Told, len(changes))
	for i, c := range changes {
		all[i] = Told{Object: c.object, Found: c.found, Does: c.does, MayLose: c.lost}
	}
	if how.Dry {
		a.Say("dry run: nothing was changed")
		return a.tell(all)
	}
	if s.backend == nil {
		return cli.Usage.Errorf("files are not changed: --objects is for --dry-run")
	}
	if err := a.Confirm(how); err != nil {
		return err
	}
	for i, c := range changes {
		result := "changed"
		var err error
		switch {
		case len(c.steps) > 0:
			all[i].Steps, err = a.walk(ctx, c.steps)
		case c.do != nil:
			result, err = c.do(ctx)
		default:
			_, err = control.Modify(ctx, s.objects, c.ref, func(o *control.Object) error { return editSpec(o, c.edit) })
		}
		if err != nil {
			return err
		}
		all[i].Changed, all[i].Result = true, result
		a.Say("%s %s", c.object, result)
	}
	return a.tell(all)
}

// walk does steps one after the other, and tells each.
func (a verbs) walk(ctx context.Context, steps []step) (told []string, err error) {
	for i, s := range steps {
		done, err := s.do(ctx)
		if err != nil {
			return told, fault.Of(err).Errorf("step %d of %d, %s: %s", i+1, len(steps), s.name, fault.Message(err))
		}
		told = append(told, done)
		a.Say("  %d/%d %s", i+1, len(steps), done)
	}
	return told, nil
}

// tell prints changes for programs; people have read them already.
func (a verbs) tell(all []Told) error {
	if a.IsText() {
		return nil
	}
	return a.Emit(cli.ListOf(all), cli.NamesOf(all, func(t Told) string { return t.Object }), nil)
}

// editSpec changes the spec of an object as a map, so that fields which this program does not know stay.
func editSpec(o *control.Object, change func(o *control.Object, spec map[string]any) error) error {
	spec := map[string]any{}
	if len(o.Spec) > 0 {
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return err
		}
	}
	if err := change(o, spec); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	o.Spec = text
	return err
}

// inside is an object in an object, which is made if it is not there.
func inside(o map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := o[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[key] = next
		}
		o = next
	}
	return o
}

// addTo adds texts to a list that do not stand in it.
func addTo[T ~string](o map[string]any, key string, texts []T) {
	list, _ := o[key].([]any)
	known := map[any]bool{}
	for _, one := range list {
		known[one] = true
	}
	for _, text := range texts {
		if !known[string(text)] {
			list = append(list, string(text))
		}
	}
	o[key] = list
}

// takeFrom removes texts from a list, and the list when it is empty.
func takeFrom[T ~string](o map[string]any, key string, texts []T) {
	list, _ := o[key].([]any)
	var left []any
	for _, one := range list {
		keep := true
		for _, text := range texts {
			keep = keep && one != string(text)
		}
		if keep {
			left = append(left, one)
		}
	}
	if len(left) == 0 {
		delete(o, key)
		return
	}
	o[key] = left
}
