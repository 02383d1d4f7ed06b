package codec

import (
	"reflect"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Bits of a step record's optional fields. They are part of the format: append only.
const (
	bitRound    = iota
	bitAttempts // not 1
	bitFailures
	bitUncharged
	bitLost
	bitAlone
	bitUndoing
	bitReopened // AttemptAt differs from StartedAt
	bitEnded
	bitNext
	bitOutput
	bitFault
	bitWait
	bitProgress
	bitItems
	bitNote
	bitActor
)

func (e *encoder) record(s *runtype.StepRecord) {
	var f flags
	f.set(bitRound, s.Round != 0)
	f.set(bitAttempts, s.Attempt != 1)
	f.set(bitFailures, s.Failures != 0)
	f.set(bitUncharged, s.Uncharged != 0 || !s.UnchargedSince.IsZero())
	f.set(bitLost, s.Lost != 0)
	f.set(bitAlone, s.Isolated)
	f.set(bitUndoing, s.Undoing)
	f.set(bitReopened, !s.AttemptAt.Equal(s.StartedAt))
	f.set(bitEnded, !s.EndedAt.IsZero())
	f.set(bitNext, !s.NextAt.IsZero())
	f.set(bitOutput, s.Output != nil)
	f.set(bitFault, s.Fault != nil)
	f.set(bitWait, s.Wait != nil)
	f.set(bitProgress, s.Progress != nil)
	f.set(bitItems, s.Items != nil)
	f.set(bitNote, s.Note != "")
	f.set(bitActor, s.Actor != "")

	e.text(s.Name)
	name(e, recordPhases, s.Phase)
	e.uint(uint64(f))
	e.int(s.Ord)
	e.time(s.StartedAt)
	if f.has(bitRound) {
		e.int(int64(s.Round))
	}
	if f.has(bitAttempts) {
		e.int(int64(s.Attempt))
	}
	if f.has(bitFailures) {
		e.int(int64(s.Failures))
	}
	if f.has(bitUncharged) {
		e.int(int64(s.Uncharged))
		e.time(s.UnchargedSince)
	}
	if f.has(bitLost) {
		e.int(int64(s.Lost))
	}
	if f.has(bitReopened) {
		e.time(s.AttemptAt)
	}
	if f.has(bitEnded) {
		e.time(s.EndedAt)
	}
	if f.has(bitNext) {
		e.time(s.NextAt)
	}
	if f.has(bitOutput) {
		e.bytes(s.Output)
	}
	if f.has(bitFault) {
		e.fault(s.Fault)
	}
	if f.has(bitWait) {
		e.wait(s.Wait)
	}
	if f.has(bitProgress) {
		e.progress(s.Progress)
	}
	if f.has(bitItems) {
		e.uint(uint64(len(s.Items)))
		for _, item := range s.Items {
			e.text(item.Key)
			e.bytes(item.Value)
		}
	}
	if f.has(bitNote) {
		e.text(s.Note)
	}
	if f.has(bitActor) {
		e.text(s.Actor)
	}
}

func (d *decoder) record() *runtype.StepRecord {
	s := &runtype.StepRecord{Name: d.text(), Phase: named(d, recordPhases), Attempt: 1}
	f := flags(d.uint())
	s.Ord = d.int()
	s.StartedAt = d.time()
	s.Isolated, s.Undoing = f.has(bitAlone), f.has(bitUndoing)
	if f.has(bitRound) {
		s.Round = int(d.int())
	}
	if f.has(bitAttempts) {
		s.Attempt = int(d.int())
	}
	if f.has(bitFailures) {
		s.Failures = int(d.int())
	}
	if f.has(bitUncharged) {
		s.Uncharged = int(d.int())
		s.UnchargedSince = d.time()
	}
	if f.has(bitLost) {
		s.Lost = int(d.int())
	}
	s.AttemptAt = s.StartedAt
	if f.has(bitReopened) {
		s.AttemptAt = d.time()
	}
	if f.has(bitEnded) {
		s.EndedAt = d.time()
	}
	if f.has(bitNext) {
		s.NextAt = d.time()
	}
	if f.has(bitOutput) {
		s.Output = d.bytes()
	}
	if f.has(bitFault) {
		s.Fault = d.fault()
	}
	if f.has(bitWait) {
		s.Wait = d.wait()
	}
	if f.has(bitProgress) {
		s.Progress = d.progress()
	}
	if f.has(bitItems) {
		s.Items = []runtype.LoopItem{}
		for n := d.uint(); n > 0 && d.err == nil; n-- {
			s.Items = append(s.Items, runtype.LoopItem{Key: d.text(), Value: d.bytes()})
		}
	}
	if f.has(bitNote) {
		s.Note = d.text()
	}
	if f.has(bitActor) {
		s.Actor = d.text()
	}
	return s
}

func (e *encoder) fault(f *runtype.Fault) {
	var has flags
	has.set(0, f.Details != nil)
	has.set(1, f.Exhausted)
	e.uint(uint64(has))
	e.text(string(f.Code))
	e.text(f.Message)
	e.text(f.Step)
	e.int(int64(f.Attempt))
	e.time(f.At)
	e.text(f.Healer)
	if has.has(0) {
		e.json(f.Details)
	}
}

func (d *decoder) fault() *runtype.Fault {
	has := flags(d.uint())
	f := &runtype.Fault{Code: fault.Code(d.text()), Message: d.text(), Step: d.text(), Attempt: int(d.int()), At: d.time(), Healer: d.text()}
	f.Exhausted = has.has(1)
	if has.has(0) {
		value, err := runtype.Decode(d.part())
		details, ok := value.(map[string]any)
		if d.err == nil && (err != nil || !ok) {
			d.fail("details of a fault")
		}
		f.Details = details
	}
	return f
}

func (e *encoder) wait(w *runtype.WaitRecord) {
	e.text(w.Reason)
	e.text(w.Message)
	e.time(w.Since)
	e.time(w.Deadline)
	e.int(int64(w.Every))
	e.text(w.Signal)
	e.text(w.Child)
	e.time(w.Until)
}

func (d *decoder) wait() *runtype.WaitRecord {
	return &runtype.WaitRecord{Reason: d.text(), Message: d.text(), Since: d.time(), Deadline: d.time(),
		Every: time.Duration(d.int()), Signal: d.text(), Child: d.text(), Until: d.time()}
}

func (e *encoder) progress(p *runtype.Progress) {
	e.int(p.Done)
	e.int(p.Total)
	e.text(p.Text)
	e.time(p.At)
	e.int(p.High)
}

func (d *decoder) progress() *runtype.Progress {
	return &runtype.Progress{Done: d.int(), Total: d.int(), Text: d.text(), At: d.time(), High: d.int()}
}

// AppendBirth writes the fields of a run that never change and have no column.
func AppendBirth(b []byte, r *runtype.Run) []byte {
	e := newEncoder(b)
	e.text(r.RequestID)
	e.text(r.Actor)
	e.text(r.Reason)
	e.text(r.ParentRef)
	e.int(int64(r.Depth))
	if e.uint(uint64(len(r.Labels))); len(r.Labels) > 0 {
		e.json(r.Labels)
	}
	if len(r.Limits) > 0 || r.Priority != 0 {
		e.int(int64(r.Priority))
		if e.uint(uint64(len(r.Limits))); len(r.Limits) > 0 {
			e.json(r.Limits)
		}
	}
	return e.b
}

// ReadBirth reads what a run keeps from its creation into r.
func ReadBirth(data []byte, r *runtype.Run) error {
	d := newDecoder(data)
	r.RequestID, r.Actor, r.Reason, r.ParentRef, r.Depth = d.text(), d.text(), d.text(), d.text(), int(d.int())
	if d.uint() > 0 {
		d.json(&r.Labels)
	}
	if len(d.b) > 0 {
		r.Priority = int(d.int())
		if d.uint() > 0 {
			d.json(&r.Limits)
		}
	}
	return d.err
}

// Bits of a body. They are part of the format: append only.
const (
	bodyStarted = iota
	bodyNext
	bodyFault
	bodyState
)

// AppendBody writes the fields of a run that change and have no column, and its open
// records. numbers are the store's own (numbers of its rows).
func AppendBody(b []byte, r *runtype.Run, open []*runtype.StepRecord, numbers ...int64) []byte {
	rest := r.State
	rest.Ord = 0
	var f flags
	f.set(bodyStarted, !r.StartedAt.IsZero())
	f.set(bodyNext, !r.NextAt.IsZero())
	f.set(bodyFault, r.Fault != nil)
	f.set(bodyState, !reflect.ValueOf(&rest).Elem().IsZero())

	e := newEncoder(b)
	e.uint(uint64(f))
	for _, n := range numbers {
		e.int(n)
	}
	e.int(r.Seq)
	e.int(r.State.Ord)
	if f.has(bodyStarted) {
		e.time(r.StartedAt)
	}
	if f.has(bodyNext) {
		e.time(r.NextAt)
	}
	if f.has(bodyFault) {
		e.fault(r.Fault)
	}
	if f.has(bodyState) {
		e.json(rest)
	}
	e.uint(uint64(len(open)))
	for _, s := range open {
		e.record(s)
	}
	return e.b
}

// ReadBody reads the body of a run into r, and returns the open records. numbers receive the
// numbers before the body, in the order in which they were written.
func ReadBody(data []byte, r *runtype.Run, numbers ...*int64) (open []*runtype.StepRecord, err error) {
	d := newDecoder(data)
	f := flags(d.uint())
	for _, n := range numbers {
		*n = d.int()
	}
	r.Seq = d.int()
	ord := d.int()
	if f.has(bodyStarted) {
		r.StartedAt = d.time()
	}
	if f.has(bodyNext) {
		r.NextAt = d.time()
	}
	if f.has(bodyFault) {
		r.Fault = d.fault()
	}
	if f.has(bodyState) {
		d.json(&r.State)
	}
	r.State.Ord = ord
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		open = append(open, d.record())
	}
	return open, d.err
}

// AppendRecords writes the records that a save has settled.
func AppendRecords(b []byte, records []*runtype.StepRecord, numbers ...int64) []byte {
	e := newEncoder(b)
	for _, n := range numbers {
		e.int(n)
	}
	e.uint(uint64(len(records)))
	for _, s := range records {
		e.record(s)
	}
	return e.b
}

// ReadRecords reads records of steps. numbers receive the numbers before them.
func ReadRecords(data []byte, numbers ...*int64) (records []*runtype.StepRecord, err error) {
	d := newDecoder(data)
	for _, n := range numbers {
		*n = d.int()
	}
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		records = append(records, d.record())
	}
	return records, d.err
}

// Bits of an event. They are part of the format: append only.
const (
	eventStep = iota
	eventAttempt
	eventActor
	eventReason
	eventMessage
	eventCode
	eventData
)

// AppendEvents writes the events of one save.
func AppendEvents(b []byte, events []runtype.Event, numbers ...int64) []byte {
	e := newEncoder(b)
	for _, n := range numbers {
		e.int(n)
	}
	e.uint(uint64(len(events)))
	seq := int64(0)
	for i := range events {
		v := &events[i]
		var f flags
		f.set(eventStep, v.Step != "")
		f.set(eventAttempt, v.Attempt != 0)
		f.set(eventActor, v.Actor != "")
		f.set(eventReason, v.Reason != "")
		f.set(eventMessage, v.Message != "")
		f.set(eventCode, v.Code != "")
		f.set(eventData, v.Data != nil)
		e.b = append(e.b, byte(f))
		name(&e, runtype.EventKinds, v.Kind)
		e.int(v.Seq - seq)
		seq = v.Seq
		e.time(v.At)
		if f.has(eventStep) {
			e.text(v.Step)
		}
		if f.has(eventAttempt) {
			e.int(int64(v.Attempt))
		}
		if f.has(eventActor) {
			e.text(v.Actor)
		}
		if f.has(eventReason) {
			e.text(v.Reason)
		}
		if f.has(eventMessage) {
			e.text(v.Message)
		}
		if f.has(eventCode) {
			e.text(string(v.Code))
		}
		if f.has(eventData) {
			e.bytes(v.Data)
		}
	}
	return e.b
}

// ReadEvents reads events of a run. numbers receive the numbers before them.
func ReadEvents(run string, data []byte, numbers ...*int64) (events []runtype.Event, err error) {
	d := newDecoder(data)
	for _, n := range numbers {
		*n = d.int()
	}
	seq := int64(0)
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		if len(d.b) == 0 {
			d.fail("an event is cut off")
			break
		}
		f := flags(d.b[0])
		d.b = d.b[1:]
		v := runtype.Event{Run: run, Kind: named(d, runtype.EventKinds)}
		seq += d.int()
		v.Seq = seq
		v.At = d.time()
		if f.has(eventStep) {
			v.Step = d.text()
		}
		if f.has(eventAttempt) {
			v.Attempt = int(d.int())
		}
		if f.has(eventActor) {
			v.Actor = d.text()
		}
		if f.has(eventReason) {
			v.Reason = d.text()
		}
		if f.has(eventMessage) {
			v.Message = d.text()
		}
		if f.has(eventCode) {
			v.Code = fault.Code(d.text())
		}
		if f.has(eventData) {
			v.Data = d.bytes()
		}
		events = append(events, v)
	}
	return events, d.err
}

// CountEvents returns how many events ReadEvents would read, and whether one is of these kinds. It allocates nothing.
func CountEvents(data []byte, kinds []runtype.EventKind, numbers ...*int64) (n int, found bool, err error) {
	d := newDecoder(data)
	for _, n := range numbers {
		*n = d.int()
	}
	for left := d.uint(); left > 0 && d.err == nil; left-- {
		if len(d.b) == 0 {
			d.fail("an event is cut off")
			break
		}
		f := flags(d.b[0])
		d.b = d.b[1:]
		found = slices.Contains(kinds, named(d, runtype.EventKinds)) || found
		d.int() // of the run
		d.time()
		if f.has(eventStep) {
			d.part()
		}
		if f.has(eventAttempt) {
			d.int()
		}
		for _, text := range [...]int{eventActor, eventReason, eventMessage, eventCode, eventData} {
			if f.has(text) {
				d.part()
			}
		}
		n++
	}
	return n, found, d.err
}

// AppendSignal writes a signal without its id.
func AppendSignal(b []byte, s *runtype.Signal) []byte {
	e := newEncoder(b)
	e.text(s.Name)
	e.text(s.Actor)
	e.time(s.At)
	if e.uint(uint64(min(len(s.Payload), 1))); len(s.Payload) > 0 {
		e.bytes(s.Payload)
	}
	return e.b
}

// ReadSignal reads a signal with this id.
func ReadSignal(id string, data []byte) (runtype.Signal, error) {
	d := newDecoder(data)
	s := runtype.Signal{ID: id, Name: d.text(), Actor: d.text(), At: d.time()}
	if d.uint() > 0 {
		s.Payload = d.bytes()
	}
	return s, d.err
}
