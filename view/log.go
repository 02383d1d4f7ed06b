package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// LogLine is the JSON form of a line that a step has printed.
type LogLine struct {
	At      time.Time          `json:"at"`
	Step    string             `json:"step,omitempty" doc:"instance name; of a healer heal:CODE; absent: leftOut is of the whole run"`
	Round   int                `json:"round,omitempty"`
	Attempt int                `json:"attempt,omitempty" doc:"in its round, from 1"`
	Undo    bool               `json:"undo,omitempty" doc:"the attempt takes the step back"`
	Stream  runstore.LogStream `json:"stream,omitempty" enum:"stdout,stderr,log"`
	Text    string             `json:"text"`
	LeftOut int64              `json:"leftOut,omitempty" doc:"bytes that were printed here and are not kept; the text says so too"`
}

// Logs is one page of a run's lines.
type Logs struct {
	Items []LogLine `json:"items"`
	Next  string    `json:"next,omitempty" doc:"cursor of the next page; absent: this is the last"`
}

// LogsOfChunk returns the lines of a chunk; the first one tells what was left out before them.
func LogsOfChunk(c runstore.LogChunk) []LogLine {
	lines := make([]LogLine, 0, len(c.Lines)+1)
	line := LogLine{Step: c.Step, Round: c.Round, Attempt: c.Attempt, Undo: c.Undo}
	if c.LeftOut > 0 && len(c.Lines) > 0 {
		line.At, line.LeftOut, line.Text = c.Lines[0].At, c.LeftOut, fmt.Sprintf("[%d bytes left out]", c.LeftOut)
		lines = append(lines, line)
		line.LeftOut = 0
	}
	for _, l := range c.Lines {
		line.At, line.Stream, line.Text = l.At, l.Stream, l.Text
		lines = append(lines, line)
	}
	return lines
}

// LogsLeftOut is the line that says how much of a run's logs is not kept.
func LogsLeftOut(bytes int64) LogLine {
	return LogLine{LeftOut: bytes, Text: fmt.Sprintf("[%d bytes of the oldest lines of the run left out]", bytes)}
}

// RunLogLine is a line of one of several runs.
type RunLogLine struct {
	Run string `json:"run"`
	LogLine
}

// LogPrefix says what `pawl logs` begins a line with.
type LogPrefix struct {
	Time bool   // in UTC
	Run  string // empty: no run is named
	Step bool   // step and attempt
}

// LogText returns the text of `pawl logs` for a line.
func LogText(l LogLine, prefix LogPrefix, style Style) string {
	var b strings.Builder
	if prefix.Time && !l.At.IsZero() {
		b.WriteString(l.At.UTC().Format("2006-01-02T15:04:05.000Z") + " ")
	}
	step := ""
	if prefix.Step && l.Step != "" {
		step = fmt.Sprintf("%s %d", l.Step, l.Attempt)
		if l.Round > 0 {
			step += fmt.Sprintf(" round %d", l.Round+1)
		}
		if l.Undo {
			step += " undo"
		}
	}
	if name := join(" ", prefix.Run, step); name != "" {
		b.WriteString(style.paint(green, "["+name+"]") + " ")
	}
	if l.LeftOut > 0 {
		return b.String() + style.paint(red, l.Text)
	}
	return b.String() + l.Text
}
