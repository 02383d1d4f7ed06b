package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// LogsOf selects lines of a run.
type LogsOf struct {
	RunPath
	Step  string    `query:"step" doc:"only lines of this step (instance name) and of the steps inside it"`
	Since time.Time `query:"since" doc:"only lines that are not older"`
	Tail  int       `query:"tail" minimum:"0" maximum:"10000" doc:"begin with so many of the newest lines; 0: with the oldest"`
}

// LogReader reads the lines of a run: from write to write, and in the order of time what was written meanwhile.
type LogReader struct {
	Run *runtype.Run // with its steps, when the reader was made

	store runstore.Logs
	of    LogsOf
	at    logPosition
	read  bool           // the chunk at.chunk was read to its end
	ahead []view.LogLine // lines of the tail, to be returned first
}

// logPosition is how far a reader is: so many lines of a chunk, and all of the chunks before. Its text is a
// cursor.
type logPosition struct {
	chunk int64
	lines int
}

func (p logPosition) String() string { return fmt.Sprintf("%d-%d", p.chunk, p.lines) }

// chunkPage is how many chunks are read at once.
const chunkPage = 50

// LogReader returns a reader that begins behind a cursor; "": where the query says. NOT_FOUND, LOGS_NOT_KEPT,
// REQUEST_REFUSED
// if neither the run nor its flow has the step, CURSOR_INVALID.
func (s *Service) LogReader(ctx context.Context, of LogsOf, cursor string) (*LogReader, error) {
	l, err := s.Visible(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	store, ok := s.Engine.Store().(runstore.Logs)
	if !ok {
		return nil, runstore.LogsNotKept.Errorf("run %s", l.Run.ID)
	}
	if of.Step != "" && !s.hasStep(l.Run, of.Step) {
		return nil, workflow.RequestInvalid.Errorf("run %s has no step %q", l.Run.ID, of.Step)
	}
	r := &LogReader{Run: l.Run, store: store, of: of}
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "%d-%d", &r.at.chunk, &r.at.lines); err != nil || r.at.String() != cursor || r.at.chunk < 0 || r.at.lines < 0 {
			return nil, route.CursorInvalid.Errorf("cursor %q", cursor)
		}
		return r, nil
	}
	if of.Tail > 0 {
		err = r.seekTail(ctx)
	}
	return r, err
}

// healPrefix is before the code of a fault in the step under which its healer's lines are.
const healPrefix = "heal:"

// hasStep reports whether a run has reached a step, or may reach it.
func (s *Service) hasStep(r *runtype.Run, step string) bool {
	for rec := range r.Steps() {
		if isIn(rec.Name, step) {
			return true
		}
	}
	flow := s.Flow(r.Flow, r.Subject)
	if flow == nil || strings.HasPrefix(step, healPrefix) { // a healer's record is not among the steps
		return true
	}
	last := step[strings.LastIndexByte(step, '/')+1:]
	last, _, _ = strings.Cut(last, "[")
	var named func(steps []workflow.Step) bool
	named = func(steps []workflow.Step) bool {
		return slices.ContainsFunc(steps, func(one workflow.Step) bool {
			return one.Name == last || named(one.Steps) || one.Open != nil && one.Open.Name == last || one.Close != nil && one.Close.Name == last
		})
	}
	return named(flow.Steps) || named(flow.Finally)
}

// isIn reports whether an instance is a step or inside it: of the group Before, the loop Replace.
func isIn(instance, step string) bool {
	rest, ok := strings.CutPrefix(instance, step)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '[')
}

func (r *LogReader) selects(l view.LogLine) bool {
	return (r.of.Step == "" || isIn(l.Step, r.of.Step)) && !l.At.Before(r.of.Since)
}

// Cursor is the position behind the lines that were read; "": there is none within the tail.
func (r *LogReader) Cursor() string {
	if len(r.ahead) > 0 {
		return ""
	}
	return r.at.String()
}

// Next returns at most limit further lines in the order of time; none: there are no more yet.
func (r *LogReader) Next(ctx context.Context, limit int) ([]view.LogLine, error) {
	lines, err := r.next(ctx, limit)
	slices.SortStableFunc(lines, func(a, b view.LogLine) int { return a.At.Compare(b.At) })
	return lines, err
}

func (r *LogReader) next(ctx context.Context, limit int) ([]view.LogLine, error) {
	if len(r.ahead) > 0 {
		n := min(limit, len(r.ahead))
		lines := r.ahead[:n]
		r.ahead = r.ahead[n:]
		return lines, nil
	}
	var lines []view.LogLine
	for {
		after := r.at.chunk
		if !r.read {
			after--
		}
		page, err := r.store.ReadLogs(ctx, r.Run.ID, runstore.LogQuery{After: after, Limit: chunkPage})
		if err != nil {
			return nil, err
		}
		if r.at == (logPosition{}) && page.LeftOut > 0 && r.of.Since.IsZero() {
			lines = append(lines, view.LogsLeftOut(page.LeftOut))
		}
		for _, c := range page.Chunks {
			if len(lines) >= limit {
				return lines, nil
			}
			all := view.LogsOfChunk(c)
			if c.Number == r.at.chunk {
				all = all[len(all)-len(c.Lines)+min(r.at.lines, len(c.Lines)):]
			} else {
				r.at = logPosition{chunk: c.Number}
			}
			for _, l := range all {
				if len(lines) >= limit {
					r.read = false
					return lines, nil
				}
				if l.LeftOut == 0 {
					r.at.lines++
				}
				if r.selects(l) {
					lines = append(lines, l)
				}
			}
			r.read = true
		}
		if len(page.Chunks) < chunkPage {
			return lines, nil
		}
	}
}

// seekTail reads the newest lines ahead.
func (r *LogReader) seekTail(ctx context.Context) error {
	for before := int64(0); ; {
		page, err := r.store.ReadLogs(ctx, r.Run.ID, runstore.LogQuery{Before: before, Newest: true, Limit: chunkPage})
		if err != nil {
			return err
		}
		if len(page.Chunks) == 0 {
			return nil
		}
		newest := page.Chunks[len(page.Chunks)-1]
		if before == 0 {
			r.at, r.read = logPosition{newest.Number, len(newest.Lines)}, true
		}
		before = page.Chunks[0].Number
		var found []view.LogLine
		for _, c := range page.Chunks {
			for _, l := range view.LogsOfChunk(c) {
				if r.selects(l) {
					found = append(found, l)
				}
			}
		}
		r.ahead = append(found, r.ahead...)
		if extra := len(r.ahead) - r.of.Tail; extra >= 0 {
			r.ahead = r.ahead[extra:]
			return nil
		}
	}
}

// LogEnd says whether more lines can come.
type LogEnd int

// The values of LogEnd. The zero value: more can come.
const (
	LogOpen    LogEnd = iota
	LogSettled        // the step has ended, but its run goes on: its last lines are stored soon
	LogEnded          // all lines are stored
)

// End says whether more lines can come, by a head of the run; nil: the run was removed.
func (s *Service) End(ctx context.Context, r *LogReader, head *runtype.Run) (LogEnd, error) {
	switch {
	case head == nil || head.Phase.Final():
		return LogEnded, nil
	case r.of.Step == "":
		return LogOpen, nil
	}
	run, err := s.Engine.Get(ctx, r.Run.ID)
	if fault.Of(err) == workflow.RunNotFound {
		return LogEnded, nil
	}
	if err != nil {
		return LogOpen, err
	}
	rec := run.Step(r.of.Step)
	switch {
	case run.Phase.Final():
		return LogEnded, nil
	case rec == nil || !rec.Phase.Settled():
		return LogOpen, nil
	case run.Owner == "": // a worker stores the lines before it releases the run
		return LogEnded, nil
	}
	return LogSettled, nil
}

func (s *Service) logs(ctx context.Context, in *struct {
	LogsOf
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
	Cursor string `query:"cursor" doc:"next of the previous page; tail does not count then"`
}) (*route.One[view.Logs], error) {
	r, err := s.LogReader(ctx, in.LogsOf, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	if in.Cursor == "" {
		limit = max(limit, in.Tail)
	}
	lines, err := r.Next(ctx, limit)
	if err != nil {
		return nil, err
	}
	page := view.Logs{Items: append([]view.LogLine{}, lines...)}
	if len(lines) >= limit && in.Tail == 0 {
		page.Next = r.Cursor()
	}
	return route.OneOf(page, nil)
}
