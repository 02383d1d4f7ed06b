package rollouts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// rolloutLabel on a workload is the name of its Rollout.
const rolloutLabel = "pawl.dev/rollout"

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
	if backend.IsRollout(kind) {
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

// read is find with objects of its own.
func (a verbs) read(ctx context.Context, name, namespace string) (control.Object, error) {
	b, objects, err := a.open(ctx)
	if err != nil {
		return control.Object{}, err
	}
	defer b.Close()
	return a.find(ctx, objects, name, namespace)
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
	if o, err = backend.RequestRollout(ctx, objects, o.Ref, backend.RolloutRequest{Verb: verb, Argument: argument, By: a.Actor(), Reason: reason}); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := backend.RolloutAnswer(ctx, b.Changes(watching, ""), objects, before)
	if err != nil {
		return err
	}
	if verb == rollout.Resume && before.Paused {
		a.Hint("pawl: the plan says paused: the next rollout begins with a pause")
	}
	if wait > 0 {
		return a.settle(ctx, b, objects, o.Ref, wait)
	}
	return a.Emit(answer, []string{o.Ref.String()}, func() string { return o.Ref.String() + ": " + string(verb) + " accepted\n" })
}

// pause sets paused in the plan.
func (a verbs) pause(ctx context.Context, name, namespace, reason string, wait time.Duration) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	if o, err = backend.PauseRollout(ctx, objects, o.Ref, a.Actor(), reason); err != nil {
		return err
	}
	return a.done(ctx, b, objects, o, o.Ref, "paused", wait)
}

// done says what was done, or waits until the Rollout has ended or needs somebody.
func (a verbs) done(ctx context.Context, b backend.Backend, objects control.Objects, changed control.Object, ref control.Ref, text string, wait time.Duration) error {
	if wait > 0 {
		return a.settle(ctx, b, objects, ref, wait)
	}
	return a.Emit(changed, []string{changed.Ref.String()}, func() string { return changed.Ref.String() + " " + text + "\n" })
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
func (a verbs) restart(ctx context.Context, name, namespace string, wait time.Duration) error {
	o, err := a.read(ctx, name, namespace)
	if err != nil {
		return err
	}
	if _, named := pairOf(o); named {
		return a.restartApplication(ctx, name, namespace, wait)
	}
	return a.retemplate(ctx, name, namespace, wait, "restarted: its Rollout changes the pods in batches", func(_ control.Objects, _ control.Object, spec map[string]any) error {
		inside(spec, "template", "metadata", "annotations")["kubectl.kubernetes.io/restartedAt"] = time.Now().UTC().Format(time.RFC3339)
		return nil
	})
}

// undo asks to take back what is under way. After the end it writes the template that was replaced.
func (a verbs) undo(ctx context.Context, name, namespace, reason string, wait time.Duration) error {
	o, err := a.read(ctx, name, namespace)
	if err != nil {
		return err
	}
	r, err := view.RolloutOf(o)
	if err != nil {
		return err
	}
	at := r.Position
	if p, named := pairOf(o); named && at.State == rollout.Succeeded && at.Mode == rollout.Rollout {
		if driven(o) {
			return a.toApplicationRevision(ctx, name, namespace, p.SourceRevision, wait)
		}
		return a.swap(ctx, o, wait)
	}
	if at.State != rollout.Succeeded || at.Mode != rollout.Rollout || at.Named {
		return a.request(ctx, name, namespace, rollout.RollBackVerb, "", reason, wait)
	}
	var spec struct {
		TargetRef, SourceRef struct{ Name string }
	}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return err
	}
	if spec.SourceRef.Name != "" {
		return rollout.RequestUnknown.Errorf("the rollout from Deployment %s to %s has ended, and a Rollout keeps its pair: delete %s, and make one from %s to %s",
			spec.SourceRef.Name, spec.TargetRef.Name, o.Ref, spec.TargetRef.Name, spec.SourceRef.Name)
	}
	if reason != "" {
		a.Hint("pawl: the rollout has ended: undo writes the old template, which carries no reason")
	}
	return a.toRevision(ctx, name, namespace, at.SourceHash, wait, func(r revision) bool { return r.name == at.SourceHash })
}

// undoTo writes the template of an older revision to the workload, as kubectl rollout undo does.
func (a verbs) undoTo(ctx context.Context, name, namespace string, number int64, wait time.Duration) error {
	o, err := a.read(ctx, name, namespace)
	if err != nil {
		return err
	}
	if p, named := pairOf(o); named {
		return a.toApplicationRevision(ctx, name, namespace, revisionNumber(p, number), wait)
	}
	return a.toRevision(ctx, name, namespace, strconv.FormatInt(number, 10), wait, func(r revision) bool { return r.number == number })
}

func (a verbs) toRevision(ctx context.Context, name, namespace, revision string, wait time.Duration, matches func(revision) bool) error {
	text := fmt.Sprintf("has the template of revision %s: its Rollout changes the pods in batches", revision)
	return a.retemplate(ctx, name, namespace, wait, text, func(objects control.Objects, workload control.Object, spec map[string]any) error {
		all, err := revisionsOf(ctx, objects, workload)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, matches)
		if i < 0 {
			var known []string
			for _, r := range all {
				known = append(known, strconv.FormatInt(r.number, 10))
			}
			return rollout.TargetRevisionMissing.Errorf("%s has no revision %s; it has %s", workload.Ref, revision, cmp.Or(strings.Join(known, ", "), "none"))
		}
		spec["template"] = all[i].template
		return nil
	})
}

// revision is one of a workload: a ControllerRevision holds its template as a patch.
type revision struct {
	name     string
	number   int64
	template map[string]any
}

// revisionsOf are the revisions of a workload, by their number.
func revisionsOf(ctx context.Context, objects control.Objects, workload control.Object) (all []revision, err error) {
	for q := (control.Query{Kind: "controllerrevisions.apps", Namespace: workload.Namespace}); ; {
		page, err := objects.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			var content struct {
				Revision int64
				Data     struct {
					Spec struct{ Template map[string]any }
				}
			}
			if o.Owner == nil || o.Owner.UID != workload.UID || json.Unmarshal(o.Spec, &content) != nil || content.Data.Spec.Template == nil {
				continue
			}
			delete(content.Data.Spec.Template, "$patch")
			all = append(all, revision{o.Name, content.Revision, content.Data.Spec.Template})
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.SortFunc(all, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
			return all, nil
		}
	}
}

// retemplate changes the template of the workload of a Rollout.
func (a verbs) retemplate(ctx context.Context, name, namespace string, wait time.Duration, done string, change func(objects control.Objects, workload control.Object, spec map[string]any) error) error {
	return a.edit(ctx, name, namespace, wait, done, func(objects control.Objects, o control.Object) (control.Object, error) {
		var spec struct {
			TargetRef struct{ APIVersion, Kind, Name string } `json:"targetRef"`
		}
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return o, err
		}
		if why := notRetemplated(spec.TargetRef.Kind, spec.TargetRef.Name); why != "" {
			return o, rollout.UnsupportedWorkload.Errorf("%s", why).With("kind", spec.TargetRef.Kind)
		}
		group, _, _ := strings.Cut(spec.TargetRef.APIVersion, "/")
		workload := control.Ref{Kind: spec.TargetRef.Kind + "." + group, Namespace: o.Namespace, Name: spec.TargetRef.Name}
		return control.Modify(ctx, objects, workload, func(w *control.Object) error {
			return editSpec(w, func(spec map[string]any) error { return change(objects, *w, spec) })
		})
	})
}

// edit writes what gives a Rollout another template: its workload, or its Application.
func (a verbs) edit(ctx context.Context, name, namespace string, wait time.Duration, done string, write func(objects control.Objects, o control.Object) (control.Object, error)) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o, err := a.find(ctx, objects, name, namespace)
	if err != nil {
		return err
	}
	changed, err := write(objects, o)
	if err != nil {
		return err
	}
	if wait > 0 { // the Rollout does not see the new template at once
		if err := a.noticed(ctx, b, objects, o); err != nil {
			return err
		}
	}
	return a.done(ctx, b, objects, changed, o.Ref, done, wait)
}

// notRetemplated is why the template of a target is not written; empty: it is.
func notRetemplated(kind, name string) string {
	switch kind {
	case "":
		return "the workload is that of an Application: change the Application"
	case string(rollout.Deployment):
		return fmt.Sprintf("a Rollout goes from one Deployment to another, and does not change the template of %s, which would move all its pods at once: "+
			"write the template to another Deployment and let a Rollout go from %s to that, or use kubectl rollout for pods that need no batches", name, name)
	}
	return ""
}

// noticed waits until the operator has seen a new template: its history goes on.
func (a verbs) noticed(ctx context.Context, b backend.Backend, objects control.Objects, before control.Object) error {
	was, err := view.RolloutOf(before)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, backend.AnswerWithin)
	defer cancel()
	changes := b.Changes(limited, "")
	for {
		o, err := objects.Get(limited, before.Ref)
		if limited.Err() != nil && ctx.Err() == nil {
			return nil // the same template: there is nothing to do
		}
		if err != nil {
			return err
		}
		if is, err := view.RolloutOf(o); err != nil || is.Position.Sequence != was.Position.Sequence {
			return err
		}
		select {
		case <-limited.Done():
		case <-changes:
		}
	}
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
	if wait == 0 && a.Flags.Timeout > 0 { // kubectl rollout status --timeout
		wait = a.Flags.Timeout
	}
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

// complete completes the names of Rollouts, and after KIND/ those of its objects.
func (a verbs) complete(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, isWorkload := strings.Cut(text, "/")
	if !isWorkload {
		return a.CompleteKinds(cmd, []string{view.RolloutKind}, text)
	}
	names, directive := a.CompleteKinds(cmd, []string{kind}, text)
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = kind + "/" + name
	}
	return all, directive
}
