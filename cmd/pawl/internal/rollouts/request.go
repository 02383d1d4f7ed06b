package rollouts

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// prefix of the annotations of requests, and the label with the name of the Rollout on a workload.
const (
	prefix       = "pawl.dev/"
	rolloutLabel = "pawl.dev/rollout"
)

// answerWithin is how long a verb waits for the answer to a request.
const answerWithin = 15 * time.Second

// open returns the objects of the cluster.
func (a verbs) open(ctx context.Context) (backend.Backend, control.Objects, error) {
	if !a.Target.Kubernetes {
		return nil, nil, cli.Usage.Errorf("a Rollout is an object of a Kubernetes cluster: use kubectl pawl, --kubernetes or --context")
	}
	b, err := a.Open(ctx, cli.Reads)
	if err != nil {
		return nil, nil, err
	}
	objects, err := b.Objects()
	return b, objects, err
}

// find reads the Rollout that NAME or KIND/NAME of its workload means.
func (a verbs) find(ctx context.Context, objects control.Objects, name, namespace string) (control.Object, error) {
	kind, of, isWorkload := strings.Cut(name, "/")
	if !isWorkload {
		return objects.Get(ctx, a.RefOf(view.RolloutKind, namespace, name))
	}
	if strings.EqualFold(kind, view.RolloutKind) || kind == "prol" || kind == "rollouts" {
		return objects.Get(ctx, a.RefOf(view.RolloutKind, namespace, of))
	}
	workload, err := objects.Get(ctx, control.Ref{Kind: kind, Namespace: a.RefOf(kind, namespace, of).Namespace, Name: of})
	if err != nil {
		return control.Object{}, err
	}
	label := workload.Labels[rolloutLabel]
	if label == "" {
		return control.Object{}, control.NotFound.Errorf("%s has no Rollout: its label %s is missing", workload.Ref, rolloutLabel)
	}
	return objects.Get(ctx, control.Ref{Kind: view.RolloutKind, Namespace: workload.Namespace, Name: label})
}

// request annotates the Rollout and prints the answer of the operator.
func (a verbs) request(ctx context.Context, name, namespace string, verb rollout.Verb, argument, reason string, wait time.Duration) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	before, err := view.RolloutOf(o)
	if err != nil {
		return err
	}
	key, parts := prefix+string(verb), []string{}
	if argument != "" {
		parts = append(parts, argument)
	}
	parts = append(parts, "by="+a.Actor())
	if reason != "" {
		parts = append(parts, "reason="+strings.ReplaceAll(strings.Join(strings.Fields(reason), " "), "#", "no. "))
	}
	if o, err = control.Modify(ctx, objects, o.Ref, func(o *control.Object) error {
		if old := o.Annotations[key]; old != "" {
			return rollout.RequestUnknown.Errorf("%s has an unanswered request %s=%s: does an operator serve it?", o.Ref, key, old)
		}
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = strings.Join(parts, "; ")
		return nil
	}); err != nil {
		return err
	}
	answer, err := a.answer(ctx, b, objects, o.Ref, before)
	if err != nil {
		return err
	}
	if answer.Code != "" {
		kind, known := fault.Lookup(answer.Code)
		if !known {
			kind = rollout.RequestUnknown
		}
		return kind.Errorf("%s", answer.Message)
	}
	if verb == rollout.Resume && before.Paused {
		a.Hint("pawl: the plan says paused: the next rollout begins with a pause")
	}
	if wait > 0 {
		return a.settle(ctx, b, objects, o.Ref, wait)
	}
	return a.Emit(answer, []string{o.Ref.String()}, func() string { return o.Ref.String() + ": " + string(verb) + " accepted\n" })
}

// answer waits for the answer to the newest request.
func (a verbs) answer(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref, before view.Rollout) (rollout.RequestAnswer, error) {
	limited, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	changes := b.Changes(limited, "")
	for {
		o, err := objects.Get(limited, ref)
		if err == nil {
			var now view.Rollout
			if now, err = view.RolloutOf(o); err == nil {
				if last := now.Position.LastRequest; last != nil && (before.Position.LastRequest == nil || last.ID != before.Position.LastRequest.ID) {
					return *last, nil
				}
			}
		}
		if limited.Err() != nil && ctx.Err() == nil {
			return rollout.RequestAnswer{}, fault.APIUnavailable.Errorf("the request is written to %s, and no operator has answered within %s", ref, answerWithin)
		}
		if err != nil {
			return rollout.RequestAnswer{}, err
		}
		select {
		case <-limited.Done():
		case <-changes:
		}
	}
}

// pause sets paused in the plan.
func (a verbs) pause(ctx context.Context, name, namespace string) error {
	return a.edit(ctx, name, namespace, "paused", func(spec map[string]any) { inside(spec, "rolloutPlan")["paused"] = true })
}

// edit changes the spec of a Rollout.
func (a verbs) edit(ctx context.Context, name, namespace, done string, change func(spec map[string]any)) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	return a.modify(ctx, objects, o.Ref, done, change)
}

func (a verbs) modify(ctx context.Context, objects control.Objects, ref control.Ref, done string, change func(spec map[string]any)) error {
	o, err := control.Modify(ctx, objects, ref, func(o *control.Object) error {
		var spec map[string]any
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return err
		}
		change(spec)
		text, err := json.Marshal(spec)
		o.Spec = text
		return err
	})
	if err != nil {
		return err
	}
	return a.Emit(o, []string{o.Ref.String()}, func() string { return o.Ref.String() + " " + done + "\n" })
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

// restart sets the annotation of kubectl rollout restart in the template of the workload.
func (a verbs) restart(ctx context.Context, name, namespace string) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	var spec struct {
		TargetRef struct{ Kind, Name string } `json:"targetRef"`
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return err
	}
	workload := control.Ref{Kind: spec.TargetRef.Kind, Namespace: o.Namespace, Name: spec.TargetRef.Name}
	return a.modify(ctx, objects, workload, "restarted: its Rollout changes the pods in batches", func(spec map[string]any) {
		inside(spec, "template", "metadata", "annotations")["kubectl.kubernetes.io/restartedAt"] = time.Now().UTC().Format(time.RFC3339)
	})
}

// status prints where a Rollout stands, at once or when it has settled.
func (a verbs) status(ctx context.Context, name, namespace string, wait time.Duration) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	return a.settle(ctx, b, objects, o.Ref, wait)
}

// settle waits until a Rollout has ended or needs somebody, and prints each change of what it does.
func (a verbs) settle(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref, wait time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, max(wait, time.Second))
	defer cancel()
	changes := b.Changes(limited, "")
	printed, last := "", view.Rollout{}
	for {
		o, err := objects.Get(limited, ref)
		if err == nil {
			last, err = view.RolloutOf(o)
		}
		if err != nil && (limited.Err() == nil || last.Object.Name == "") {
			return err
		}
		exit := last.Exit()
		if exit != view.ExitActive || wait == 0 || limited.Err() != nil {
			if err := a.Emit(last, []string{ref.String()}, func() string { return last.Line(time.Now()) }); err != nil {
				return err
			}
			if last.Remedy != "" && exit != view.ExitDone {
				a.Hint("  remedy: %s", last.Remedy)
			}
			return cli.End(exit)
		}
		if line := last.Line(time.Now()); stable(last) != printed {
			printed = stable(last)
			a.Hint("%s", strings.TrimSuffix(line, "\n"))
		}
		select {
		case <-limited.Done():
		case <-changes:
		}
	}
}

// stable is what of a line is worth another line when it changes: not the time.
func stable(r view.Rollout) string {
	at := r.Position
	reason := ""
	if w := at.Waiting; w != nil {
		reason = w.Reason
	}
	return strings.Join([]string{string(at.State), string(at.BatchState), strconv.Itoa(at.CurrentBatch), reason}, " ")
}

// complete completes the names of Rollouts.
func (a verbs) complete(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.CompleteKinds(cmd, []string{view.RolloutKind}, text)
}
