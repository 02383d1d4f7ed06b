package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

const (
	// logRuns is the number of newest runs of a subject whose logs are printed.
	logRuns = 50
	// logOverlap is read again when following begins: lines of steps that work at once are saved in another order
	// than they were printed.
	logOverlap = 5 * time.Second
)

// subject is what runs work on: an object or a container cluster.
type subject struct {
	ref   string
	query runstore.Query
	gone  func(ctx context.Context) bool
}

// logged reads the arguments of logs: a run or a subject, and a step.
func (a verbs) logged(ctx context.Context, b backend.Backend, args []string, namespace string) (r view.Run, s *subject, step string, err error) {
	named := 2 // words before STEP
	if len(args) == 1 || strings.Contains(args[0], "/") {
		named = 1
	}
	id, isRun := cli.RunOf(args[:named])
	if !isRun && named == 2 && len(args) == 2 { // RUN STEP, or KIND NAME
		r, err = b.Run(ctx, args[0])
		if err == nil {
			return r, nil, args[1], nil
		}
		if fault.Of(err) != workflow.RunNotFound {
			return r, nil, "", err
		}
	}
	if len(args) > named+1 {
		return r, nil, "", cli.Usage.Errorf("%s is one argument too many", args[named+1])
	}
	if len(args) > named {
		step = args[named]
	}
	if isRun {
		r, err = b.Run(ctx, id)
		return r, nil, step, err
	}
	ref, _ := a.ObjectOf(args[:named], namespace)
	s, err = a.subjectOf(ctx, b, ref)
	if errors.Is(err, control.NotFound) && named == 2 {
		err = fmt.Errorf("%w, nor is there a run %s", err, args[0])
	}
	return r, s, step, err
}

// subjectOf finds an object, or a container cluster of the server.
func (a verbs) subjectOf(ctx context.Context, b backend.Backend, ref control.Ref) (*subject, error) {
	objects, err := b.Objects()
	if err != nil {
		return nil, err
	}
	o, err := objects.Get(ctx, ref)
	remote, isServer := b.(*backend.Remote)
	if kind := strings.TrimSuffix(strings.ToLower(ref.Kind), "s"); errors.Is(err, control.NotFound) && isServer && kind == cluster.SubjectKind {
		return clusterSubject(ctx, remote, ref.Name)
	}
	if errors.Is(err, control.NotFound) { // runs may have a subject that is no object
		q := runstore.Query{Subject: ref.String(), Limit: 1}
		if page, listErr := b.List(ctx, q); listErr == nil && len(page.Items) > 0 {
			return &subject{ref: ref.String(), query: q, gone: func(context.Context) bool { return false }}, nil
		}
	}
	if err != nil {
		return nil, a.Elsewhere(ref.Kind, err)
	}
	return &subject{ref: o.Ref.String(), query: runstore.Query{Subject: o.Ref.String(), UID: o.UID}, gone: func(ctx context.Context) bool {
		now, err := objects.Get(ctx, o.Ref)
		return errors.Is(err, control.NotFound) || err == nil && now.UID != o.UID
	}}, nil
}

func clusterSubject(ctx context.Context, remote *backend.Remote, name string) (*subject, error) {
	c, err := remote.API.GetCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	return &subject{ref: "cluster " + c.Name, query: runstore.Query{Subject: cluster.Subject(c.ID)}, gone: func(ctx context.Context) bool {
		now, err := remote.API.GetCluster(ctx, c.ID)
		return err == nil && now.State == cluster.Destroyed
	}}, nil
}

// subjectLogs prints the lines of all runs of a subject.
type subjectLogs struct {
	verbs
	of    backend.LogsOf
	times bool

	mu      sync.Mutex // of what follows, and of the output
	ids     []string   // of all runs, for their short ids
	printed map[view.RunLogLine]int
}

func (a verbs) subjectLogs(ctx context.Context, b backend.Backend, s *subject, of backend.LogsOf, times bool) error {
	l := &subjectLogs{verbs: a, of: of, times: times, printed: map[view.RunLogLine]int{}}
	runs, err := l.runs(ctx, b, s)
	if err != nil {
		return err
	}
	lines, err := l.read(ctx, b, runs)
	if err != nil {
		return err
	}
	newest := lines
	if of.Tail > 0 {
		newest = lines[max(0, len(lines)-of.Tail):]
	}
	switch {
	case of.Follow:
		if err := l.print(newest); err != nil {
			return err
		}
		return cli.WatchEnded(ctx, l.follow(ctx, b, s, runs, lines))
	case !a.IsText():
		return a.Emit(cli.ListOf(newest), nil, nil)
	case len(lines) == 0:
		a.Hint("nothing was printed by %s of %s", cli.CountText(len(runs), "run"), s.ref)
		return nil
	}
	return l.print(newest)
}

// runs are the newest runs of the subject.
func (l *subjectLogs) runs(ctx context.Context, b backend.Runs, s *subject) ([]view.Run, error) {
	q := s.query
	q.Limit = logRuns
	page, err := b.List(ctx, q)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil && page.Next != "" {
		l.Hint("%s has more than %d runs: those of the older ones are printed by pawl logs RUN", s.ref, logRuns)
	}
	l.ids = cli.NamesOf(page.Items, func(r view.Run) string { return r.ID })
	return page.Items, nil
}

// read returns the lines that were printed so far in the order of time: at least the newest of --tail, and all
// of runs that are followed then.
func (l *subjectLogs) read(ctx context.Context, b backend.Runs, runs []view.Run) ([]view.RunLogLine, error) {
	type timed struct {
		at time.Time
		view.RunLogLine
	}
	var all []timed
	for _, r := range runs {
		first, of := len(all), backend.LogsOf{Since: l.of.Since}
		if l.of.Step == "" && (r.Phase.Final() || !l.of.Follow) {
			of.Tail = l.of.Tail
		}
		err := b.Logs(ctx, r.ID, of, func(lines []view.LogLine) error {
			for _, line := range lines {
				if l.wants(line) {
					all = append(all, timed{line.At, view.RunLogLine{Run: r.ID, LogLine: line}})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := len(all) - 2; i >= first; i-- { // what was left out of a run has no time: it stands before its next line
			if all[i].at.IsZero() {
				all[i].at = all[i+1].at
			}
		}
	}
	slices.SortStableFunc(all, func(x, y timed) int { return x.at.Compare(y.at) })
	lines := make([]view.RunLogLine, len(all))
	for i, line := range all {
		lines[i] = line.RunLogLine
	}
	return lines, nil
}

// wants reports a line of the step that was asked for, or of a step in it.
func (l *subjectLogs) wants(line view.LogLine) bool {
	rest, ok := strings.CutPrefix(line.Step, l.of.Step)
	return l.of.Step == "" || ok && (rest == "" || rest[0] == '/' || rest[0] == '[')
}

func (l *subjectLogs) print(lines []view.RunLogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	style := l.Style(l.Out)
	for _, line := range lines {
		var err error
		if l.IsText() {
			_, err = io.WriteString(l.Out, view.LogText(line.LogLine, view.LogPrefix{Time: l.times, Run: view.Short(line.Run, l.ids...), Step: l.of.Step == ""}, style)+"\n")
		} else {
			err = l.next(line)
		}
		if err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return nil
}

// follow prints what the runs print from now on, until the subject is gone and its runs have ended.
func (l *subjectLogs) follow(ctx context.Context, b backend.Runs, s *subject, runs []view.Run, known []view.RunLogLine) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel(nil)
	changes := b.Changes(ctx, "")
	since := map[string]time.Time{} // of known runs
	for _, r := range runs {
		since[r.ID] = l.of.Since
	}
	for _, line := range known {
		l.printed[line]++
		if at := line.At.Add(-logOverlap); at.After(since[line.Run]) {
			since[line.Run] = at
		}
	}
	var ended sync.Map // ids
	start := func(r view.Run, since time.Time) {
		following.Go(func() {
			err := l.followRun(ctx, b, r.ID, since)
			if err != nil && ctx.Err() == nil && fault.Of(err) != workflow.RunNotFound { // which was removed meanwhile
				cancel(err)
			}
			ended.Store(r.ID, true)
		})
	}
	for _, r := range runs {
		if r.Phase.Final() {
			ended.Store(r.ID, true)
			continue
		}
		start(r, since[r.ID])
	}
	for {
		active := false
		for _, r := range runs {
			if _, known := since[r.ID]; !known {
				since[r.ID] = l.of.Since
				start(r, l.of.Since)
			}
			_, over := ended.Load(r.ID)
			active = active || !over && !r.Phase.Final()
		}
		if !active && s.gone(ctx) {
			following.Wait()
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changes:
		}
		newest, err := l.runs(ctx, b, s)
		switch {
		case err == nil:
			runs = newest
		case fault.Of(err).Class != fault.Transient: // else the next change is looked at
			return err
		}
	}
}

func (l *subjectLogs) followRun(ctx context.Context, b backend.Runs, id string, since time.Time) error {
	return b.Logs(ctx, id, backend.LogsOf{Follow: true, Since: since}, func(lines []view.LogLine) error {
		var fresh []view.RunLogLine
		for _, line := range lines {
			if one := (view.RunLogLine{Run: id, LogLine: line}); l.wants(line) && !l.wasPrinted(one) {
				fresh = append(fresh, one)
			}
		}
		return l.print(fresh)
	})
}

// wasPrinted reports a line that was printed before following began.
func (l *subjectLogs) wasPrinted(line view.RunLogLine) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.printed[line] == 0 {
		return false
	}
	l.printed[line]--
	return true
}
