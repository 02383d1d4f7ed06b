package runstore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/fault"
)

// timeText formats a time as RFC 3339 in UTC with nanoseconds; "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// zeroTime is the text of the zero time where "" means something else.
const zeroTime = "0001-01-01T00:00:00Z"

type decoder struct{ err error }

func (d *decoder) fail(what string, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (d *decoder) time(text string) time.Time {
	if text == "" || text == zeroTime {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.fail("a time", err)
	}
	return t.UTC()
}

func (d *decoder) span(text string) time.Duration {
	if text == "" {
		return 0
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		d.fail("a duration", err)
	}
	return span
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// number formats a number as a map key that sorts as text.
func number(n int64) string { return fmt.Sprintf("%06d", n) }

func (d *decoder) number(key string) int64 {
	n, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		d.fail("a number", err)
	}
	return n
}

func faultOf(f *runtype.Fault) *api.RunFault {
	if f == nil {
		return nil
	}
	out := &api.RunFault{Code: string(f.Code), Message: f.Message, Step: f.Step, Attempt: f.Attempt, At: timeText(f.At), Exhausted: f.Exhausted, Healer: f.Healer}
	if f.Details != nil {
		data, _ := json.Marshal(f.Details) // decoded from JSON before: no error
		out.Details = string(data)
	}
	return out
}

// faultWithRemedy is the fault of a run with the title and remedy of its code, for
// people who use only kubectl. Nothing reads it to execute.
func faultWithRemedy(f *runtype.Fault) *api.RunFault {
	out := faultOf(f)
	if out != nil {
		kind := f.Kind()
		out.Title, out.Remedy = kind.Title, kind.Remedy
	}
	return out
}

// kindOf returns the kind of a code, or UNKNOWN for a code that this program does not know.
func kindOf(code fault.Code) *fault.Kind {
	if kind, ok := fault.Lookup(string(code)); ok {
		return kind
	}
	return fault.Unknown
}

func (d *decoder) fault(f *api.RunFault) *runtype.Fault {
	if f == nil {
		return nil
	}
	out := &runtype.Fault{Code: fault.Code(f.Code), Message: f.Message, Step: f.Step, Attempt: f.Attempt, At: d.time(f.At), Exhausted: f.Exhausted, Healer: f.Healer}
	if f.Details != "" {
		value, err := runtype.Decode([]byte(f.Details))
		details, ok := value.(map[string]any)
		if err == nil && !ok {
			err = fmt.Errorf("%.40q is not an object", f.Details)
		}
		if err != nil {
			d.fail("details of a fault", err)
		}
		out.Details = details
	}
	return out
}

// attemptOf returns nil for the default number, which most steps have: that keeps the
// object small.
func attemptOf(n, usual int) *int {
	if n == usual {
		return nil
	}
	return &n
}

func attempt(n *int, usual int) int {
	if n == nil {
		return usual
	}
	return *n
}

// defaultAttempt is the attempt of an event that names none.
func defaultAttempt(step string) int {
	if step == "" {
		return 0
	}
	return 1
}

func stepOf(s *runtype.StepRecord) api.RunStep {
	out := api.RunStep{
		Phase: string(s.Phase), Ord: s.Ord, Round: s.Round, Attempt: attemptOf(s.Attempt, 1), Failures: s.Failures, Uncharged: s.Uncharged, UnchargedSince: timeText(s.UnchargedSince),
		Lost: s.Lost, Isolated: s.Isolated, Undoing: s.Undoing, StartedAt: timeText(s.StartedAt), EndedAt: timeText(s.EndedAt), NextAt: timeText(s.NextAt),
		Output: string(s.Output), Fault: faultOf(s.Fault), Note: s.Note, Actor: s.Actor,
	}
	if !s.AttemptAt.Equal(s.StartedAt) {
		out.AttemptAt = timeText(s.AttemptAt)
		if s.AttemptAt.IsZero() {
			out.AttemptAt = zeroTime
		}
	}
	if w := s.Wait; w != nil {
		out.Wait = &api.RunWait{Reason: w.Reason, Message: w.Message, Since: timeText(w.Since), Deadline: timeText(w.Deadline), Signal: w.Signal, Child: w.Child, Until: timeText(w.Until)}
		if w.Every != 0 {
			out.Wait.Every = w.Every.String()
		}
	}
	if p := s.Progress; p != nil {
		out.Progress = &api.RunProgress{Done: p.Done, Total: p.Total, Text: p.Text, At: timeText(p.At), High: p.High}
	}
	for _, item := range s.Items {
		out.Items = append(out.Items, api.RunItem{Key: item.Key, Value: string(item.Value)})
	}
	return out
}

func (d *decoder) step(name string, s *api.RunStep) *runtype.StepRecord {
	out := &runtype.StepRecord{
		Name: name, Phase: runtype.StepPhase(s.Phase), Ord: s.Ord, Round: s.Round, Attempt: attempt(s.Attempt, 1), Failures: s.Failures, Uncharged: s.Uncharged, UnchargedSince: d.time(s.UnchargedSince),
		Lost: s.Lost, Isolated: s.Isolated, Undoing: s.Undoing, StartedAt: d.time(s.StartedAt), EndedAt: d.time(s.EndedAt), NextAt: d.time(s.NextAt),
		Output: raw(s.Output), Fault: d.fault(s.Fault), Note: s.Note, Actor: s.Actor,
	}
	out.AttemptAt = out.StartedAt
	if s.AttemptAt != "" {
		out.AttemptAt = d.time(s.AttemptAt)
	}
	if w := s.Wait; w != nil {
		out.Wait = &runtype.WaitRecord{Reason: w.Reason, Message: w.Message, Since: d.time(w.Since), Deadline: d.time(w.Deadline), Every: d.span(w.Every), Signal: w.Signal, Child: w.Child, Until: d.time(w.Until)}
	}
	if p := s.Progress; p != nil {
		out.Progress = &runtype.Progress{Done: p.Done, Total: p.Total, Text: p.Text, At: d.time(p.At), High: p.High}
	}
	for _, item := range s.Items {
		out.Items = append(out.Items, runtype.LoopItem{Key: item.Key, Value: raw(item.Value)})
	}
	return out
}

func eventOf(e *runtype.Event, after string) api.RunEvent {
	return api.RunEvent{At: timeText(e.At), Kind: string(e.Kind), Step: e.Step, Attempt: attemptOf(e.Attempt, defaultAttempt(e.Step)), Actor: e.Actor, Reason: e.Reason, Message: e.Message,
		Code: string(e.Code), Data: string(e.Data), After: after}
}

func (d *decoder) event(run string, seq int64, e *api.RunEvent) runtype.Event {
	return runtype.Event{Run: run, Seq: seq, At: d.time(e.At), Kind: runtype.EventKind(e.Kind), Step: e.Step, Attempt: attempt(e.Attempt, defaultAttempt(e.Step)), Actor: e.Actor, Reason: e.Reason,
		Message: e.Message, Code: fault.Code(e.Code), Data: raw(e.Data)}
}

func signalOf(s *runtype.Signal) api.RunSignal {
	return api.RunSignal{ID: s.ID, Name: s.Name, Payload: string(s.Payload), Actor: s.Actor, At: timeText(s.At)}
}

func (d *decoder) signal(s *api.RunSignal) runtype.Signal {
	return runtype.Signal{ID: s.ID, Name: s.Name, Payload: raw(s.Payload), Actor: s.Actor, At: d.time(s.At)}
}

// headOf returns the part of the status that every save replaces: all but the maps.
func headOf(r *runtype.Run) api.RunStatus {
	head := api.RunStatus{
		Phase: string(r.Phase), Version: r.Version, Hash: r.Hash, Revision: r.Revision, Epoch: r.Epoch, Owner: r.Owner, Queue: r.Queue,
		NextAt: timeText(r.NextAt), StartedAt: timeText(r.StartedAt), EndedAt: timeText(r.EndedAt), Seq: r.Seq, Ord: r.State.Ord, Seen: r.Mail,
		Fault: faultWithRemedy(r.Fault),
	}
	if s := r.Current(); s != nil {
		head.Step = s.Name
	}
	rest := r.State
	rest.Ord = 0
	if !reflect.ValueOf(&rest).Elem().IsZero() {
		head.State, _ = json.Marshal(rest)
	}
	return head
}

// specOf returns the part of a run that is written once.
func specOf(r *runtype.Run) api.RunSpec {
	return api.RunSpec{
		Flow: r.Flow, Subject: r.Subject, InputText: string(r.Input), Labels: r.Labels, RequestID: r.RequestID, Actor: r.Actor, Reason: r.Reason,
		Parent: r.Parent, ParentRef: r.ParentRef, Inline: r.Inline, Depth: r.Depth, CreatedAt: timeText(r.CreatedAt),
	}
}

// run decodes a run without its step records.
func (d *decoder) run(o *object) *runtype.Run {
	spec, st := &o.spec, &o.status
	r := &runtype.Run{
		ID: o.id(), Flow: spec.Flow, Version: st.Version, Hash: st.Hash, Subject: o.subject(), RequestID: spec.RequestID, Actor: spec.Actor, Reason: spec.Reason,
		Parent: spec.Parent, ParentRef: spec.ParentRef, Inline: spec.Inline, Depth: spec.Depth, Input: raw(spec.InputText),
		Phase: runtype.Phase(st.Phase), Revision: st.Revision, Epoch: st.Epoch, Owner: st.Owner, Queue: st.Queue, NextAt: d.time(st.NextAt),
		CreatedAt: d.time(spec.CreatedAt), StartedAt: d.time(st.StartedAt), EndedAt: d.time(st.EndedAt), Seq: st.Seq, Mail: spec.Mail, Fault: d.fault(st.Fault),
	}
	if len(spec.Labels) > 0 {
		r.Labels = make(map[string]string, len(spec.Labels))
		for key, value := range spec.Labels {
			r.Labels[key] = value
		}
	}
	if st.ID != "" {
		r.Input, r.RequestID, r.CreatedAt = raw(st.InputText), st.RequestID, d.time(st.CreatedAt)
	}
	if len(st.State) > 0 {
		if err := json.Unmarshal(st.State, &r.State); err != nil {
			d.fail("state", err)
		}
	}
	r.State.Ord = st.Ord
	return r
}

// load decodes a run with its step records and unread signals. STORE_CORRUPT if the
// object cannot be decoded.
func load(o *object) (runstore.Loaded, error) {
	d := &decoder{}
	r := d.run(o)
	records := make([]*runtype.StepRecord, 0, len(o.status.Steps)+4)
	for name, s := range o.status.Steps {
		records = append(records, d.step(name, &s))
	}
	r.Restore(records)
	signals := d.unread(o)
	if d.err != nil {
		return runstore.Loaded{}, runstore.StoreCorrupt.Errorf("run %s (object %s/%s): %w", r.ID, o.namespace, o.name, d.err)
	}
	return runstore.Loaded{Run: r, Signals: signals}, nil
}

// unread decodes the signals that are not consumed, in order of arrival.
func (d *decoder) unread(o *object) []runtype.Signal {
	var signals []runtype.Signal
	for _, key := range o.unread() {
		s := o.spec.Signals[key]
		signals = append(signals, d.signal(&s))
	}
	return signals
}
