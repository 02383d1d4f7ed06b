package driver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Subject names the runs of an object: kind/namespace/name/uid.
func Subject(o control.Object) string {
	if o.UID == "" {
		return o.Ref.String()
	}
	return o.Ref.String() + "/" + o.UID
}

// Ref finds the object of a subject. uid is empty if the subject names none.
func Ref(subject string) (ref control.Ref, uid string, err error) {
	if strings.Count(subject, "/") == 3 {
		cut := strings.LastIndexByte(subject, '/')
		subject, uid = subject[:cut], subject[cut+1:]
	}
	ref, err = control.ParseRef(subject)
	return ref, uid, err
}

// Notifier wakes objects when something happens to their runs. It belongs into
// the hooks of the engine, which is made before the driver. The zero Bell is ready.
type Notifier struct {
	mu      sync.Mutex
	next    int
	hearers map[int]subscriber
}

type subscriber struct {
	kind   string
	notify func(key string)
}

// Hook is what the engine's Options.Hooks takes.
func (b *Notifier) Hook() workflow.Hook { return workflow.Hook{Name: "machine", OnEvent: b.onEvent} }

var ringing = []runtype.EventKind{runtype.RunStarted, runtype.RunPaused, runtype.RunResumed, runtype.RunCancelling, runtype.RunCancelled, runtype.RunSucceeded}

func (b *Notifier) onEvent(run workflow.RunInfo, e runtype.Event) {
	if !slices.Contains(ringing, e.Kind) {
		return
	}
	ref, _, err := Ref(run.Subject)
	if err != nil {
		return // not a run of an object
	}
	b.notify(ref)
}

// listen hands the keys of a kind to ring until the context ends.
func (b *Notifier) subscribe(ctx context.Context, kind string, notify func(key string)) {
	b.mu.Lock()
	b.next++
	id := b.next
	if b.hearers == nil {
		b.hearers = map[int]subscriber{}
	}
	b.hearers[id] = subscriber{kind, notify}
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.hearers, id)
}

// notify wakes one object.
func (b *Notifier) notify(ref control.Ref) {
	b.mu.Lock()
	hearers := slices.Collect(maps.Values(b.hearers))
	b.mu.Unlock()
	for _, h := range hearers {
		if h.kind == ref.Kind {
			h.notify(ref.String())
		}
	}
}
