package notification

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// MaxInterrupted is how many interrupted objects a status holds. What is interrupted beside them is told when one of these
// has recovered.
const MaxInterrupted = 1000

// Interruption is an object whose work has stopped: its machine holds it, or it is in the state Interrupted.
type Interruption struct {
	Subject string     `json:"subject"` // kind/namespace/name
	Since   time.Time  `json:"since"`
	Code    fault.Code `json:"code,omitempty"`

	uid, run, message string
	labels            map[string]string
}

// interruptionOf reads the status of an object, where its machine keeps the position.
func interruptionOf(o control.Object) (Interruption, bool) {
	var s struct {
		Machine, Position *machine.Position
	}
	if o.Kind == Kind || json.Unmarshal(o.Status, &s) != nil { // none, or not of a machine
		return Interruption{}, false
	}
	p := s.Machine
	if p == nil {
		p = s.Position
	}
	if p == nil || !p.Held && p.State != machine.Interrupted {
		return Interruption{}, false
	}
	return Interruption{Subject: o.Ref.String(), Since: p.Since.UTC(), Code: p.Code, uid: o.UID, run: p.Run, message: p.Message, labels: o.Labels}, true
}

// Copy returns a copy that shares nothing.
func (i Interruption) Copy() Interruption { return i } // nobody changes the labels

// interruptions are the interrupted objects among all.
type interruptions struct {
	objects control.Source[control.Object]
}

// List implements control.Source.
func (s interruptions) List(ctx context.Context) (items []control.Item[Interruption], version string, err error) {
	all, version, err := s.objects.List(ctx)
	for _, o := range all {
		if found, ok := interruptionOf(o.Value); ok {
			items = append(items, control.Item[Interruption]{Key: o.Key, Version: o.Version, Value: found})
		}
	}
	return items, version, err
}

// Watch implements control.Source.
func (s interruptions) Watch(ctx context.Context, version string) iter.Seq2[control.Change[Interruption], error] {
	return func(yield func(control.Change[Interruption], error) bool) {
		for c, err := range s.objects.Watch(ctx, version) {
			to := control.Change[Interruption]{Type: c.Type, Version: c.Version, Item: control.Item[Interruption]{Key: c.Item.Key, Version: c.Item.Version}}
			found, ok := interruptionOf(c.Item.Value)
			switch {
			case ok:
				to.Item.Value = found
			case c.Type == control.Put:
				to.Type = control.Delete
			}
			if !yield(to, err) {
				return
			}
		}
	}
}

// dueObjects tells of the objects that were interrupted or have recovered since the status was written. What is
// interrupted when a notification begins is not told.
func (s *Sender) dueObjects(ctx context.Context, w *worker, status *Status, room int) (due []*attempt, err error) {
	if !w.target.wantsAny(ObjectInterrupted, ObjectRecovered) {
		status.Objects = nil
		return nil, nil
	}
	if s.interrupted == nil || !s.interrupted.Cache().Synced() {
		return nil, nil
	}
	now := map[string]Interruption{}
	for _, i := range s.interrupted.Cache().All() {
		now[i.uid] = i
	}
	begins := status.Objects == nil
	if begins {
		status.Objects = &Objects{}
	}
	if status.Objects.Interrupted == nil {
		status.Objects.Interrupted = map[string]Interruption{}
	}
	tell := func(kind, uid string, i Interruption, at time.Time) {
		e := Event{Type: kind, Time: at.UTC(), Subject: i.Subject, Labels: i.labels, Run: i.run, Code: string(i.Code), Message: cut(i.message)}.explained()
		if w.target.Wants(e) {
			due = append(due, &attempt{Delivery: Delivery{ID: "msg_" + w.object.UID + "_" + uid + "_" + kind[len("object."):] + "_" + strconv.FormatInt(i.Since.UnixNano(), 10), Event: e}})
		}
	}
	known := status.Objects.Interrupted
	for _, uid := range sortedKeys(known) {
		was := known[uid]
		if is, still := now[uid]; still && is.Since.Equal(was.Since) || len(due) >= room {
			continue
		}
		ref, err := control.ParseRef(was.Subject)
		if err != nil {
			return nil, err
		}
		switch o, err := s.options.Objects.Get(ctx, ref); {
		case fault.Of(err) == control.NotFound || err == nil && o.UID != uid: // deleted
		case err != nil:
			return nil, err
		default:
			was.labels = o.Labels
			tell(ObjectRecovered, uid, was, s.options.Now())
		}
		delete(known, uid)
	}
	for _, uid := range sortedKeys(now) {
		if _, told := known[uid]; !told && len(known) < MaxInterrupted && len(due) < room {
			known[uid] = now[uid]
			if !begins {
				tell(ObjectInterrupted, uid, now[uid], now[uid].Since)
			}
		}
	}
	return due, nil
}

func sortedKeys(m map[string]Interruption) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Source is a queue of events beside the history of the runs.
type Source interface {
	// Events returns events after a cursor, at most limit, and the cursor behind all that were looked at.
	// The cursor "now" is the end.
	Events(ctx context.Context, cursor string, limit int) (events []Event, next string, err error)
}

// dueClusters tells of the container clusters.
func (s *Sender) dueClusters(ctx context.Context, w *worker, status *Status, room int) (due []*attempt, err error) {
	if s.options.Clusters == nil || !w.target.wantsAny(ClusterAlert, ClusterRecovered) {
		status.Clusters = ""
		return nil, nil
	}
	if status.Clusters == "" {
		_, status.Clusters, err = s.options.Clusters.Events(ctx, "now", 1)
		return nil, err
	}
	if w.savedClusters != status.Clusters {
		w.savedClusters, w.readClusters = status.Clusters, status.Clusters
	}
	for {
		events, next, err := s.reading().Clusters(ctx, w.readClusters, room)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e = e.explained(); w.target.Wants(e) {
				due = append(due, &attempt{Delivery: Delivery{ID: "msg_" + w.object.UID + "_cluster_" + strconv.FormatInt(e.Seq, 10), Event: e}})
			}
		}
		if len(due) > 0 {
			status.Clusters = next
			return due, nil
		}
		if next == w.readClusters {
			return nil, nil
		}
		w.readClusters = next
	}
}
