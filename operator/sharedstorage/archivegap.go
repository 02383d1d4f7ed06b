package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// gapReason is the reason of the condition and of the Event while a gap in the archive is open.
const gapReason = "ArchiveGap"

func isOpen(g *v1alpha1.ArchiveGap) bool { return g != nil && g.Closed == nil }

// gapAfter returns the gap that the archive at a place has, from the last one that is known and what was
// given up last; segment "": nothing.
func gapAfter(was *v1alpha1.ArchiveGap, archivedUntil *metav1.Time, place, segment string, at time.Time) *v1alpha1.ArchiveGap {
	if was != nil && was.Place != place {
		was = nil // another place does not have that log either, but nobody restores from there
	}
	at = at.UTC().Truncate(time.Second)
	if segment == "" || was != nil && (at.Before(was.Until.Time) || at.Equal(was.Until.Time) && segment == was.Segment) {
		return was
	}
	next := &v1alpha1.ArchiveGap{From: archivedUntil, Until: metav1.NewTime(at), Segment: segment, Place: place}
	if isOpen(was) {
		next.From, next.Backup = was.From, was.Backup
	}
	return next
}

// dropped returns what any of the engines has given up last for the repository: after a failover the one
// that knows is a reader.
func (f *Facts) dropped() (segment string, at time.Time) {
	for _, st := range f.Engines {
		a := st.Archive
		if a.Dropped == "" || a.Repository != f.Repository.Hash() {
			continue
		}
		if order := cmp.Or(a.DroppedAt.Compare(at), cmp.Compare(a.Dropped, segment)); order > 0 {
			segment, at = a.Dropped, a.DroppedAt
		}
	}
	return segment, at
}

// recordGap records what was given up. It needs no call, so that it is recorded also while a run works.
func (c *Cluster) recordGap() {
	if s, f := &c.Status.Backup, c.Facts; f.known(factRepository) && f.Repository != nil {
		segment, at := f.dropped()
		s.Gap = gapAfter(s.Gap, s.ArchivedUntil, f.Repository.Place(), segment, at)
	}
}

// isWider reports whether more was given up than in the former gap.
func isWider(g, was *v1alpha1.ArchiveGap) bool {
	return isOpen(g) && (was == nil || g.Place != was.Place || g.Segment != was.Segment || !g.Until.Equal(&was.Until))
}

// gapMessage says what cannot be restored while a gap is open.
func gapMessage(g *v1alpha1.ArchiveGap) string {
	from := "the last backup"
	if g.From != nil {
		from = g.From.UTC().Format(time.RFC3339)
	}
	backup := "the next backup, which is taken when the archive takes log again"
	if g.Backup != "" {
		backup = "backup " + g.Backup + ", or of another one taken since,"
	}
	return fmt.Sprintf("log up to segment %s was given up at %s, because more than backup.maxWaiting waited: no time from %s to the end of %s can be restored", g.Segment, g.Until.UTC().Format(time.RFC3339), from, backup)
}

// gap takes a backup as soon as the archive takes log again, and closes the gap when any backup has ended
// that began after it.
func (t *repairer) gap() {
	writer, s := t.f.writer(), &t.c.Status.Backup
	archiver, ok := t.o.options.Ports.Engine.(port.Archiver)
	if !ok || t.c.Spec.Backup == nil || writer == nil || !isOpen(s.Gap) || !t.f.known(factRepository) || s.Gap.Place != t.f.Repository.Place() {
		return
	}
	st := t.f.Engines[writer.Name].Archive
	if st.Repository != t.f.Repository.Hash() || st.Failing || st.Unreadable || gaveUp(st) {
		return
	}
	g := s.Gap.DeepCopy()
	s.Gap = g
	works := t.closerWorks(g) // before the repository is asked: it may end meanwhile
	var taken []port.Backup
	if t.ask("the backups after the gap", func(ctx context.Context) (err error) {
		taken, err = archiver.Backups(ctx, t.c.Ref.Of(writer.Name))
		return err
	}) != nil {
		return
	}
	for _, b := range taken {
		if b.Started.After(g.Until.Time) {
			g.Closed = new(metav1.NewTime(b.Ended.UTC().Truncate(time.Second)))
			return
		}
	}
	b := scheduledBackup(t.c.Ref, "after-gap-"+g.Until.UTC().Format("20060102-150405"))
	if works || b.Name == g.Backup || t.o.options.Backups == nil { // one that was cancelled is not taken against that will
		return
	}
	t.do("the backup after the gap", func(ctx context.Context) error {
		err := t.o.options.Backups.Create(ctx, b)
		if err == nil {
			g.Backup = b.Name
		}
		return err
	})
}

// gaveUp reports whether the last segment that the engine believes to be archived was given up: then
// nothing says yet that the archive takes log again.
func gaveUp(st port.ArchiveStatus) bool { return st.Dropped != "" && st.Last <= st.Dropped }

// closerWorks reports whether the backup that the operator has created for a gap has not ended yet, or
// is not known to have. It forgets one that somebody has deleted.
func (t *repairer) closerWorks(g *v1alpha1.ArchiveGap) (works bool) {
	if g.Backup == "" || t.o.options.Backups == nil {
		return false
	}
	err := t.ask("the backup after the gap", func(ctx context.Context) error {
		b, err := t.o.options.Backups.Find(ctx, t.c.Ref.Namespace, g.Backup)
		if errors.Is(err, control.NotFound) {
			g.Backup = ""
			return nil
		}
		works = err == nil && b.Status.EndedAt == nil && b.Status.State != cancelledBackup
		return err
	})
	return works || err != nil
}

// cancelledBackup is the state of a backup that never ends.
const cancelledBackup = "Cancelled"

// scheduledBackup returns a full backup that nobody has asked for.
func scheduledBackup(c port.Ref, name string) *v1alpha1.SharedStorageBackup {
	return &v1alpha1.SharedStorageBackup{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name + "-" + name, Labels: map[string]string{ScheduledLabel: c.Name}},
		Spec: v1alpha1.SharedStorageBackupSpec{Cluster: c.Name, Type: string(port.FullBackup)}}
}

// waiting says how much log waits for the archive, and when it fills the volume or what happens before.
func waiting(st port.ArchiveStatus, most int64, at time.Time) string {
	text := fmt.Sprintf("%d segments (%s) wait since %s", st.Waiting, bytesText(st.Bytes), st.Since.UTC().Format("15:04:05 MST"))
	switch left, known := fullIn(st, at); {
	case most > 0 && most-st.Bytes < st.Free:
		text += fmt.Sprintf(", and the oldest are given up beyond %s", bytesText(most))
	case known:
		text += fmt.Sprintf(", and fill the volume in about %s if it goes on so", left)
	}
	return text
}

func bytesText(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// fullIn returns how long it takes until waiting log has filled the volume, if as much comes as came
// since the oldest of it. It is rounded, so that a status does not change with each pass.
func fullIn(st port.ArchiveStatus, at time.Time) (text string, known bool) {
	age := at.Sub(st.Since)
	if st.Bytes <= 0 || st.Free <= 0 || st.Since.IsZero() || age < time.Minute {
		return "", false
	}
	hours := float64(st.Free) / float64(st.Bytes) * age.Hours()
	switch {
	case hours > 30*24:
		return "", false
	case hours >= 48:
		return fmt.Sprintf("%.0f days", hours/24), true
	case hours >= 2:
		return fmt.Sprintf("%.0f hours", hours), true
	}
	return fmt.Sprintf("%.0f minutes", max(math.Round(hours*6), 1)*10), true
}
