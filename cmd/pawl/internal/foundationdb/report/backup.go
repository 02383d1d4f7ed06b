package report

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

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
