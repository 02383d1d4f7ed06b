package look

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// waitAtMost is how long wait waits without --timeout.
const waitAtMost = 30 * time.Minute

// aim is what wait waits for: phase=Paused, condition=Ready=False, deleted, rest.
type aim struct{ what, name, value string }

var aims = []string{"rest", "deleted", "phase=Paused", "phase=Succeeded", "phase=Cancelled", "state=", "condition=Ready", "condition=Ready=False"}

// phases are those that a run can be in.
var phases = []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting, runtype.Paused, runtype.Cancelling, runtype.Cancelled, runtype.Succeeded}

func aimOf(text string, run bool) (aim, error) {
	what, name, named := strings.Cut(text, "=")
	to := aim{what: what, name: name}
	if what == "condition" {
		to.name, to.value, _ = strings.Cut(name, "=")
		if to.value == "" {
			to.value = "True"
		}
	}
	plain := what == "rest" || what == "deleted" && !run
	keyed := what == "phase" || !run && (what == "state" || what == "condition")
	if !(plain && !named || keyed && to.name != "") {
		if run {
			return aim{}, cli.Usage.Errorf("--for=%s: for a run write rest or phase=PHASE", text)
		}
		return aim{}, cli.Usage.Errorf("--for=%s: for an object write condition=TYPE[=STATUS], state=STATE, rest or deleted", text)
	}
	if run && what == "phase" && !slices.ContainsFunc(phases, func(p runtype.Phase) bool { return strings.EqualFold(string(p), name) }) {
		return aim{}, cli.Usage.Errorf("--for=%s: %q is no phase of a run: they are %v", text, name, phases)
	}
	return to, nil
}

// awaited is how the wait for one name stands.
type awaited struct {
	Name   string `json:"name"`
	For    string `json:"for"`
	Met    bool   `json:"met"`
	State  string `json:"state,omitempty"`
	Remedy string `json:"remedy,omitempty"`

	code int // ExitActive: go on
}

func (a verbs) waitCommand() *cobra.Command {
	var namespace, want string
	cmd := &cobra.Command{
		Use: "wait RUN... | KIND NAME... [--for=CONDITION]", Short: "Wait until runs or objects are as asked for",
		Long: `Waits, without working on them, until runs rest or have a phase, or until objects
have a condition or a state, rest or are gone; at most for --timeout, else 30m.

Exit codes: 0 met, 1 it cannot come any more, 3 not yet when the time was over,
4 it needs a remedy first.`,
		Example:           "  pawl wait gk3v\n  pawl wait gk3v x7pd --for=phase=Succeeded --timeout 10m\n  pawl wait etcd c1 --for=state=Running\n  pawl wait etcd c1 --for=deleted",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteRunsOrKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if a.Flags.Timeout == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, waitAtMost)
				defer cancel()
			}
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			return a.waitAll(ctx, b, args, namespace, want)
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the objects (default: default, on Kubernetes that of the context)")
	cmd.Flags().StringVar(&want, "for", "", "`what` to wait for: rest, phase=PHASE, state=STATE, condition=TYPE[=STATUS] or deleted (default rest for a run, condition=Ready for an object)")
	cli.SetCompletions(cmd, map[string]cli.Completion{"for": cli.FixedCompletion(aims...)})
	return cmd
}

// waitAll waits for one name after the other; the first that is not met gives the exit code.
func (a verbs) waitAll(ctx context.Context, b backend.Backend, args []string, namespace, want string) error {
	if len(args) > 1 && !strings.Contains(args[0], "/") {
		_, err := b.Run(ctx, args[0])
		if err != nil && fault.Of(err) != workflow.RunNotFound {
			return err
		}
		if err != nil { // KIND NAME...
			kind := args[0]
			args = slices.Clone(args[1:])
			for i := range args {
				args[i] = kind + "/" + args[i]
			}
		}
	}
	all := struct {
		Items []awaited `json:"items"`
	}{[]awaited{}}
	var names []string
	code := view.ExitDone
	for _, arg := range args {
		ref, object := a.ObjectOf([]string{arg}, namespace)
		text := want
		switch {
		case text != "":
		case object:
			text = "condition=Ready"
		default:
			text = "rest"
		}
		to, err := aimOf(text, !object)
		if err != nil {
			return err
		}
		look := a.runLook(b, arg, to)
		if object {
			if look, err = a.objectLook(b, ref, to); err != nil {
				return err
			}
		}
		w, err := await(ctx, b, look)
		if err != nil {
			return err
		}
		w.For = text
		all.Items = append(all.Items, w)
		if w.Met {
			names = append(names, w.Name)
			a.Say("%s condition met", w.Name)
			continue
		}
		a.Hint("%s is %s, not %s", w.Name, w.State, text)
		if w.code == view.ExitRemedy && w.Remedy != "" {
			a.Hint("  remedy: %s", w.Remedy)
		}
		if code == view.ExitDone {
			code = w.code
		}
	}
	if !a.IsText() {
		if err := a.Emit(all, names, nil); err != nil {
			return err
		}
	}
	return cli.End(code)
}

// await looks whenever something may have changed, until the look says that waiting is over.
func await(ctx context.Context, b backend.Runs, look func(context.Context) (awaited, error)) (awaited, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := b.Changes(watching, "")
	var last awaited
	for {
		w, err := look(ctx)
		if err != nil && last.Name != "" && ctx.Err() != nil {
			return last, nil
		}
		if err != nil || w.code != view.ExitActive {
			return w, err
		}
		last = w
		select {
		case <-ctx.Done():
			return last, nil
		case <-changes:
		}
	}
}

func (a verbs) runLook(b backend.Backend, id string, to aim) func(context.Context) (awaited, error) {
	return func(ctx context.Context) (awaited, error) {
		r, err := b.Run(ctx, id)
		if err != nil {
			return awaited{}, err
		}
		w := awaited{Name: "run/" + view.Short(r.ID), State: string(r.Phase), code: view.ExitActive}
		switch rests := follow.Rests(r); {
		case to.what == "rest" && rests, strings.EqualFold(string(r.Phase), to.name):
			w.Met, w.code = true, view.ExitDone
		case r.Phase.Final():
			w.code = view.ExitFailed
		case rests:
			w.code = view.ExitRemedy
			if r.Fault != nil {
				w.Remedy = r.Fault.Remedy
			}
		}
		return w, nil
	}
}

func (a verbs) objectLook(b backend.Backend, ref control.Ref, to aim) (func(context.Context) (awaited, error), error) {
	objects, err := b.Objects()
	if err != nil {
		return nil, err
	}
	uid := ""
	return func(ctx context.Context) (awaited, error) {
		o, err := objects.Get(ctx, ref)
		gone := errors.Is(err, control.NotFound) || err == nil && uid != "" && o.UID != uid
		switch {
		case gone && to.what == "deleted":
			return awaited{Name: ref.String(), State: "gone", Met: true}, nil
		case gone && uid != "":
			return awaited{Name: ref.String(), State: "gone", code: view.ExitFailed}, nil
		case err != nil:
			return awaited{}, a.Elsewhere(ref.Kind, err)
		}
		uid = o.UID
		s := view.StateOf(o)
		w := awaited{Name: o.Ref.String(), State: s.State, code: view.ExitActive}
		if to.metBy(o) {
			w.Met, w.code = true, view.ExitDone
		} else if follow.NeedsRemedy(ctx, b, o) {
			w.code, w.Remedy = view.ExitRemedy, s.Fault.Remedy
		}
		if w.State == "" {
			w.State = "without a state"
		}
		return w, nil
	}, nil
}

// metBy reports an object that is as asked for. A condition of an older spec does not count.
func (to aim) metBy(o control.Object) bool {
	switch to.what {
	case "rest":
		return view.ExitOfObject(o) == view.ExitDone
	case "phase", "state":
		return strings.EqualFold(view.StateOf(o).State, to.name)
	case "condition":
		var status struct {
			Conditions []struct {
				Type, Status       string
				ObservedGeneration int64
			}
		}
		_ = json.Unmarshal(o.Status, &status) // a status with another form has no conditions
		for _, c := range status.Conditions {
			if strings.EqualFold(c.Type, to.name) {
				return strings.EqualFold(c.Status, to.value) && (c.ObservedGeneration == 0 || c.ObservedGeneration >= o.Generation)
			}
		}
	}
	return false
}
