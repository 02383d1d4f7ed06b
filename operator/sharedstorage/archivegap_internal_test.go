package sharedstorage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A gap is recorded by the status alone: while a run works nothing is repaired.
func TestAGapIsRecordedWithoutRepair(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	repo := &port.Repository{Stanza: "blue", Folder: "/srv"}
	until := metav1.NewTime(at.Add(-2 * time.Hour))
	c := &Cluster{Ref: port.Ref{Namespace: "shop", Name: "blue"}, Spec: v1alpha1.SharedStorageClusterSpec{Backup: &v1alpha1.BackupSpec{}}, Facts: &Facts{At: at, Repository: repo,
		Volume:    port.Volume{Writer: "a"},
		Instances: []port.Instance{{Name: "a", ID: "1", State: port.Up, Type: port.Writer}},
		Engines: map[string]port.Status{"a": {Running: true, Ready: true, Role: port.Primary, Archive: port.ArchiveStatus{
			Repository: repo.Hash(), Last: "07", LastAt: at, Dropped: "07", DroppedAt: at.Add(300 * time.Millisecond), Waiting: 4, Since: at.Add(-time.Hour)}}}}}
	c.Status.Backup.ArchivedUntil = &until
	c.computeBackup()
	if s := c.Status.Backup; !isOpen(s.Gap) || s.Gap.Segment != "07" || !s.Gap.From.Equal(&until) || !s.ArchivedUntil.Equal(&until) {
		t.Errorf("%+v, archived until %s", s.Gap, s.ArchivedUntil)
	}
	if got := archiving(c); got.Status != metav1.ConditionFalse || got.Reason != gapReason {
		t.Errorf("%+v", got)
	}
}

// The time is rounded, so that the message stays the same for some passes.
func TestFullIn(t *testing.T) {
	for _, c := range []struct {
		free int64
		age  time.Duration
		want string
	}{
		{1, time.Minute, "10 minutes"},
		{100, 14 * time.Minute, "10 minutes"},
		{100, 16 * time.Minute, "20 minutes"},
		{100, 77*time.Minute + 13*time.Second, "80 minutes"},
		{200, 90 * time.Minute, "3 hours"},
		{100, 72 * time.Hour, "3 days"},
		{100, 31 * 24 * time.Hour, ""},
		{100, 59 * time.Second, ""},
	} {
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		if got, known := fullIn(port.ArchiveStatus{Bytes: 100, Free: c.free, Since: at.Add(-c.age)}, at); got != c.want || known != (c.want != "") {
			t.Errorf("%d bytes after %s: %q, want %q", c.free, c.age, got, c.want)
		}
	}
}
