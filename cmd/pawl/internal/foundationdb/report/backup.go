package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view"
)

// Backup is a backup as its status tells it.
type Backup struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	Tag       string `json:"tag"`
	// State is what the database does: Running, Paused or Stopped.
	State         string `json:"state"`
	Desired       string `json:"desired"` // Running, Stopped or Paused
	Restorable    bool   `json:"restorable"`
	URL           string `json:"url,omitempty"` // without secrets
	PeriodSeconds int    `json:"snapshotPeriodSeconds,omitempty"`
	Agents        int    `json:"agents"`
	DesiredAgents int    `json:"desiredAgents"`
	Reconciled    bool   `json:"reconciled"`
	Reason        string `json:"reason,omitempty"`
	Message       string `json:"message,omitempty"`
}

// OfBackup tells a backup.
func OfBackup(b *v1beta2.FoundationDBBackup) Backup {
	v := Backup{
		Kind: BackupKind, Namespace: b.Namespace, Name: b.Name, Cluster: b.Spec.ClusterName, Tag: cmp.Or(b.Spec.Tag, fdb.DefaultBackupTag),
		State: string(v1beta2.BackupStopped), Desired: string(cmp.Or(b.Spec.BackupState, v1beta2.BackupRunning)),
		Agents: b.Status.AgentCount, DesiredAgents: 2, Reconciled: b.Status.Generations.Reconciled == b.Generation,
	}
	if b.Spec.AgentCount != nil {
		v.DesiredAgents = *b.Spec.AgentCount
	}
	if d := b.Status.BackupDetails; d != nil {
		v.URL, v.Restorable, v.PeriodSeconds = fdb.WithoutSecret(d.URL), d.Restorable, d.SnapshotTime
		switch {
		case d.Running && d.Paused:
			v.State = string(v1beta2.BackupPaused)
		case d.Running:
			v.State = string(v1beta2.BackupRunning)
		}
	}
	v.Reason, v.Message = heldUp(b.Status.Conditions)
	return v
}

// heldUp is why an object goes on, or is not ready.
func heldUp(conditions []metav1.Condition) (reason, message string) {
	if c := meta.FindStatusCondition(conditions, "Progressing"); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason, c.Message
	}
	if c := meta.FindStatusCondition(conditions, "Ready"); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason, c.Message
	}
	return "", ""
}

// Ref names the backup.
func (b Backup) Ref() string { return b.Kind + "/" + b.Namespace + "/" + b.Name }

// Describe tells all of a backup.
func (b Backup) Describe() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s %s/%s\n", b.Kind, b.Namespace, b.Name)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "  %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	say("cluster", "%s", b.Cluster)
	state := b.State
	if b.State != b.Desired {
		state += ", wanted: " + b.Desired
	}
	say("state", "%s", state)
	say("tag", "%s", b.Tag)
	say("restorable", "%t", b.Restorable)
	if b.URL != "" {
		say("url", "%s", b.URL)
	}
	if b.PeriodSeconds > 0 {
		say("snapshots", "every %s", time.Duration(b.PeriodSeconds)*time.Second)
	}
	say("agents", "%d of %d", b.Agents, b.DesiredAgents)
	say("reconciled", "%t", b.Reconciled)
	if why := because(b.Reason, b.Message); why != "" {
		say("waits", "%s", why)
	}
	return t.String()
}

// Restore is a restore as its status tells it.
type Restore struct {
	Kind        string    `json:"kind"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Cluster     string    `json:"cluster"`
	Tag         string    `json:"tag,omitempty"`
	State       string    `json:"state"`
	Version     *int64    `json:"backupVersion,omitempty"` // absent: the newest
	Ranges      []string  `json:"keyRanges,omitempty"`     // absent: all keys
	StartedAt   time.Time `json:"startedAt,omitzero"`
	CompletedAt time.Time `json:"completedAt,omitzero"`
	Reason      string    `json:"reason,omitempty"`
	Message     string    `json:"message,omitempty"`
}

// OfRestore tells a restore.
func OfRestore(r *v1beta2.FoundationDBRestore) Restore {
	v := Restore{
		Kind: RestoreKind, Namespace: r.Namespace, Name: r.Name, Cluster: r.Spec.DestinationClusterName,
		Tag: cmp.Or(r.Status.Tag, r.Spec.Tag), State: cmp.Or(string(r.Status.State), "new"), Version: r.Spec.BackupVersion,
	}
	for _, k := range r.Spec.KeyRanges {
		v.Ranges = append(v.Ranges, k.Start+" "+k.End)
	}
	if at := r.Status.StartedAt; at != nil {
		v.StartedAt = at.UTC()
	}
	if at := r.Status.CompletedAt; at != nil {
		v.CompletedAt = at.UTC()
	}
	if v.Reason, v.Message = heldUp(r.Status.Conditions); v.Message == "" {
		v.Message = r.Status.Message
	}
	return v
}

// Ref names the restore.
func (r Restore) Ref() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Exit is the exit code of a verb that waited for the restore.
func (r Restore) Exit() int {
	switch fdb.RestoreState(r.State) {
	case fdb.RestoreCompleted:
		return view.ExitDone
	case fdb.RestoreAborted:
		return view.ExitFailed
	}
	return view.ExitActive
}

// Line is a restore in one line, for a watch.
func (r Restore) Line() string {
	line := fmt.Sprintf("%s/%s  %s", r.Namespace, r.Name, r.State)
	if why := because(r.Reason, r.Message); why != "" {
		line += "  " + why
	}
	return line + "\n"
}

// Describe tells all of a restore.
func (r Restore) Describe(now time.Time) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s %s/%s\n", r.Kind, r.Namespace, r.Name)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "  %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	say("into", "%s", r.Cluster)
	say("state", "%s", r.State)
	say("tag", "%s", cmp.Or(r.Tag, none))
	to := "the newest version"
	if r.Version != nil {
		to = fmt.Sprintf("version %d", *r.Version)
	}
	say("to", "%s", to)
	say("ranges", "%s", cmp.Or(strings.Join(r.Ranges, "; "), "all keys"))
	say("started", "%s", moment(r.StartedAt, now))
	say("completed", "%s", moment(r.CompletedAt, now))
	if why := because(r.Reason, r.Message); why != "" {
		say("waits", "%s", why)
	}
	return t.String()
}
