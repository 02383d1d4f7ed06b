package format

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TimeText formats a time as RFC 3339 in UTC with nanoseconds; "" for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// zeroTime is the text of the zero time where "" means something else.
const zeroTime = "0001-01-01T00:00:00Z"

// Decoder reads the fields of objects, and keeps the first error in Err.
type Decoder struct{ Err error }

func (d *Decoder) fail(what string, err error) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%s: %w", what, err)
	}
}

// Time reads a time; "" is the zero time.
func (d *Decoder) Time(text string) time.Time {
	if text == "" || text == zeroTime {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.fail("a time", err)
	}
	return t.UTC()
}

func (d *Decoder) span(text string) time.Duration {
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

// Number formats a number as a map key that sorts as text.
func Number(n int64) string { return fmt.Sprintf("%06d", n) }

// Number reads the number that is a key.
func (d *Decoder) Number(key string) int64 {
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
	out := &api.RunFault{Code: string(f.Code), Message: f.Message, Step: f.Step, Attempt: f.Attempt, At: TimeText(f.At), Exhausted: f.Exhausted, Healer: f.Healer}
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

// KindOf returns the kind of a code, or UNKNOWN for a code that this program does not know.
func KindOf(code fault.Code) *fault.Kind {
	if kind, ok := fault.Lookup(string(code)); ok {
		return kind
	}
	return fault.Unknown
}

func (d *Decoder) fault(f *api.RunFault) *runtype.Fault {
	if f == nil {
		return nil
	}
	out := &runtype.Fault{Code: fault.Code(f.Code), Message: f.Message, Step: f.Step, Attempt: f.Attempt, At: d.Time(f.At), Exhausted: f.Exhausted, Healer: f.Healer}
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

// StepOf returns a step as an object has it.
func StepOf(s *runtype.StepRecord) api.RunStep {
	out := api.RunStep{
		Phase: string(s.Phase), Ord: s.Ord, Round: s.Round, Attempt: attemptOf(s.Attempt, 1), Failures: s.Failures, Uncharged: s.Uncharged, UnchargedSince: TimeText(s.UnchargedSince),
		Lost: s.Lost, Isolated: s.Isolated, Undoing: s.Undoing, StartedAt: TimeText(s.StartedAt), EndedAt: TimeText(s.EndedAt), NextAt: TimeText(s.NextAt),
		Output: string(s.Output), Fault: faultOf(s.Fault), Note: s.Note, Actor: s.Actor,
	}
	if !s.AttemptAt.Equal(s.StartedAt) {
		out.AttemptAt = TimeText(s.AttemptAt)
		if s.AttemptAt.IsZero() {
			out.AttemptAt = zeroTime
		}
	}
	if w := s.Wait; w != nil {
		out.Wait = &api.RunWait{Reason: w.Reason, Message: w.Message, Since: TimeText(w.Since), Deadline: TimeText(w.Deadline), Signal: w.Signal, Child: w.Child, Until: TimeText(w.Until)}
		if w.Every != 0 {
			out.Wait.Every = w.Every.String()
		}
	}
	if p := s.Progress; p != nil {
		out.Progress = &api.RunProgress{Done: p.Done, Total: p.Total, Text: p.Text, At: TimeText(p.At), High: p.High}
	}
	for _, item := range s.Items {
		out.Items = append(out.Items, api.RunItem{Key: item.Key, Value: string(item.Value)})
	}
	return out
}

// Step reads a step.
func (d *Decoder) Step(name string, s *api.RunStep) *runtype.StepRecord {
	out := &runtype.StepRecord{
		Name: name, Phase: runtype.StepPhase(s.Phase), Ord: s.Ord, Round: s.Round, Attempt: attempt(s.Attempt, 1), Failures: s.Failures, Uncharged: s.Uncharged, UnchargedSince: d.Time(s.UnchargedSince),
		Lost: s.Lost, Isolated: s.Isolated, Undoing: s.Undoing, StartedAt: d.Time(s.StartedAt), EndedAt: d.Time(s.EndedAt), NextAt: d.Time(s.NextAt),
		Output: raw(s.Output), Fault: d.fault(s.Fault), Note: s.Note, Actor: s.Actor,
	}
	out.AttemptAt = out.StartedAt
	if s.AttemptAt != "" {
		out.AttemptAt = d.Time(s.AttemptAt)
	}
	if w := s.Wait; w != nil {
		out.Wait = &runtype.WaitRecord{Reason: w.Reason, Message: w.Message, Since: d.Time(w.Since), Deadline: d.Time(w.Deadline), Every: d.span(w.Every), Signal: w.Signal, Child: w.Child, Until: d.Time(w.Until)}
	}
	if p := s.Progress; p != nil {
		out.Progress = &runtype.Progress{Done: p.Done, Total: p.Total, Text: p.Text, At: d.Time(p.At), High: p.High}
	}
	for _, item := range s.Items {
		out.Items = append(out.Items, runtype.LoopItem{Key: item.Key, Value: raw(item.Value)})
	}
	return out
}

// EventOf returns an event as an object has it; after is the time of the event before.
func EventOf(e *runtype.Event, after string) api.RunEvent {
	return api.RunEvent{At: TimeText(e.At), Kind: string(e.Kind), Step: e.Step, Attempt: attemptOf(e.Attempt, defaultAttempt(e.Step)), Actor: e.Actor, Reason: e.Reason, Message: e.Message,
		Code: string(e.Code), Data: string(e.Data), After: after}
}

// Event reads an event.
func (d *Decoder) Event(run string, seq int64, e *api.RunEvent) runtype.Event {
	return runtype.Event{Run: run, Seq: seq, At: d.Time(e.At), Kind: runtype.EventKind(e.Kind), Step: e.Step, Attempt: attempt(e.Attempt, defaultAttempt(e.Step)), Actor: e.Actor, Reason: e.Reason,
		Message: e.Message, Code: fault.Code(e.Code), Data: raw(e.Data)}
}

// SignalOf returns a signal as an object has it.
func SignalOf(s *runtype.Signal) api.RunSignal {
	return api.RunSignal{ID: s.ID, Name: s.Name, Payload: string(s.Payload), Actor: s.Actor, At: TimeText(s.At)}
}

// Signal reads a signal.
func (d *Decoder) Signal(s *api.RunSignal) runtype.Signal {
	return runtype.Signal{ID: s.ID, Name: s.Name, Payload: raw(s.Payload), Actor: s.Actor, At: d.Time(s.At)}
}

// HeadOf returns the part of the status that every save replaces: all but the maps.
func HeadOf(r *runtype.Run) api.RunStatus {
	head := api.RunStatus{
		Phase: string(r.Phase), Version: r.Version, Hash: r.Hash, Revision: r.Revision, Epoch: r.Epoch, Owner: r.Owner, Queue: r.Queue,
		NextAt: TimeText(r.NextAt), StartedAt: TimeText(r.StartedAt), EndedAt: TimeText(r.EndedAt), Seq: r.Seq, Ord: r.State.Ord, Seen: r.Mail,
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

// SpecOf returns the part of a run that is written once.
func SpecOf(r *runtype.Run) api.RunSpec {
	return api.RunSpec{
		Flow: r.Flow, Subject: r.Subject, InputText: string(r.Input), Labels: r.Labels, RequestID: r.RequestID, Actor: r.Actor, Reason: r.Reason,
		Parent: r.Parent, ParentRef: r.ParentRef, Inline: r.Inline, Depth: r.Depth, CreatedAt: TimeText(r.CreatedAt),
	}
}

// Run decodes a run without its step records.
func (d *Decoder) Run(o *Object) *runtype.Run {
	spec, st := &o.Spec, &o.Status
	r := &runtype.Run{
		ID: o.ID(), Flow: spec.Flow, Version: st.Version, Hash: st.Hash, Subject: o.Subject(), RequestID: spec.RequestID, Actor: spec.Actor, Reason: spec.Reason,
		Parent: spec.Parent, ParentRef: spec.ParentRef, Inline: spec.Inline, Depth: spec.Depth, Input: raw(spec.InputText),
		Phase: runtype.Phase(st.Phase), Revision: st.Revision, Epoch: st.Epoch, Owner: st.Owner, Queue: st.Queue, NextAt: d.Time(st.NextAt),
		CreatedAt: d.Time(spec.CreatedAt), StartedAt: d.Time(st.StartedAt), EndedAt: d.Time(st.EndedAt), Seq: st.Seq, Mail: spec.Mail, Fault: d.fault(st.Fault),
	}
	if len(spec.Labels) > 0 {
		r.Labels = make(map[string]string, len(spec.Labels))
		for key, value := range spec.Labels {
			r.Labels[key] = value
		}
	}
	if st.ID != "" {
		r.Input, r.RequestID, r.CreatedAt = raw(st.InputText), st.RequestID, d.Time(st.CreatedAt)
	}
	if len(st.State) > 0 {
		if err := json.Unmarshal(st.State, &r.State); err != nil {
			d.fail("state", err)
		}
	}
	r.State.Ord = st.Ord
	return r
}

// Load decodes a run with its step records and unread signals. STORE_CORRUPT if the
// object cannot be decoded.
func Load(o *Object) (runstore.Loaded, error) {
	d := &Decoder{}
	r := d.Run(o)
	records := make([]*runtype.StepRecord, 0, len(o.Status.Steps)+4)
	for name, s := range o.Status.Steps {
		records = append(records, d.Step(name, &s))
	}
	r.Restore(records)
	signals := d.unread(o)
	if d.Err != nil {
		return runstore.Loaded{}, runstore.StoreCorrupt.Errorf("run %s (object %s/%s): %w", r.ID, o.Namespace, o.Name, d.Err)
	}
	return runstore.Loaded{Run: r, Signals: signals}, nil
}

// unread decodes the signals that are not consumed, in order of arrival.
func (d *Decoder) unread(o *Object) []runtype.Signal {
	var signals []runtype.Signal
	for _, key := range o.Unread() {
		s := o.Spec.Signals[key]
		signals = append(signals, d.Signal(&s))
	}
	return signals
}
