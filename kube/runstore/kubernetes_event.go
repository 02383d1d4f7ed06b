package runstore

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// notice is an Event of Kubernetes, as `kubectl describe` shows it.
type notice struct {
	id      string // identifies the Event: posting it twice creates one
	warning bool
	reason  string
	message string
	at      time.Time
}

// maxMessage is the longest message of an Event, and maxPrefix the longest name of an
// object in the name of an Event (the digest follows), in bytes.
const (
	maxMessage = 1024
	maxPrefix  = 253 - 11
)

// noticesOf returns the Events for new history of a run: that it is paused and with which
// remedy, that it was resumed or is being cancelled. Other history costs no request.
func noticesOf(r *runtype.Run, events []runtype.Event) []notice {
	var all []notice
	for _, e := range events {
		t := notice{id: fmt.Sprintf("%s/%d", r.ID, e.Seq), at: e.At}
		switch e.Kind {
		case runtype.RunPaused:
			kind := format.KindOf(e.Code)
			if r.Fault != nil && r.Fault.Code == e.Code {
				kind = r.Fault.Kind()
			}
			t.warning, t.reason = true, kind.Reason()
			t.message = truncate("the run is paused"+atStep(e.Step)+": "+e.Message, ". Remedy: "+kind.Remedy)
		case runtype.RunResumed:
			t.reason, t.message = "Resumed", withActor("the run goes on", e)
		case runtype.RunCancelling:
			t.reason, t.message = "Cancelling", withActor("the run is being cancelled", e)
		default:
			continue
		}
		all = append(all, t)
	}
	return all
}

func atStep(step string) string {
	if step == "" {
		return ""
	}
	return " at step " + step
}

// withActor appends to a text who has requested it, and why.
func withActor(what string, e runtype.Event) string {
	if e.Actor != "" {
		what += ", requested by " + e.Actor
	}
	if e.Message != "" {
		what += ": " + e.Message
	}
	return truncate(what, "")
}

// truncate cuts a text so that it fits into maxMessage together with the suffix.
func truncate(text, behind string) string {
	room := max(maxMessage-len(behind), 0)
	if text = strings.TrimRight(text, "."); len(text) <= room {
		return text + behind
	}
	end := max(room-len("…"), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…" + behind
}

// announce posts the Events of a saved run in the background.
func (s *history) announce(e *entry, r *runtype.Run, events []runtype.Event) {
	all := noticesOf(r, events)
	if len(all) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.all.Go(func() {
		for _, t := range all {
			s.postEvent(s.ctx, e, t)
		}
	})
}

// postEvent posts an Event about a run. An error is only logged: the status of the run
// says the same.
func (s *history) postEvent(ctx context.Context, e *entry, t notice) {
	s.mu.Lock()
	uid := e.UID
	s.mu.Unlock()
	kind, version := "Run", api.GroupVersion.String()
	if s.o.Kind == ConfigMap {
		kind, version = "ConfigMap", "v1"
	}
	weight := "Normal"
	if t.warning {
		weight = "Warning"
	}
	about := strings.TrimRight(e.key.name[:min(len(e.key.name), maxPrefix)], "-.")
	at := t.at.UTC().Format(time.RFC3339)
	_, err := s.client.Post(ctx, client.Ref{Resource: "events", Namespace: e.key.namespace}, format.Tree{
		"apiVersion": "v1", "kind": "Event", "metadata": format.NewMeta(about+"."+format.Digest(uid + "/" + t.id)[:10], e.key.namespace, nil),
		"involvedObject": format.Tree{"apiVersion": version, "kind": kind, "namespace": e.key.namespace, "name": e.key.name, "uid": uid},
		"type":           weight, "reason": t.reason, "message": t.message,
		"source": format.Tree{"component": client.FieldManager}, "firstTimestamp": at, "lastTimestamp": at, "count": 1,
	})
	if err != nil && !client.IsExisting(err) {
		s.log.Debug("kube/runstore: an Event about a run was not written", "run", e.key.name, "reason", t.reason, "error", err)
	}
}
