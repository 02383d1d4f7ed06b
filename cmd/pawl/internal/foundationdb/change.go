package foundationdb

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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

// confirmation says whether a verb asks before it changes something.
type confirmation struct{ yes, dry bool }

func (c *confirmation) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "say what would be done, and do nothing")
}

// carryOut says what changes do, asks, and does them.
func (a verbs) carryOut(ctx context.Context, s *source, changes []change, how confirmation) error {
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
	if how.dry {
		a.Say("dry run: nothing was changed")
		return a.tell(all)
	}
	if s.backend == nil {
		return cli.Usage.Errorf("files are not changed: --objects is for --dry-run")
	}
	if err := a.confirm(how); err != nil {
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

// confirm asks on a terminal. Without one only -y lets a change pass.
func (a verbs) confirm(how confirmation) error {
	if how.yes {
		return nil
	}
	in, isFile := a.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) || !a.IsText() { //nolint:gosec // a file descriptor
		return Unconfirmed.Errorf("nothing was changed: there is no terminal to ask on")
	}
	fmt.Fprint(a.Err, "go on? [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return Unconfirmed.Errorf("nothing was changed: the answer was no")
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
