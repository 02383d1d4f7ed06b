package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/rollouts"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// ConsoleOptions are those of a server for the cluster: runs, objects and Rollouts, with the caller's
// rights. Requests are made in the name of actor.
func (k *Kube) ConsoleOptions(ctx context.Context, actor string) (server.Options, error) {
	o := server.Options{Objects: consoleObjects{kubeObjects{k}}, Rollouts: rolloutSource{k, actor}, Notifier: &k.notifier, Logger: k.options.Logger}
	runs, err := k.runs(ctx, k.options.Namespace)
	if err == nil {
		o.Engine = runs.engine
		return o, nil
	}
	if ctx.Err() != nil || fault.Of(err) == fault.APIUnavailable {
		return o, err
	}
	// Without the right to read runs the rest is shown all the same.
	k.options.Logger.Warn("runs are not shown", "error", err)
	o.Engine, err = workflow.New(unreadableRuns{err: err}, nil, workflow.Options{Logger: k.options.Logger})
	return o, err
}

// unreadableRuns answers with the error that keeps the runs from being read.
type unreadableRuns struct{ err error }

func (u unreadableRuns) Create(context.Context, *runtype.Run, []runtype.Event) (*runtype.Run, error) {
	return nil, u.err
}

func (u unreadableRuns) Load(context.Context, string) (*runtype.Run, []runtype.Signal, error) {
	return nil, nil, u.err
}
func (u unreadableRuns) Save(context.Context, *runstore.Save) error         { return u.err }
func (u unreadableRuns) Send(context.Context, string, runtype.Signal) error { return u.err }
func (u unreadableRuns) List(context.Context, runstore.Query) ([]*runtype.Run, string, error) {
	return nil, "", u.err
}

func (u unreadableRuns) Count(context.Context, runstore.Query) ([]runstore.RunCount, error) {
	return nil, u.err
}

func (u unreadableRuns) History(context.Context, string, int64, int) ([]runtype.Event, error) {
	return nil, u.err
}

// Events has none, so that streams of other events work.
func (u unreadableRuns) Events(context.Context, string, int) ([]runtype.Event, string, error) {
	return nil, "0", nil
}

// rolloutSource are the Rollouts of a cluster for a server.
type rolloutSource struct {
	k     *Kube
	actor string
}

var _ rollouts.Source = rolloutSource{}

// List implements rollouts.Source.
func (s rolloutSource) List(ctx context.Context, namespace string, limit int, cursor string) (view.Rollouts, error) {
	page, err := kubeObjects{s.k}.List(ctx, control.Query{Kind: "rollouts.pawl.dev", Namespace: namespace, Limit: limit, Cursor: cursor})
	if err != nil {
		return view.Rollouts{}, err
	}
	all := view.Rollouts{Items: []view.Rollout{}, Next: page.Next}
	for _, o := range page.Items {
		r, err := view.RolloutOf(o)
		if err != nil {
			r.Unseen = fault.Message(err)
		}
		r.History = nil
		all.Items = append(all.Items, r)
	}
	return all, nil
}

// Get implements rollouts.Source.
func (s rolloutSource) Get(ctx context.Context, ref control.Ref) (view.Rollout, error) {
	return s.k.Rollout(ctx, ref)
}

// Plan implements rollouts.Source.
func (s rolloutSource) Plan(ctx context.Context, ref control.Ref) (view.RolloutPlan, error) {
	return s.k.PlanRollout(ctx, ref, nil)
}

// History implements rollouts.Source.
func (s rolloutSource) History(ctx context.Context, ref control.Ref) ([]rollout.Record, error) {
	objects := kubeObjects{s.k}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	records, err := RolloutRecords(ctx, objects, o)
	if records != nil && err != nil { // without the right to read older ones
		s.k.options.Logger.Warn("older records cannot be read", "rollout", ref.String(), "error", err)
		err = nil
	}
	return records, err
}

// Ask implements rollouts.Source.
func (s rolloutSource) Ask(ctx context.Context, ref control.Ref, r rollouts.Request) error {
	objects := kubeObjects{s.k}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return err
	}
	if r.Verb == "pause" {
		_, err = PauseRollout(ctx, objects, o.Ref, cmp.Or(s.actor, r.By), r.Reason)
		return err
	}
	before, err := view.RolloutOf(o)
	if err != nil {
		return err
	}
	ask := RolloutRequest{Verb: rollout.Verb(r.Verb), By: cmp.Or(s.actor, r.By), Reason: r.Reason}
	switch r.Verb {
	case "approve":
		ask.Argument = cmp.Or(r.Batch, "next")
	case "undo":
		ask.Verb = rollout.RollBackVerb
	}
	changes := s.Changes(ctx, o.Ref)
	if _, err = RequestRollout(ctx, objects, o.Ref, ask); err != nil {
		return err
	}
	_, err = RolloutAnswer(ctx, changes, objects, before)
	return err
}

// Changes implements rollouts.Source.
func (s rolloutSource) Changes(ctx context.Context, ref control.Ref) <-chan struct{} {
	return s.k.watchAll(ctx, func(ctx context.Context) []listening { return s.watched(ctx, ref) })
}

// watchAll notifies of changes of objects until ctx ends.
func (k *Kube) watchAll(ctx context.Context, watched func(context.Context) []listening) <-chan struct{} {
	heard := make(chan struct{}, 1)
	notify := func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(k.ctx, cancel)
	k.all.Go(func() {
		defer close(heard)
		defer cancel()
		var all sync.WaitGroup
		for _, w := range watched(ctx) {
			all.Go(func() { k.listen(ctx, w, notify) })
		}
		all.Wait()
	})
	return heard
}

// watched are the objects of which a Rollout is made: itself, its workload and its pods.
func (s rolloutSource) watched(ctx context.Context, ref control.Ref) []listening {
	kind, err := s.k.kind("rollouts.pawl.dev")
	if err != nil {
		return nil
	}
	all := []listening{{kind: kind, namespace: cmp.Or(ref.Namespace, s.k.options.Namespace), options: optionsFor(ref.Name)}}
	if ref.Name == "" {
		return all
	}
	o, err := kubeObjects{s.k}.Get(ctx, control.Ref{Kind: "rollouts.pawl.dev", Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return all
	}
	r, err := typed(o)
	if err != nil {
		return all
	}
	target := targetOf(r)
	if found, err := s.k.kind(target.Kind + "." + groupOf(target.APIVersion)); err == nil && target.Name != "" {
		all = append(all, listening{kind: found, namespace: ref.Namespace, options: optionsFor(target.Name)})
	}
	if found, err := s.k.kind("pods"); err == nil && r.Status.Selector != "" {
		all = append(all, listening{kind: found, namespace: ref.Namespace, options: metav1.ListOptions{LabelSelector: r.Status.Selector}})
	}
	return all
}

// consoleObjects are the objects of a cluster with a feed, for the event streams of a server.
type consoleObjects struct{ kubeObjects }

// Feed implements control.Objects: the kinds of Pawl.
func (o consoleObjects) Feed(kind string) control.Source[control.Object] { return kubeFeed{o.k, kind} }

// kubeFeed tells of changes from now on. Its positions are not kept: a reader that reconnects reads again.
type kubeFeed struct {
	k    *Kube
	kind string
}

const fromNow = "now"

// List implements control.Source. It has no items: readers list the objects themselves.
func (f kubeFeed) List(context.Context) ([]control.Item[control.Object], string, error) {
	return nil, fromNow, nil
}

// Watch implements control.Source.
func (f kubeFeed) Watch(ctx context.Context, _ string) iter.Seq2[control.Change[control.Object], error] {
	return func(yield func(control.Change[control.Object], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		kinds, err := f.kinds()
		if err != nil {
			cancel()
			yield(control.Change[control.Object]{}, err)
			return
		}
		changes := make(chan control.Change[control.Object])
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for _, kind := range kinds {
			all.Go(func() { f.follow(ctx, kind, changes) })
		}
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-changes:
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

func (f kubeFeed) kinds() ([]kubeKind, error) {
	if f.kind == "" {
		return f.k.listed()
	}
	kind, err := f.k.kind(f.kind)
	return []kubeKind{kind}, err
}

// follow sends the changes of a kind until ctx ends.
func (f kubeFeed) follow(ctx context.Context, kind kubeKind, changes chan<- control.Change[control.Object]) {
	f.k.listenTo(ctx, listening{kind: kind, namespace: f.k.options.Namespace}, func(e watch.Event) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		o, err := objectOf(u)
		if err != nil {
			return
		}
		c := control.Change[control.Object]{Type: control.Put, Version: fromNow, Item: control.Item[control.Object]{Key: o.Ref.String(), Version: strconv.FormatInt(o.Revision, 10), Value: o}}
		if e.Type == watch.Deleted {
			c.Type = control.Delete
		}
		select {
		case changes <- c:
		case <-ctx.Done():
		}
	})
}

// RolloutRecords are all records of a Rollout: those of its ConfigMaps, then those of its status. With
// an error there are those that could be read.
func RolloutRecords(ctx context.Context, objects control.Objects, o control.Object) ([]rollout.Record, error) {
	r, err := view.RolloutOf(o)
	if err != nil {
		return nil, err
	}
	selector, err := control.ParseSelector(historyLabel + "=" + o.Name)
	if err != nil {
		return nil, err
	}
	records := append([]rollout.Record{}, r.History...)
	for q := (control.Query{Kind: "ConfigMap", Namespace: o.Namespace, Selector: selector}); ; {
		page, failed := objects.List(ctx, q)
		for _, kept := range page.Items {
			var content struct{ Data struct{ Records string } }
			var older []rollout.Record
			if json.Unmarshal(kept.Spec, &content) == nil && json.Unmarshal([]byte(content.Data.Records), &older) == nil {
				records = append(records, older...)
			}
		}
		if q.Cursor, err = page.Next, failed; q.Cursor == "" || err != nil {
			break
		}
	}
	slices.SortFunc(records, func(a, b rollout.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return slices.CompactFunc(records, func(a, b rollout.Record) bool { return a.Sequence == b.Sequence }), err
}

// historyLabel is on the ConfigMaps with older records of a Rollout.
const historyLabel = "pawl.dev/rollout-history"
