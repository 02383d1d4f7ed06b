package events

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/route"
)

// watched are objects whose changes a stream tells without saying what has changed.
type watched struct {
	event string // type of the events
	ref   control.Ref
}

// watchable are the kinds of such objects: the type of their events, which is also the parameter that names one.
var watchable = []struct {
	event, kind string
	of          func(*eventStream) string
}{
	{"rollout", "Rollout", func(in *eventStream) string { return in.Rollout }},
	{"foundationdb", "FoundationDBCluster", func(in *eventStream) string { return in.FoundationDB }},
}

// watch adds the changes of such objects that a request asks for: of the one that it names, or of all.
func (t *stream) watch(in *eventStream) error {
	for _, w := range watchable {
		name := w.of(in)
		if name == "" {
			continue
		}
		namespace, name, ok := strings.Cut(name, "/")
		switch {
		case !ok || namespace == "" || name == "" || strings.Contains(name, "/"):
			return route.Malformed.Errorf("%s=%s is not namespace/name", w.event, w.of(in))
		case t.s.Changes[w.event] == nil:
			return route.NotServed.Errorf("this server has no %ss", w.kind)
		case !t.who.Operator:
			return route.Forbidden.Errorf("%ss are for operators", w.kind)
		}
		t.watched = []watched{{w.event, control.Ref{Kind: w.kind, Namespace: namespace, Name: name}}}
		t.wants = func(kind string) bool { return kind == w.event }
		t.clusters = nil
		return nil
	}
	for _, w := range watchable {
		if t.s.Changes[w.event] != nil && t.who.Operator && in.Run == "" && t.wants(w.event) {
			t.watched = append(t.watched, watched{event: w.event})
		}
	}
	return nil
}

// follow sends each change of watched objects until ctx ends.
func (t *stream) follow(ctx context.Context, w watched, changed chan<- watched) {
	heard := t.s.Changes[w.event](ctx, w.ref)
	for {
		select {
		case _, ok := <-heard:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
		select {
		case changed <- w:
		case <-ctx.Done():
			return
		}
	}
}

func (t *stream) writeWatched(w watched) error {
	id := ""
	if w.ref.Name != "" {
		id = w.ref.Namespace + "/" + w.ref.Name
	}
	return t.writeEvent(w.event, ChangedEvent{ID: id})
}
