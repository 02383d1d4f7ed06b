package sharedstorage

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/schedule"
)

// timetable has the times of scheduled backups.
type timetable interface {
	// Next returns the first one after a time. Zero: there is none.
	Next(after time.Time) time.Time
}

// multiples are the multiples of an interval, counted from midnight UTC.
type multiples time.Duration

func (m multiples) Next(after time.Time) time.Time {
	every := time.Duration(m)
	return after.UTC().Truncate(every).Add(every)
}

// backupTimes returns when backups are scheduled; nil: never. SPEC_INVALID if that cannot be read.
func backupTimes(b *v1alpha1.BackupSpec) (timetable, error) {
	switch {
	case b.Every != nil && b.Cron != "":
		return nil, SpecInvalid.Errorf("backup: either every or cron")
	case b.TimeZone != "" && b.Cron == "":
		return nil, SpecInvalid.Errorf("backup.timeZone is that of backup.cron, which is missing")
	case b.Every != nil && b.Every.Duration < time.Minute:
		return nil, SpecInvalid.Errorf("backup.every: %s is less than 1m", b.Every.Duration)
	case b.Every != nil:
		return multiples(b.Every.Duration), nil
	case b.Cron == "":
		return nil, nil
	}
	raw, err := json.Marshal(schedule.Spec{Cron: b.Cron, TimeZone: b.TimeZone, Flow: "backup"})
	if err != nil {
		return nil, err
	}
	table, err := schedule.Parse(raw)
	if err != nil {
		return nil, SpecInvalid.Errorf("backup: %w", err)
	}
	return table, nil
}

// lastTime returns the newest scheduled time after one and up to another; zero: there is none.
func lastTime(t timetable, after, until time.Time) (last time.Time) {
	for back := 2 * time.Minute; ; back *= 2 { // near the end first: since the last one a year may have passed
		from := until.Add(-back)
		if !from.After(after) {
			from = after
		}
		for next := t.Next(from); !next.IsZero() && !next.After(until); next = t.Next(next) {
			last = next
		}
		if !last.IsZero() || from.Equal(after) {
			return last
		}
	}
}

// schedule creates the backup that is due. Its name is that of its time, so that it is created once.
// The first one to a place is due at once: no earlier backup there joins the log from now on.
func (t *repairer) schedule() {
	writer := t.f.writer()
	if t.c.Spec.Backup == nil || t.o.options.Backups == nil || writer == nil || !t.f.known(factRepository) {
		return
	}
	if st := t.f.Engines[writer.Name].Archive; st.Unreadable || st.Repository != t.f.Repository.Hash() {
		return
	}
	at, err := backupTimes(t.c.Spec.Backup)
	if err != nil || at == nil {
		return // the condition tells what cannot be read
	}
	was, place := t.c.Status.Backup, t.f.Repository.Place()
	due := t.f.At.UTC().Truncate(time.Second)
	if was.Scheduled != nil && was.ScheduledTo == place {
		if due = lastTime(at, was.Scheduled.Time, t.f.At).UTC(); due.IsZero() {
			return
		}
	}
	b := scheduledBackup(t.c.Ref, due.Format("20060102-150405"))
	t.do("the scheduled backup", func(ctx context.Context) error {
		err := t.o.options.Backups.Create(ctx, b)
		if err == nil {
			t.c.Status.Backup.Scheduled, t.c.Status.Backup.ScheduledTo = new(metav1.NewTime(due)), place
		}
		return err
	})
}

// nextBackup returns the time of the next scheduled backup. Zero: there is none.
func (c *Cluster) nextBackup() time.Time {
	if c.Spec.Backup == nil || c.Facts == nil {
		return time.Time{}
	}
	at, err := backupTimes(c.Spec.Backup)
	if err != nil || at == nil {
		return time.Time{}
	}
	return at.Next(c.Facts.At)
}
