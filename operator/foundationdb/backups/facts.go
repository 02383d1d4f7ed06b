package backups

import (
	"cmp"
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// facts are what a pass has read, once.
type facts struct {
	now    time.Time
	backup *v1beta2.FoundationDBBackup // its status is the one that the pass writes
	others []v1beta2.FoundationDBBackup
	// readers are restores of the namespace that have begun and not ended; only read while the object is deleted.
	readers []v1beta2.FoundationDBRestore

	cluster *v1beta2.FoundationDBCluster // nil: there is none
	at      port.Endpoint
	unmade  bool  // the cluster has no connection string, so no backup was ever started
	silence error // why the database was not heard; nil: live is what it said
	live    fdb.BackupStatus

	agents *appsv1.Deployment // nil: there is none
	pods   []corev1.Pod       // of agents
	wanted *appsv1.Deployment // nil: no agents
	broken error              // why wanted cannot be made

	url         string // without secrets
	credentials fdb.Secret
	refused     error // why the spec is refused
}

// gather reads the facts, and the status as it is stored. found is false if the object is gone.
func (o *Operator) gather(ctx context.Context, ref control.Ref, stored *v1beta2.FoundationDBBackupStatus) (f facts, found bool, err error) {
	f = facts{now: o.options.Now(), backup: &v1beta2.FoundationDBBackup{}}
	f.backup.Namespace, f.backup.Name = ref.Namespace, ref.Name
	if found, err = o.objects.Get(ctx, f.backup); err != nil || !found {
		return f, false, err
	}
	*stored = *f.backup.Status.DeepCopy()
	for _, read := range []func(context.Context, *facts) error{o.readCluster, o.readOthers, o.readAgents} {
		if err := read(ctx, &f); err != nil {
			return f, true, err
		}
	}
	spec := f.backup.Spec
	f.url, f.credentials, err = foundationdb.BackupStore(spec.BlobStoreConfiguration, f.backup.Name)
	f.refused = refusal(f.backup, o.options.TemplateLimits)
	if err != nil && spec.BackupType != v1beta2.BackupTypeUnmanaged && f.refused == nil {
		f.refused = err
	}
	if owner := f.owner(); owner != "" && f.refused == nil {
		f.refused = TagTaken.Errorf("the tag %q belongs to the backup %q", f.tag(), owner)
	}
	f.wanted, f.broken = Agents(f.backup, f.cluster)
	if f.refused != nil && f.backup.DeletionTimestamp == nil {
		f.silence = f.refused // what such a spec names is not looked at
	} else {
		o.readBackup(ctx, &f)
	}
	f.observe()
	return f, true, nil
}

func (o *Operator) readCluster(ctx context.Context, f *facts) error {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = f.backup.Namespace, f.backup.Spec.ClusterName
	if c.Name == "" {
		return nil
	}
	found, err := o.objects.Get(ctx, c)
	if found {
		f.cluster = c
	}
	return err
}

// readOthers reads the other backups of the namespace.
func (o *Operator) readOthers(ctx context.Context, f *facts) error {
	var all v1beta2.FoundationDBBackupList
	if err := o.objects.List(ctx, &all, f.backup.Namespace, nil); err != nil {
		return err
	}
	for _, other := range all.Items {
		if other.Name != f.backup.Name {
			f.others = append(f.others, other)
		}
	}
	if f.backup.DeletionTimestamp == nil {
		return nil
	}
	var restores v1beta2.FoundationDBRestoreList
	if err := o.objects.List(ctx, &restores, f.backup.Namespace, nil); err != nil {
		return err
	}
	for _, r := range restores.Items {
		if r.Status.Running {
			f.readers = append(f.readers, r)
		}
	}
	return nil
}

func (o *Operator) readAgents(ctx context.Context, f *facts) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = f.backup.Namespace, AgentsName(f.backup)
	found, err := o.objects.Get(ctx, d)
	if err != nil || !found {
		return err
	}
	f.agents = d
	var pods corev1.PodList
	err = o.objects.List(ctx, &pods, d.Namespace, map[string]string{PodLabel: d.Name})
	f.pods = pods.Items
	return err
}

// readBackup asks the database for the backup of the tag.
func (o *Operator) readBackup(ctx context.Context, f *facts) {
	switch {
	case f.cluster == nil:
		f.unmade, f.silence = true, port.DatabaseSilent.Errorf("there is no cluster %q", f.backup.Spec.ClusterName)
		return
	case f.cluster.Status.ConnectionString == "":
		f.unmade, f.silence = true, port.DatabaseSilent.Errorf("the cluster %q has no connection string yet", f.cluster.Name)
		return
	case fdb.CheckWord(fdb.WordTag, f.tag()) != nil:
		f.silence = foundationdb.SpecInvalid.Errorf("spec.tag: %q is no tag", f.tag())
		return
	}
	f.at, f.silence = port.EndpointOf(f.cluster)
	switch line := f.at.Version.Short(); {
	case f.silence != nil:
	case !slices.Contains(o.database.Versions(), line):
		f.silence = port.ToolsMissing.Errorf("there are no tools for %s", line)
	default:
		f.live, f.silence = o.ask(ctx, f)
	}
}

func (o *Operator) ask(ctx context.Context, f *facts) (fdb.BackupStatus, error) {
	answer := o.run(ctx, f, fdb.ReadBackupStatus(f.tag()))
	if answer.Outcome != fdb.Ok {
		return fdb.BackupStatus{}, port.DatabaseSilent.Errorf("fdbbackup status: %s", answer.Result)
	}
	return fdb.ParseBackupStatus([]byte(answer.Stdout))
}

// observe writes into the status what was read. What was not heard stays as it was.
func (f *facts) observe() {
	s := &f.backup.Status
	s.AgentCount, s.DeploymentConfigured = f.agentsReady()
	if f.silence == nil {
		s.BackupDetails = &v1beta2.BackupDetails{
			URL: f.live.URL, Running: f.live.State.Running(), Paused: f.live.Paused,
			SnapshotTime: f.live.SnapshotPeriodSeconds, Restorable: f.live.Restorable, Tag: f.live.Tag,
		}
	}
	s.Generations = f.wish().Generations
}

// agentsReady returns how many agents of the wanted kind are ready, and whether the deployment is as it should be.
func (f *facts) agentsReady() (count int, configured bool) {
	switch {
	case f.broken != nil:
		return 0, false
	case f.wanted == nil || f.agents == nil:
		return 0, f.wanted == nil && f.agents == nil
	}
	d := f.agents
	return int(min(d.Status.ReadyReplicas, d.Status.UpdatedReplicas)), d.Status.ObservedGeneration == d.Generation && !outdated(d, f.wanted)
}

func (f *facts) tag() string { return cmp.Or(f.backup.Spec.Tag, fdb.DefaultBackupTag) }

func (f *facts) managed() bool { return managed(f.backup) }

func managed(b *v1beta2.FoundationDBBackup) bool {
	return b.Spec.BackupType != v1beta2.BackupTypeUnmanaged
}

// siblings are the other backups of the cluster that are started and stopped by their objects.
func (f *facts) siblings() []v1beta2.FoundationDBBackup {
	var list []v1beta2.FoundationDBBackup
	for _, other := range f.others {
		if other.Spec.ClusterName == f.backup.Spec.ClusterName && managed(&other) && other.DeletionTimestamp == nil {
			list = append(list, other)
		}
	}
	return list
}

// owner returns the older backup of the cluster with the same tag; empty: this one owns the tag.
func (f *facts) owner() string {
	if !f.managed() {
		return ""
	}
	for _, other := range f.siblings() {
		if cmp.Or(other.Spec.Tag, fdb.DefaultBackupTag) == f.tag() && older(&other, f.backup) {
			return other.Name
		}
	}
	return ""
}

// older orders objects by age, then by name.
func older(a, b metav1.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !at.Equal(&bt) {
		return at.Before(&bt)
	}
	return a.GetName() < b.GetName()
}

// refusal returns why the operator does not act upon a spec; nil: it does.
func refusal(b *v1beta2.FoundationDBBackup, l foundationdb.TemplateLimits) error {
	problems := foundationdb.ValidateBackup(b)
	if d := b.Status.BackupDetails; d != nil && d.Tag != "" && d.Tag != cmp.Or(b.Spec.Tag, fdb.DefaultBackupTag) {
		problems = append(problems, foundationdb.Problem{Path: "spec.tag", Reason: "it was " + d.Tag + " and cannot be changed"})
	}
	if err := foundationdb.Refused(foundationdb.SpecInvalid, problems); err != nil {
		return err
	}
	return foundationdb.Refused(foundationdb.TemplateForbidden, foundationdb.ForbiddenInBackup(b, l))
}
