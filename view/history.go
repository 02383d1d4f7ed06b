package view

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Event is the JSON form of an event of a run.
type Event struct {
	Run     string            `json:"run"`
	Seq     int64             `json:"seq" doc:"without gaps within the run, from 1"`
	At      time.Time         `json:"at"`
	Kind    runtype.EventKind `json:"kind"`
	Step    string            `json:"step,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Message string            `json:"message,omitempty"`
	Code    fault.Code        `json:"code,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
}

// History is one page of a run's events.
type History struct {
	Items []Event `json:"items"`
	Next  string  `json:"next,omitempty" doc:"cursor of the next page; absent: this is the last"`
}

// OfEvents returns the JSON form of events.
func OfEvents(events []runtype.Event) []Event {
	out := make([]Event, len(events))
	for i, e := range events {
		out[i] = Event(e)
	}
	return out
}

// HistoryLines returns the text of `pawl history`. Times are without the date if all
// events are of one day.
func HistoryLines(events []Event, style Style) []string {
	layout := "15:04:05.000Z07:00"
	for _, e := range events {
		if style.clock(e.At, time.DateOnly) != style.clock(events[0].At, time.DateOnly) {
			layout = "2006-01-02T15:04:05.000Z07:00"
		}
	}
	kind, step, seq := 0, 0, 2
	for _, e := range events {
		kind, step = max(kind, len(e.Kind)), max(step, len([]rune(e.Step)))
		seq = max(seq, len(strconv.FormatInt(e.Seq, 10)))
	}
	lines := make([]string, len(events))
	for i, e := range events {
		number := ""
		if e.Attempt > 0 {
			number = strconv.Itoa(e.Attempt)
		}
		line := fmt.Sprintf("%*d  %s  %s  %s  %s  %s", seq, e.Seq, style.clock(e.At, layout), pad(string(e.Kind), kind), pad(e.Step, step), pad(number, 2), eventText(e))
		lines[i] = style.paint(eventColor(e.Kind), style.cut(strings.TrimRight(line, " ")))
	}
	return lines
}

// eventText returns the code, message, actor and reason of an event.
func eventText(e Event) string {
	who := ""
	if e.Actor != "" {
		who = "by " + e.Actor
	}
	return join("  ", string(e.Code), oneLine(e.Message), join(": ", who, oneLine(e.Reason)))
}

func eventColor(kind runtype.EventKind) color {
	switch kind {
	case runtype.StepFailedEvent, runtype.RunPaused, runtype.StepLost, runtype.RequestRefused:
		return red
	case runtype.RunSucceeded, runtype.StepDoneEvent:
		return green
	default:
		return plain
	}
}
