package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// BackupKind is the kind of the backups of clusters.
const BackupKind = "SharedStorageBackup"

// ScheduledLabel is the label of backups that the schedule of a cluster has created.
const ScheduledLabel = Prefix + "scheduled"

// BackupStore has the SharedStorageBackups, for the schedule and for restores.
type BackupStore interface {
	// Find returns a backup, or control.NotFound.
	Find(ctx context.Context, namespace, name string) (*v1alpha1.SharedStorageBackup, error)
	// Create creates a backup. One that exists is not an error.
	Create(ctx context.Context, b *v1alpha1.SharedStorageBackup) error
}

// Repository returns where a cluster keeps its log and its backups, with its secrets; nil without
// spec.backup. SPEC_INVALID or BACKUP_REPOSITORY_FAILED if a secret cannot be read.
func (o *Operator) Repository(ctx context.Context, c *Cluster) (*port.Repository, error) {
	b := c.Spec.Backup
	if b == nil {
		return nil, nil
	}
	r, err := o.repository(ctx, c.Ref.Namespace, b.Repository, c.Stanza())
	if err != nil {
		return nil, err
	}
	r.KeepBackups, r.KeepDays = int(b.Retention.Backups), int(b.Retention.Days)
	if r.KeepBackups == 0 && r.KeepDays == 0 {
		r.KeepBackups = defaultKeep
	}
	if b.MaxWaiting != nil {
		r.MaxWaiting = b.MaxWaiting.Value()
	}
	return r, nil
}

// minWaiting is the least log that may be given up: four segments.
const minWaiting = 64 << 20

// defaultKeep is the number of full backups that are kept.
const defaultKeep = 7

// Stanza returns the name of the cluster in its repository.
func (c *Cluster) Stanza() string {
	name := ""
	if c.Spec.Backup != nil {
		name = c.Spec.Backup.Repository.Stanza
	}
	return cmp.Or(name, defaultStanza(c.Ref))
}

func defaultStanza(c port.Ref) string { return c.Namespace + "-" + c.Name }

func (o *Operator) repository(ctx context.Context, namespace string, s v1alpha1.RepositorySpec, stanza string) (*port.Repository, error) {
	r := &port.Repository{Stanza: cmp.Or(s.Stanza, stanza), Folder: s.Folder}
	var problems []error
	read := func(what string, from *v1alpha1.SecretSource) string {
		if from == nil {
			return ""
		}
		if o.options.Secrets == nil {
			problems = append(problems, fmt.Errorf("%s: this operator reads no secrets", what))
			return ""
		}
		text, err := o.options.Secrets(ctx, namespace, *from)
		if err == nil && text == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
		return text
	}
	r.Passphrase = read("encryptionKey", s.EncryptionKey)
	if s.S3 != nil {
		r.S3 = &port.S3{Bucket: s.S3.Bucket, Endpoint: s.S3.Endpoint, Region: cmp.Or(s.S3.Region, "us-east-1"), PathStyle: s.S3.PathStyle,
			KeyID: read("s3.keyID", &s.S3.KeyID), Secret: read("s3.secretKey", &s.S3.SecretKey), CA: read("s3.ca", s.S3.CA)}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, port.RepositoryFailed.Errorf("backup.repository: %w", err)
	}
	return r, nil
}

// CheckBackup rejects a spec.backup or a spec.restoreFrom that cannot be: SPEC_INVALID, or
// BACKUP_REPOSITORY_TAKEN where both name one place.
func CheckBackup(of port.Ref, s *v1alpha1.SharedStorageClusterSpec) error {
	return (&Cluster{Ref: of, Spec: *s}).wrongBackup()
}

// wrongBackup repeats the CEL rules of the CRD, and rejects what they cannot.
func (c *Cluster) wrongBackup() error {
	s := c.Spec
	place := func(field string, r v1alpha1.RepositorySpec) error {
		if r.Folder == "" && r.S3 == nil {
			return SpecInvalid.Errorf("%s: name a folder or s3", field)
		}
		return nil
	}
	if b := s.Backup; b != nil {
		if err := place("backup.repository", b.Repository); err != nil {
			return err
		}
		if _, err := backupTimes(b); err != nil {
			return err
		}
		if b.MaxWaiting != nil && b.MaxWaiting.Value() < minWaiting {
			return SpecInvalid.Errorf("backup.maxWaiting: %s is less than 64Mi", b.MaxWaiting)
		}
		if b.Retention.Backups > 0 && b.Retention.Days > 0 || b.Retention.Backups < 0 || b.Retention.Days < 0 {
			return SpecInvalid.Errorf("backup.retention: either backups or days, and no negative number")
		}
	}
	r := s.RestoreFrom
	if r == nil {
		return nil
	}
	count := func(set ...bool) (n int) {
		for _, one := range set {
			if one {
				n++
			}
		}
		return n
	}
	_, err := restoreTime(r.Target)
	switch {
	case count(r.Cluster != "", r.Backup != "", r.Repository != nil) != 1:
		return SpecInvalid.Errorf("restoreFrom: name one of cluster, backup and repository")
	case count(r.Target.Time != "", r.Target.Name != "", r.Target.BackupOnly) > 1:
		return SpecInvalid.Errorf("restoreFrom.target: at most one of time, name and backupOnly")
	case err != nil:
		return SpecInvalid.Errorf("restoreFrom.target.time: %w", err)
	case s.CloneFrom != "":
		return SpecInvalid.Errorf("either restoreFrom or cloneFrom")
	case r.Repository != nil && r.Repository.Stanza == "":
		return SpecInvalid.Errorf("restoreFrom.repository: name the stanza")
	case r.Repository != nil:
		if err := place("restoreFrom.repository", *r.Repository); err != nil {
			return err
		}
		return c.notArchiveOf(PlaceOf(*r.Repository, ""))
	}
	return nil
}

func restoreTime(t v1alpha1.RestoreTarget) (time.Time, error) {
	if t.Time == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, t.Time)
}

// source returns what the data of an instance are made of: another instance, or for the first writer
// of a new cluster the backup of spec.restoreFrom.
func (w *work) source(ctx context.Context, from string) (port.Source, error) {
	if from != "" || w.c.Spec.RestoreFrom == nil || w.f.Volume.Writer != "" {
		return port.Source{From: from}, nil
	}
	found, err := w.o.restoreOf(ctx, w.c)
	if err != nil {
		return port.Source{}, err
	}
	return port.Source{Restore: found}, nil
}

// restoreOf returns the backup and the target of spec.restoreFrom. BACKUP_MISSING if what it names
// is not there.
func (o *Operator) restoreOf(ctx context.Context, c *Cluster) (*port.Restore, error) {
	s := c.Spec.RestoreFrom
	at, err := restoreTime(s.Target)
	if err != nil {
		return nil, SpecInvalid.Errorf("restoreFrom.target.time: %w", err)
	}
	place, label, stanza := s.Repository, s.Label, ""
	switch {
	case s.Backup != "":
		b, err := o.findBackup(ctx, c.Ref.Namespace, s.Backup)
		if err != nil {
			return nil, err
		}
		place, label = b.Status.Repository, cmp.Or(label, b.Status.Label)
	case s.Cluster != "":
		of, err := o.load(ctx, control.Ref{Kind: c.Kind, Namespace: c.Ref.Namespace, Name: s.Cluster})
		if errors.Is(err, control.NotFound) || err == nil && of.Spec.Backup == nil {
			return nil, port.BackupMissing.Errorf("restoreFrom.cluster: there is no cluster %s with a backup", s.Cluster)
		}
		if err != nil {
			return nil, err
		}
		place, stanza = &of.Spec.Backup.Repository, of.Stanza()
	}
	r, err := o.repository(ctx, c.Ref.Namespace, *place, stanza)
	if err != nil {
		return nil, err
	}
	return &port.Restore{Repository: *r, Label: label, Time: at, Name: s.Target.Name, Consistent: s.Target.BackupOnly}, nil
}

func (o *Operator) findBackup(ctx context.Context, namespace, name string) (*v1alpha1.SharedStorageBackup, error) {
	if o.options.Backups == nil {
		return nil, port.BackupMissing.Errorf("restoreFrom.backup: this operator has no %ss", BackupKind)
	}
	b, err := o.options.Backups.Find(ctx, namespace, name)
	if errors.Is(err, control.NotFound) {
		return nil, port.BackupMissing.Errorf("restoreFrom.backup: there is no %s %s", BackupKind, name)
	}
	if err == nil && (b.Status.Label == "" || b.Status.Repository == nil || b.Status.Expired) {
		return nil, port.BackupMissing.Errorf("restoreFrom.backup: %s is %s", name, map[bool]string{true: "expired", false: "not complete"}[b.Status.Expired])
	}
	return b, err
}

// checkBackup rejects a source that is not there, and an archive that is the source's.
func checkBackup(ctx context.Context, w *work) outcome.Outcome {
	if w.f.Volume.Writer != "" {
		return outcome.Done() // it is restored already
	}
	if err := w.o.checkArchive(ctx, w.c); err != nil {
		return outcome.Fail(err)
	}
	_, err := w.source(ctx, "")
	return outcome.Fail(err)
}

// PlaceOf returns where a repository is, without its secrets. stanza is the one that a repository without
// one has.
func PlaceOf(r v1alpha1.RepositorySpec, stanza string) *port.Repository {
	place := &port.Repository{Stanza: cmp.Or(r.Stanza, stanza), Folder: r.Folder}
	if r.S3 != nil {
		place.S3 = &port.S3{Bucket: r.S3.Bucket, Endpoint: r.S3.Endpoint}
	}
	return place
}

// checkArchive rejects an archive of a new cluster that has the log of the cluster that its data come
// from, whether that is still there or not. Both have one system identifier, so pgBackRest cannot
// tell them apart, and their logs differ after the copy under the same names.
func (o *Operator) checkArchive(ctx context.Context, c *Cluster) error {
	s := c.Spec
	if s.Backup == nil || s.RestoreFrom == nil && s.CloneFrom == "" {
		return nil
	}
	var from *port.Repository
	of := s.CloneFrom
	switch r := s.RestoreFrom; {
	case r != nil && r.Repository != nil:
		from = PlaceOf(*r.Repository, "")
	case r != nil && r.Backup != "":
		if o.options.Backups == nil {
			return nil
		}
		b, err := o.options.Backups.Find(ctx, c.Ref.Namespace, r.Backup)
		if errors.Is(err, control.NotFound) || err == nil && b.Status.Repository == nil {
			return nil
		}
		if err != nil {
			return err
		}
		from = PlaceOf(*b.Status.Repository, "")
	case r != nil:
		of = r.Cluster
	}
	if from == nil {
		source, err := o.load(ctx, control.Ref{Kind: c.Kind, Namespace: c.Ref.Namespace, Name: of})
		if errors.Is(err, control.NotFound) || err == nil && source.Spec.Backup == nil {
			return nil
		}
		if err != nil {
			return err
		}
		from = PlaceOf(source.Spec.Backup.Repository, source.Stanza())
	}
	return c.notArchiveOf(from)
}

// notArchiveOf rejects spec.backup if it is this place.
func (c *Cluster) notArchiveOf(from *port.Repository) error {
	if c.Spec.Backup == nil || !from.Same(PlaceOf(c.Spec.Backup.Repository, c.Stanza())) {
		return nil
	}
	return port.RepositoryTaken.Errorf("backup.repository: %s is the archive of the cluster that the data come from, and both would write the same segments", from.Place())
}

// archive tells the engines where to send their log.
func (t *repairer) archive() {
	archiver, ok := t.o.options.Ports.Engine.(port.Archiver)
	if !ok || !t.f.known(factRepository) {
		return
	}
	want := t.f.Repository
	for _, i := range t.f.Instances {
		st, asked := t.f.Engines[i.Name]
		if !asked || i.State != port.Up || !st.Installed || st.Archive.Repository == want.Hash() {
			continue
		}
		t.do("the archive of "+i.Name, func(ctx context.Context) error { return archiver.Archive(ctx, t.c.Ref.Of(i.Name), want) })
	}
}

// archive tells a new instance where to send its log before its engine starts: the same run may
// promote it, and until it is told it drops what it writes, and the history of its timeline too.
func (w *work) archive(ctx context.Context, id port.Ref, st port.Status) error {
	archiver, ok := w.ports().Engine.(port.Archiver)
	if !ok || !w.f.known(factRepository) || st.Archive.Repository == w.f.Repository.Hash() {
		return nil
	}
	return w.call(ctx, func(ctx context.Context) error { return archiver.Archive(ctx, id, w.f.Repository) })
}

// archivedStep rounds the time up to which the log is archived, so that a busy cluster does not
// cause a status write a minute.
const archivedStep = 5 * time.Minute

func (c *Cluster) computeBackup() {
	writer := c.Facts.writer()
	if c.Spec.Backup == nil {
		c.Status.Backup = v1alpha1.BackupStatus{}
		return
	}
	c.recordGap()
	c.Status.Backup.Next = nil
	if writer == nil || !c.Facts.known(factRepository) {
		return
	}
	if next := c.nextBackup(); !next.IsZero() {
		c.Status.Backup.Next = new(metav1.NewTime(next.UTC()))
	}
	st := c.Facts.Engines[writer.Name].Archive
	if isOpen(c.Status.Backup.Gap) || st.Repository != c.Facts.Repository.Hash() {
		return
	}
	until := st.LastAt
	if st.Waiting == 0 && !st.Failing && !until.IsZero() {
		until = c.Facts.At
	} else if st.Waiting > 0 && st.Since.Before(until) {
		until = st.Since
	}
	if until = until.Truncate(archivedStep); !until.IsZero() {
		c.Status.Backup.ArchivedUntil = new(metav1.NewTime(until.UTC()))
	}
}

// archiving says whether the log is archived, and since when it is not; nil without spec.backup.
func archiving(c *Cluster) *metav1.Condition {
	f, kind := c.Facts, ArchivingCondition
	if c.Spec.Backup == nil {
		if meta.FindStatusCondition(c.Status.Conditions, kind) == nil {
			return nil
		}
		return new(condition.New(kind, metav1.ConditionFalse, "NotWanted", "spec.backup is not set"))
	}
	if err := f.Unknown[factRepository]; err != nil {
		return new(condition.FromFault(kind, fault.Of(err), "%s", fault.Message(err)))
	}
	writer := f.writer()
	if writer == nil {
		return new(condition.New(kind, metav1.ConditionUnknown, "NoWriter", "there is no writer whose log could be archived"))
	}
	st := f.Engines[writer.Name].Archive
	switch {
	case st.Repository != f.Repository.Hash():
		return new(condition.New(kind, metav1.ConditionFalse, "NotSet", "instance %s is told where to archive", writer.ID))
	case st.Failing:
		since := ""
		if !st.Since.IsZero() {
			since = waiting(st, f.Repository.MaxWaiting, f.At) + ": "
		}
		return new(condition.FromCode(kind, cmp.Or(st.Code, string(port.ArchiveFailed.Code)), since+st.Message))
	case st.Unreadable:
		return new(condition.New(kind, metav1.ConditionFalse, "Preparing", "the repository is prepared"))
	case isOpen(c.Status.Backup.Gap):
		return new(condition.New(kind, metav1.ConditionFalse, gapReason, "%s", gapMessage(c.Status.Backup.Gap)))
	case st.Waiting > behind:
		return new(condition.New(kind, metav1.ConditionFalse, "Behind", "%s", waiting(st, f.Repository.MaxWaiting, f.At)))
	}
	next := ""
	if at := c.nextBackup(); !at.IsZero() {
		next = ", and the next backup is taken at " + at.Format(time.RFC3339)
	}
	return new(condition.New(kind, metav1.ConditionTrue, "Archived", "the log of instance %s is archived as %s%s", writer.ID, c.Stanza(), next))
}

// behind is the number of waiting segments (of 16 MB) from which on the archive is behind.
const behind = 8
