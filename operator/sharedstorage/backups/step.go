package backups

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// How often a step polls.
const (
	pollSoon = time.Second
	pollSlow = 5 * time.Second
)

// work is the context of one attempt.
type work struct {
	o        *Operator
	t        *workflow.Task
	b        *Backup
	c        *sharedstorage.Cluster
	archiver port.Archiver
}

type step func(ctx context.Context, w *work) outcome.Outcome

// do prepares the work of a step and runs it.
func (o *Operator) do(s step) workflow.Func {
	return func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		ref, uid, err := refOf(t.Subject())
		if err != nil {
			return outcome.Fail(err)
		}
		w := &work{o: o, t: t}
		if w.b, err = o.options.Store.Load(ctx, ref.Namespace, ref.Name); err != nil {
			return outcome.Fail(err)
		}
		if uid != "" && string(w.b.UID) != uid {
			return outcome.Fail(control.NotFoundError(ref))
		}
		if err := o.refusal(ctx, w.b); err != nil {
			return outcome.Fail(err)
		}
		if w.c, err = o.cluster(ctx, w.b); err != nil {
			return outcome.Fail(err)
		}
		var ok bool
		if w.archiver, ok = o.options.Ports.Engine.(port.Archiver); !ok {
			return outcome.Fail(port.BackupToolMissing.Errorf("this operator's engines take no backups"))
		}
		return s(ctx, w)
	}
}

func (w *work) call(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.options.CallTimeout)
	defer cancel()
	return call(ctx)
}

// writer returns the instance that holds the grant, with its status. Without one, or while it does
// not write, it returns the reason to wait for.
func (w *work) writer(ctx context.Context) (name string, st port.Status, wait string, err error) {
	if w.c.Spec.Hibernated {
		return "", st, "", sharedstorage.ClusterHibernated.Errorf("cluster %s is hibernated, and no engine is to run", w.c.Ref)
	}
	var v port.Volume
	if err := w.call(ctx, func(ctx context.Context) (err error) {
		v, err = w.o.options.Ports.Storage.Observe(ctx, w.c.Ref)
		return
	}); err != nil {
		return "", st, "", err
	}
	if v.Writer == "" {
		return "", st, "the cluster has no writer yet", nil
	}
	if err := w.call(ctx, func(ctx context.Context) (err error) {
		st, err = w.o.options.Ports.Engine.Status(ctx, w.c.Ref.Of(v.Writer))
		return
	}); err != nil {
		return "", st, "the writer does not answer: " + fault.Message(err), nil
	}
	if !st.Ready || st.Role != port.Primary {
		return "", st, "the writer does not write", nil
	}
	return v.Writer, st, "", nil
}

// late reports whether the next poll comes after the deadline of the wait.
func (w *work) late(every time.Duration) bool {
	waited := w.t.Waited()
	return waited != nil && !waited.Deadline.IsZero() && !w.o.options.Now().Add(every).Before(waited.Deadline)
}

// awaitArchive waits until the writer archives its log, because a backup without it cannot be
// restored.
func awaitArchive(ctx context.Context, w *work) outcome.Outcome {
	repository, err := w.o.options.Repository(ctx, w.c)
	if err != nil {
		return outcome.Fail(err)
	}
	_, st, wait, err := w.writer(ctx)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case wait != "" && w.late(pollSlow):
		return outcome.Fail(port.ArchiveFailed.Errorf("%s", wait))
	case wait != "":
		return outcome.Wait(pollSlow, "AwaitsWriter", "%s", wait)
	}
	a := st.Archive
	switch {
	case a.Failing && (w.late(pollSlow) || fault.Code(a.Code) == port.RepositoryTaken.Code || fault.Code(a.Code) == port.BackupToolMissing.Code):
		return outcome.Fail(failed(a.Code, port.ArchiveFailed, a.Message))
	case a.Repository != repository.Hash() || a.Unreadable || a.Failing:
		if w.late(pollSlow) {
			return outcome.Fail(port.ArchiveFailed.Errorf("the log is not archived yet"))
		}
		return outcome.Wait(pollSoon, "AwaitsArchive", "the log is not archived yet. %s", a.Message)
	}
	return outcome.Done()
}

// failed makes a fault of the code and message of a status.
func failed(code string, other *fault.Kind, message string) error {
	if kind, ok := fault.Lookup(code); ok {
		other = kind
	}
	return other.Errorf("%s", message)
}

// key is the key of the backup: a run, or its repetition, takes one.
func (w *work) key() string { return cmp.Or(string(w.b.UID), w.b.Namespace+"/"+w.b.Name) }

// follow orders a job at the begin of an attempt, and then follows it. A job that its agent does not
// know, because that was started anew or another instance writes now, is ordered again.
func (w *work) follow(ctx context.Context, other *fault.Kind, do func(ctx context.Context, follow bool) (port.Backup, error)) (port.Backup, outcome.Outcome) {
	var b port.Backup
	order := func(follow bool) error {
		return w.call(ctx, func(ctx context.Context) (err error) { b, err = do(ctx, follow); return })
	}
	err := order(w.t.Waited() != nil)
	if err == nil && b.State == port.JobNone {
		err = order(false)
	}
	switch {
	case errors.Is(err, port.PodLost), errors.Is(err, port.WriterUnhealthy):
		return b, outcome.Wait(pollSlow, "AwaitsInstance", "%s", fault.Message(err)) // it comes back, or another one takes its place
	case err != nil:
		return b, outcome.Fail(err)
	case b.State == port.JobFailed:
		return b, outcome.Fail(failed(b.Code, other, b.Message))
	case b.State == port.JobWaiting:
		return b, outcome.Wait(pollSoon, "AwaitsAnother", "another one goes on since %s", b.Started.UTC().Format("15:04:05 MST"))
	case b.State == port.JobRunning:
		return b, outcome.Wait(pollSoon, "Running", "it goes on since %s", b.Started.UTC().Format("15:04:05 MST"))
	}
	return b, outcome.Done()
}

// copyData takes the backup.
func copyData(ctx context.Context, w *work) outcome.Outcome {
	name, _, wait, err := w.writer(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	if wait != "" {
		return outcome.Wait(pollSlow, "AwaitsWriter", "%s", wait)
	}
	b, out := w.follow(ctx, port.BackupFailed, func(ctx context.Context, follow bool) (port.Backup, error) {
		return w.archiver.Backup(ctx, w.c.Ref.Of(name), port.BackupOrder{Key: w.key(), Type: port.BackupType(w.b.Spec.Type), Follow: follow})
	})
	if out.IsDone() {
		return outcome.Fail(w.t.Set(b))
	}
	return out
}

// save changes the status of the newest version with compare-and-set.
func (o *Operator) save(ctx context.Context, namespace, name string, change func(b *Backup)) error {
	for range 5 {
		b, err := o.options.Store.Load(ctx, namespace, name)
		if err != nil {
			return err
		}
		before := *b.Status.DeepCopy()
		change(b)
		if equal(before, b.Status) {
			return nil
		}
		if err = o.options.Store.Save(ctx, b); !errors.Is(err, fault.WriteConflict) {
			return err
		}
	}
	return fault.WriteConflict.Errorf("the backup was changed five times meanwhile")
}

// recordBackup records what was taken.
func recordBackup(ctx context.Context, w *work) outcome.Outcome {
	var taken port.Backup
	if err := w.t.Output("CopyData", &taken); err != nil {
		return outcome.Fail(err)
	}
	place := w.c.Spec.Backup.Repository.DeepCopy()
	place.Stanza = w.c.Stanza()
	return outcome.Fail(w.o.save(ctx, w.b.Namespace, w.b.Name, func(b *Backup) {
		s := &b.Status
		s.Label, s.Type, s.StartLSN, s.StopLSN, s.Size, s.Stored, s.Repository = taken.Label, string(taken.Type), taken.StartLSN, taken.StopLSN, taken.Size, taken.Stored, place
		s.StartedAt, s.EndedAt = new(metav1.NewTime(taken.Started)), new(metav1.NewTime(taken.Ended))
	}))
}

// markExpired marks the backups that the retention has removed, and deletes those of the schedule.
func markExpired(ctx context.Context, w *work) outcome.Outcome {
	name, _, wait, err := w.writer(ctx)
	if err != nil || wait != "" {
		return outcome.Fail(err) // the next backup marks them
	}
	var have []port.Backup
	if err := w.call(ctx, func(ctx context.Context) (err error) { have, err = w.archiver.Backups(ctx, w.c.Ref.Of(name)); return }); err != nil {
		return outcome.Fail(err)
	}
	labels := map[string]bool{}
	for _, b := range have {
		labels[b.Label] = true
	}
	here := sharedstorage.PlaceOf(w.c.Spec.Backup.Repository, w.c.Stanza()) // backups of an earlier place are not expired because this one lacks them
	all, err := w.o.options.Store.List(ctx, w.b.Namespace, w.b.Spec.Cluster)
	if err != nil {
		return outcome.Fail(err)
	}
	for _, b := range all {
		s := b.Status
		if s.Label == "" || labels[s.Label] || s.Repository == nil || !sharedstorage.PlaceOf(*s.Repository, "").Same(here) || b.DeletionTimestamp != nil {
			continue
		}
		if b.Labels[sharedstorage.ScheduledLabel] != "" {
			if err := w.o.options.Store.Delete(ctx, b); err != nil {
				return outcome.Fail(err)
			}
			continue
		}
		if err := w.o.save(ctx, b.Namespace, b.Name, func(b *Backup) { b.Status.Expired = true }); err != nil {
			return outcome.Fail(err)
		}
		w.o.notify(control.Ref{Kind: Kind, Namespace: b.Namespace, Name: b.Name})
	}
	return outcome.Done()
}

// verifyBackup restores the backup into a scratch folder of a reader, or of the writer if there is
// none, and reads it.
func verifyBackup(ctx context.Context, w *work) outcome.Outcome {
	repository, err := w.o.options.Repository(ctx, w.c)
	if err != nil {
		return outcome.Fail(err)
	}
	at, err := w.checker(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	if at == "" {
		return outcome.Wait(pollSlow, "AwaitsInstance", "no instance of the cluster answers")
	}
	_, out := w.follow(ctx, port.BackupDamaged, func(ctx context.Context, follow bool) (port.Backup, error) {
		return w.archiver.Verify(ctx, w.c.Ref.Of(at), port.VerifyOrder{Key: w.key(), Repository: *repository, Label: w.b.Status.Label, Follow: follow})
	})
	return out
}

// checker returns the instance that checks the backup: the same one on each poll, if it is up.
func (w *work) checker(ctx context.Context) (string, error) {
	writer, _, _, err := w.writer(ctx)
	if err != nil {
		return "", err
	}
	var all []port.Instance
	if err := w.call(ctx, func(ctx context.Context) (err error) {
		all, err = w.o.options.Ports.Instances.List(ctx, w.c.Ref)
		return
	}); err != nil {
		return "", err
	}
	for _, i := range all {
		if i.State == port.Up && i.Name != writer && i.Type != port.Temporary {
			return i.Name, nil
		}
	}
	return writer, nil
}

func recordVerified(ctx context.Context, w *work) outcome.Outcome {
	now := metav1.NewTime(w.o.options.Now().UTC().Truncate(time.Second))
	return outcome.Fail(w.o.save(ctx, w.b.Namespace, w.b.Name, func(b *Backup) { b.Status.Verified = &now }))
}

func refused(p *machine.Plan, why error) {
	kind := fault.Of(why)
	p.Why, p.Code, p.Remedy = fault.Message(why), kind.Code, kind.Remedy
}
