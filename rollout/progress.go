package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// progress is where a rollout stands, and what has happened on the way.
type progress struct {
	asked      Plan // as the user wrote it
	at         Position
	now        time.Time
	generation int64 // of the workload
	records    []Record
	hash       string // of asked
}

// send is one transition, with its record.
func (s *progress) send(e Event, by, why string) {
	from := s.at
	next, legal := Transition(s.at, e)
	s.at = next
	if next.State == from.State && next.BatchState == from.BatchState && next.CurrentBatch == from.CurrentBatch && legal {
		return
	}
	s.record(from, e, by, why)
	if !legal && !from.State.Terminal() {
		s.at.Failure = failureOf(IllegalEvent.Errorf("event %s in state %s/%s", e, from.State, from.BatchState))
	}
}

func (s *progress) record(from Position, e Event, by, why string) {
	if by == "" {
		by = "controller"
	}
	s.at.Sequence++
	r := Record{
		Sequence: s.at.Sequence, Time: s.now, From: from.place(), To: s.at.place(), Event: e, By: by, Why: why,
		Batch: s.at.CurrentBatch, Generation: s.generation, Plan: s.planHash(), Values: s.at.values(),
	}
	s.records = append(s.records, r)
}

func (at Position) place() string {
	if at.State == InBatch || at.State == RollingBack {
		return string(at.State) + "/" + string(at.BatchState)
	}
	return string(at.State)
}

// planHash names the plan as the user wrote it.
func (s *progress) planHash() string {
	if s.hash == "" {
		text, err := json.Marshal(s.asked)
		if err != nil {
			return ""
		}
		sum := sha256.Sum256(text)
		s.hash = hex.EncodeToString(sum[:6])
	}
	return s.hash
}

// lastRecord is the record that was written last.
func (s *progress) lastRecord() *Record { return &s.records[len(s.records)-1] }

func (s *progress) pause(by PausedBy, key, reason, message string) {
	from := s.at
	s.record(from, PausedEvent, "", message)
	s.at.Pause = &Pause{ID: "pause-" + strconv.Itoa(s.at.Sequence), By: by, Key: key, Reason: reason, Message: message, Since: s.now}
}

// resume ends a pause; no deadline counts the time that it lasted.
func (s *progress) resume(why, by, request string) {
	excused := Duration(s.now.Sub(s.at.Pause.Since))
	s.at.Excused += excused
	if b, ok := s.at.Batches[s.at.CurrentBatch]; ok {
		b.Excused += excused
		s.at.Batches[s.at.CurrentBatch] = b
	}
	s.at.Pause = nil
	s.record(s.at, ResumedEvent, by, why)
	s.lastRecord().Request = request
}

// begin starts the clock of a batch.
func (s *progress) begin() {
	b := s.at.Batches[s.at.CurrentBatch]
	b.Start, b.End, b.Excused, b.NoDeadline = &s.now, nil, 0, false
	s.at.Batches[s.at.CurrentBatch] = b
	s.at.Answers, s.at.Verified = nil, nil
}

// values are those of the metrics and gates that have one.
func (at Position) values() map[string]string {
	values := map[string]string{}
	for key, a := range at.Answers {
		if a.Value != "" {
			values[key] = a.Value
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

func failureOf(err error) *Failure {
	return &Failure{Reason: fault.Of(err).Reason(), Message: fault.Message(err)}
}
