package sharedstorage

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// What cannot be a schedule is told with its field.
func TestWrongBackupTimes(t *testing.T) {
	every := &metav1.Duration{Duration: time.Hour}
	for _, c := range []struct {
		spec v1alpha1.BackupSpec
		want string // "": it is good
	}{
		{v1alpha1.BackupSpec{}, ""},
		{v1alpha1.BackupSpec{Every: every}, ""},
		{v1alpha1.BackupSpec{Cron: "@daily"}, ""},
		{v1alpha1.BackupSpec{Cron: "0 2 * * sun", TimeZone: "Europe/Berlin"}, ""},
		{v1alpha1.BackupSpec{Every: every, Cron: "@daily"}, "either every or cron"},
		{v1alpha1.BackupSpec{Every: &metav1.Duration{Duration: time.Second}}, "backup.every: 1s is less than 1m"},
		{v1alpha1.BackupSpec{Every: every, TimeZone: "UTC"}, "backup.cron, which is missing"},
		{v1alpha1.BackupSpec{Cron: "61 * * * *"}, "cron: "},
		{v1alpha1.BackupSpec{Cron: "daily"}, "cron: "},
		{v1alpha1.BackupSpec{Cron: "0 2 * * *", TimeZone: "Mars/Base"}, `timeZone: there is no time zone "Mars/Base"`},
	} {
		c.spec.Repository.Folder = "/b"
		err := CheckBackup(port.Ref{Namespace: "default", Name: "blue"}, &v1alpha1.SharedStorageClusterSpec{Backup: &c.spec})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}

// The newest time counts, however long ago the last backup was.
func TestLastTime(t *testing.T) {
	at := func(text string) time.Time {
		got, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, c := range []struct {
		spec               v1alpha1.BackupSpec
		after, until, want string
	}{
		{v1alpha1.BackupSpec{Cron: "* * * * *"}, "2020-01-01T00:00:00Z", "2026-11-29T17:00:30Z", "2026-11-29T17:00:00Z"},
		{v1alpha1.BackupSpec{Cron: "0 2 1 1 *"}, "2020-01-01T00:00:00Z", "2026-11-29T17:00:30Z", "2026-01-01T02:00:00Z"},
		{v1alpha1.BackupSpec{Cron: "0 2 * * *", TimeZone: "Europe/Berlin"}, "2026-11-28T01:00:00Z", "2026-11-29T00:59:59Z", ""},
		{v1alpha1.BackupSpec{Cron: "0 2 * * *", TimeZone: "Europe/Berlin"}, "2026-11-28T01:00:00Z", "2026-11-29T01:00:00Z", "2026-11-29T01:00:00Z"},
		{v1alpha1.BackupSpec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, "2026-03-28T01:30:00Z", "2026-03-29T05:00:00Z", "2026-03-29T01:00:00Z"}, // the hour that is left out
		{v1alpha1.BackupSpec{Every: &metav1.Duration{Duration: 24 * time.Hour}}, "2026-11-20T05:00:00Z", "2026-11-29T17:00:30Z", "2026-11-29T00:00:00Z"},
		{v1alpha1.BackupSpec{Every: &metav1.Duration{Duration: 24 * time.Hour}}, "2026-11-29T05:00:00Z", "2026-11-29T17:00:30Z", ""},
	} {
		table, err := backupTimes(&c.spec)
		if err != nil {
			t.Fatal(err)
		}
		want := time.Time{}
		if c.want != "" {
			want = at(c.want)
		}
		if got := lastTime(table, at(c.after), at(c.until)); !got.Equal(want) {
			t.Errorf("%+v from %s to %s: %s, want %s", c.spec, c.after, c.until, got.UTC(), c.want)
		}
	}
}
