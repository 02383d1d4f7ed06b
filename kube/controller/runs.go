package controller

import (
	"context"
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Runs are the runs that annotations of their subject control: pawl.dev/pause, resume,
// cancel, skip, signal.NAME and progress.STEP of an object are requests to its active run.
type Runs struct {
	Engine requests.Verbs
	List   func(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error)
}

// RunsOf returns the runs of an engine. Its store must be a runstore.Lister.
func RunsOf(engine *workflow.Engine) (*Runs, error) {
	lister, ok := engine.Store().(runstore.Lister)
	if !ok {
		return nil, fmt.Errorf("controller: the store of the engine does not list runs: %T", engine.Store())
	}
	return &Runs{Engine: engine, List: lister.List}, nil
}

// recentEnded is how many ended runs of a subject are asked whether they have already
// accepted a request. That happens if the program crashed before it removed the annotation.
const recentEnded = 3

// find returns the active run of a subject, "" if there is none, and the runs that have
// ended last. The subject of a run may have the uid of the object, or not if a person has
// started the run.
func (r *Runs) find(ctx context.Context, ref control.Ref, uid string) (active string, ended []string, err error) {
	for _, subject := range []string{ref.String() + "/" + uid, ref.String()} {
		runs, _, err := r.List(ctx, runstore.Query{Subject: subject, Limit: 100})
		if err != nil {
			return "", nil, err
		}
		for _, run := range runs {
			switch {
			case run.Phase.Final() && len(ended) < recentEnded:
				ended = append(ended, run.ID)
			case active == "" && run.Parent == "" && !run.Phase.Final() && run.Phase != runtype.Queued:
				active = run.ID
			}
		}
	}
	return active, ended, nil
}

// Accept passes the requests in the annotations of an object to its run. It calls answered
// with each result before it removes the annotation; it may call it again for the same id.
// last is the newest answer, nil if there is none. obj must have been read from the API
// server, not from a cache. After an error repeat the call: no request was refused for it.
func (r *Runs) Accept(ctx context.Context, c client.Client, kind string, obj client.Object, last *v1alpha1.RunRequest, answered func(requests.Answer) error) error {
	annotations := maps.Clone(obj.GetAnnotations())
	guard := requests.PatchGuard(func(ctx context.Context, patch []byte) error {
		return c.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch("application/json-patch+json", patch))
	})
	for _, asked := range requests.ReadRequests(annotations) {
		if !answers(last, asked) {
			continue
		}
		delete(annotations, asked.Key)
		if _, err := guard.Remove(ctx, asked.Key, asked.Value); err != nil {
			return err
		}
	}
	if !requests.HasRequests(annotations) {
		return nil
	}
	ref := control.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	active, ended, err := r.find(ctx, ref, string(obj.GetUID()))
	if err != nil {
		return err
	}
	return requests.Acceptor{Engine: r.Engine, Ended: ended}.Accept(ctx, active, annotations, guard, answered)
}

// answers reports whether last is the answer to a request. Progress has no id: it is
// always new.
func answers(last *v1alpha1.RunRequest, asked requests.Request) bool {
	return last != nil && asked.Verb != runtype.VerbProgress && asked.ID == last.ID && string(asked.Verb) == last.Verb
}

// WarnRefusal writes an Event about a request that was refused, with its message and remedy.
func (e Events) WarnRefusal(about client.Object, a requests.Answer) {
	if a.Err == nil {
		return
	}
	kind := fault.Of(a.Err)
	e.Warn(about, kind.Reason(), "%s %s was refused: %s %s", a.Verb, a.ID, fault.Message(a.Err), kind.Remedy)
}

// acceptRequests passes the requests in the annotations of an object to its run.
func (w *worker[T]) acceptRequests(ctx context.Context, ref control.Ref) error {
	if w.runs == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	obj := w.newObject()
	if err := w.cached.Get(ctx, key, obj); err != nil || !requests.HasRequests(obj.GetAnnotations()) || w.acceptsRequests != nil && !w.acceptsRequests(obj) {
		return nil //nolint:nilerr // the pass handles that
	}
	obj = w.newObject() // a stale cache must not lead to the refusal of an accepted request
	if err := w.live.Get(ctx, key, obj); err != nil {
		if isNotFound(err) {
			return nil
		}
		return err
	}
	return w.runs.Accept(ctx, w.client, w.kind, obj, w.lastOf(obj), func(a requests.Answer) error { return w.answered(ctx, obj, a) })
}

func (w *worker[T]) lastOf(obj T) *v1alpha1.RunRequest {
	if w.last == nil {
		return nil
	}
	return *w.last(obj)
}

// answered reports the result of a request: a refusal as an Event, and every answer in
// the status.
func (w *worker[T]) answered(ctx context.Context, obj T, a requests.Answer) error {
	w.events.WarnRefusal(obj, a)
	if w.last == nil {
		return nil
	}
	d, err := Load(ctx, w.live, w.client, client.ObjectKeyFromObject(obj), w.newObject())
	if isNotFound(err) || err == nil && d.Object.GetUID() != obj.GetUID() {
		return nil
	}
	if err != nil {
		return err
	}
	record := a.Record(w.now())
	*w.last(d.Object) = &record
	if _, err := d.Save(ctx); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}
