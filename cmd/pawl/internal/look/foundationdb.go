package look

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/view"
)

// nowOf is the time by the clock of a backend, where that may be another one than ours.
func nowOf(b backend.Backend) time.Time {
	if d, ok := b.(backend.Databases); ok {
		return d.Now()
	}
	return time.Now()
}

// tableOf is the table of objects: kinds that have columns of their own show these.
func tableOf(objects []control.Object, now time.Time) view.Table {
	if t, ok := report.ObjectTable(objects, now); ok {
		return t
	}
	if len(objects) == 0 || slices.ContainsFunc(objects, func(o control.Object) bool { return o.Kind != objects[0].Kind }) {
		return view.ObjectTable(objects, now)
	}
	switch objects[0].Kind {
	case schedule.Kind:
		return scheduleTable(objects, now)
	case bulk.Kind:
		return bulkTable(objects, now)
	}
	return view.ObjectTable(objects, now)
}

// told is an object of FoundationDB in the words of its kind.
type told struct {
	value any
	text  func(now time.Time, style view.Style) string
	line  cli.Drawing
	exit  int // of a watch that sees it
}

func tell(o control.Object, now time.Time) (told, error) {
	switch report.KindOf(o.Kind) {
	case report.BackupKind:
		b, err := report.BackupOf(o)
		if err != nil {
			return told{}, err
		}
		v := report.OfBackup(b)
		exit := view.ExitActive
		if v.Reconciled {
			exit = view.ExitDone
		}
		return told{v, func(_ time.Time, style view.Style) string { return v.Describe(style) }, tableOf([]control.Object{o}, now).Text, exit}, nil
	case report.RestoreKind:
		r, err := report.RestoreOf(o)
		if err != nil {
			return told{}, err
		}
		v := report.OfRestore(r)
		return told{v, v.Describe, cli.Fixed(v.Line()), v.Exit()}, nil
	}
	c, err := report.ClusterOf(o)
	if err != nil {
		return told{}, err
	}
	v := report.Of(report.Facts{Cluster: c, Now: now})
	return told{v, v.Describe, cli.Fixed(v.Line()), v.Exit()}, nil
}

func (a verbs) describeDatabase(b backend.Backend, o control.Object) error {
	now := nowOf(b)
	t, err := tell(o, now)
	if err != nil {
		return err
	}
	return a.Emit(t.value, []string{o.Ref.String()}, func() string { return t.text(now, a.Style(a.Out)) })
}

// watchDatabase prints a line whenever something has changed, until the object is as it should be or needs somebody.
func (a verbs) watchDatabase(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
	last := told{exit: view.ExitActive}
	err := a.repeat(ctx, b, true, func() (any, []string, cli.Drawing, error) {
		o, err := objects.Get(ctx, ref)
		if err == nil {
			last, err = tell(o, nowOf(b))
		}
		return last.value, []string{ref.String()}, last.line, err
	}, func() bool { return last.exit != view.ExitActive })
	switch {
	case errors.Is(err, control.NotFound):
		a.Say("%s is gone", ref)
		return nil
	case err != nil:
		return err
	}
	return cli.End(last.exit)
}
