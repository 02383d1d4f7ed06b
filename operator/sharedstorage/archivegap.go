package sharedstorage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
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

// gapAfter returns the gap that an archive has, from the last one that is known and the status of the
// writer. ended is the end of the backup that closes the gap; zero: it has not ended.
func gapAfter(was *v1alpha1.ArchiveGap, archivedUntil *metav1.Time, st port.ArchiveStatus, ended time.Time) *v1alpha1.ArchiveGap {
	at := st.DroppedAt.UTC().Truncate(time.Second)
	if st.Dropped != "" && (was == nil || at.After(was.Until.Time) || at.Equal(was.Until.Time) && st.Dropped != was.Segment) {
		next := &v1alpha1.ArchiveGap{From: archivedUntil, Until: metav1.NewTime(at), Segment: st.Dropped}
		if isOpen(was) {
			next.From = was.From
		}
		return next
	}
	if isOpen(was) && !ended.IsZero() {
		next := was.DeepCopy()
		next.Closed = new(metav1.NewTime(ended))
		return next
	}
	return was
}

// gapMessage says what cannot be restored while a gap is open.
func gapMessage(g *v1alpha1.ArchiveGap) string {
	from := "the last backup"
	if g.From != nil {
		from = g.From.UTC().Format(time.RFC3339)
	}
	backup := "the next backup, which is taken when the archive takes log again"
	if g.Backup != "" {
		backup = "backup " + g.Backup
	}
	return fmt.Sprintf("log up to segment %s was given up at %s, because more than backup.maxWaiting waited: no time from %s to the end of %s can be restored", g.Segment, g.Until.UTC().Format(time.RFC3339), from, backup)
}

// gap records what was given up, and takes the backup that closes the gap as soon as the archive takes
// log again.
func (t *repairer) gap() {
	writer := t.f.writer()
	if t.c.Spec.Backup == nil || writer == nil || !t.f.known(factRepository) {
		return
	}
	st, s := t.f.Engines[writer.Name].Archive, &t.c.Status.Backup
	if st.Repository != t.f.Repository.Hash() {
		return
	}
	was, ended := s.Gap, time.Time{}
	if isOpen(was) && was.Backup != "" && t.o.options.Backups != nil {
		t.do("the backup after the gap", func(ctx context.Context) error {
			b, err := t.o.options.Backups.Find(ctx, t.c.Ref.Namespace, was.Backup)
			switch {
			case errors.Is(err, control.NotFound):
				was.Backup = "" // somebody has deleted it: another one is made
				return nil
			case err == nil && b.Status.Label != "" && b.Status.EndedAt != nil:
				ended = b.Status.EndedAt.Time
			}
			return err
		})
	}
	if s.Gap = gapAfter(was, s.ArchivedUntil, st, ended); s.Gap != was && isOpen(s.Gap) {
		t.o.emit(t.c, Event{Warning: true, Reason: gapReason, Message: gapMessage(s.Gap)})
	}
	if !isOpen(s.Gap) || s.Gap.Backup != "" || st.Failing || st.Unreadable || t.o.options.Backups == nil {
		return
	}
	b := scheduledBackup(t.c.Ref, "after-"+strings.ToLower(s.Gap.Segment))
	t.do("the backup after the gap", func(ctx context.Context) error {
		err := t.o.options.Backups.Create(ctx, b)
		if err == nil {
			s.Gap.Backup = b.Name
		}
		return err
	})
}

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
