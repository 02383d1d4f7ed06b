// Package notices stores what periodic tasks report about a provider, so that every
// server can read it.
package notices

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Options of a Writer.
type Options struct {
	Store  cluster.Notices
	Logger *slog.Logger
	Now    func() time.Time
}

// Writer writes notices.
type Writer struct{ options Options }

// New returns a writer.
func New(o Options) *Writer { return &Writer{o} }

// The periodic tasks that write notices about a provider.
const (
	Sync    = "sync"
	Collect = "collect"
)

// maxOrphans is how many orphans a notice lists.
const maxOrphans = 1000

// Save stores the result of a pass over a provider, so that every server
// can read it: the error if the provider cannot be read (nil: it can), and the
// orphans of a complete pass of the collector. An unchanged notice is not
// written.
func (s *Writer) Save(ctx context.Context, provider, task string, failure error, orphans []cluster.Orphan) {
	if ctx.Err() != nil {
		return // an interrupted pass proves nothing
	}
	all, err := s.options.Store.Notices(ctx)
	if err != nil {
		s.options.Logger.Warn("the notices of a provider cannot be read", "provider", provider, "task", task, "error", err)
		return
	}
	before := cluster.Notice{Provider: provider, Task: task}
	if i := slices.IndexFunc(all, func(n cluster.Notice) bool { return n.Provider == provider && n.Task == task }); i >= 0 {
		before = all[i]
	}
	next := before
	if failure == nil {
		next.Since, next.Code, next.Text = time.Time{}, "", ""
		next.Orphans, next.More = orphans[:min(len(orphans), maxOrphans)], max(0, len(orphans)-maxOrphans)
	} else if kind := fault.Of(failure); before.Since.IsZero() || before.Code != kind.Code {
		next.Code, next.Text = kind.Code, fault.Message(failure) // the text of the same error differs each time, for example in ports
		if next.Since.IsZero() {
			next.Since = s.options.Now().UTC().Truncate(time.Millisecond)
		}
	}
	switch {
	case before.Since.IsZero() && !next.Since.IsZero():
		s.options.Logger.Warn("the provider cannot be read; its clusters are neither synchronized nor collected", "provider", provider, "task", task, "error", failure)
	case !before.Since.IsZero() && next.Since.IsZero():
		s.options.Logger.Info("the provider answers again", "provider", provider, "task", task)
	}
	if sameNotice(before, next) {
		return
	}
	if err := s.options.Store.PutNotice(ctx, next); err != nil && ctx.Err() == nil {
		s.options.Logger.Warn("the notice of a provider cannot be stored", "provider", provider, "task", task, "error", err)
	}
}

func sameNotice(a, b cluster.Notice) bool {
	return a.Since.Equal(b.Since) && a.Code == b.Code && a.Text == b.Text && a.More == b.More &&
		slices.EqualFunc(a.Orphans, b.Orphans, func(x, y cluster.Orphan) bool {
			since := x.Since.Equal(y.Since)
			x.Since, y.Since = time.Time{}, time.Time{}
			return since && x == y
		})
}
