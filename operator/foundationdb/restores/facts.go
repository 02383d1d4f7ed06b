package restores

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// foreignTag is the tag under which other operators restore: that of fdbrestore itself. Source:
// fdb-kubernetes-operator 2.33.0, controllers/start_restore.go, which names none.
const foreignTag = "default"

// facts are what a pass has read, once.
type facts struct {
	now     time.Time
	restore *v1beta2.FoundationDBRestore // its status is the one that the pass writes
	others  []v1beta2.FoundationDBRestore

	cluster     *v1beta2.FoundationDBCluster // nil: there is none
	at          port.Endpoint
	unmade      bool             // the cluster has no connection string yet
	silence     error            // why the database was not heard; nil: state is what it said of the tag
	state       fdb.RestoreState // RestoreUnknown: it knows no restore of the tag
	unavailable string           // why the database cannot take a restore; only read while one is to be started

	tag         string
	owned       bool // a line of the tag is ours
	url         string
	credentials fdb.Secret
	refused     error
}

// gather reads the facts, and the status as it is stored. found is false if the object is gone.
func (o *Operator) gather(ctx context.Context, ref control.Ref, stored *v1beta2.FoundationDBRestoreStatus) (f facts, found bool, err error) {
	f = facts{now: o.options.Now(), restore: &v1beta2.FoundationDBRestore{}}
	f.restore.Namespace, f.restore.Name = ref.Namespace, ref.Name
	if found, err = o.objects.Get(ctx, f.restore); err != nil || !found {
		return f, false, err
	}
	*stored = *f.restore.Status.DeepCopy()
	f.tag, f.owned = tagOf(f.restore)
	if f.ended() || f.restore.DeletionTimestamp != nil {
		return f, true, nil
	}
	if err := o.readObjects(ctx, &f); err != nil {
		return f, true, err
	}
	var problem error
	f.url, f.credentials, problem = foundationdb.BackupStore(f.restore.Spec.BlobStoreConfiguration, f.restore.Name)
	f.refused = cmp.Or(foundationdb.Refused(foundationdb.SpecInvalid, foundationdb.ValidateRestore(f.restore)), problem)
	if f.begun() {
		f.refused = nil // what was started is watched, whatever the spec has become
	}
	if f.refused == nil {
		o.readRestore(ctx, &f)
	}
	if f.refused == nil && f.silence == nil && !f.begun() {
		f.unavailable = o.readAvailability(ctx, &f)
	}
	return f, true, nil
}

// tagOf returns the tag of a restore, and whether what the database says of it is told of this restore.
func tagOf(r *v1beta2.FoundationDBRestore) (tag string, owned bool) {
	s := r.Status
	switch {
	case s.Tag != "":
		return s.Tag, true
	case s.Running || s.State != "" && fdb.RestoreState(s.State) != fdb.RestoreUnknown:
		return cmp.Or(r.Spec.Tag, foreignTag), true // another operator has started it
	case r.Spec.Tag != "":
		return r.Spec.Tag, false
	}
	uid := string(r.UID)
	return "restore-" + uid[:min(8, len(uid))], true
}

func (o *Operator) readObjects(ctx context.Context, f *facts) error {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = f.restore.Namespace, f.restore.Spec.DestinationClusterName
	if c.Name != "" {
		found, err := o.objects.Get(ctx, c)
		if err != nil {
			return err
		}
		if found {
			f.cluster = c
		}
	}
	var all v1beta2.FoundationDBRestoreList
	if err := o.objects.List(ctx, &all, f.restore.Namespace, nil); err != nil {
		return err
	}
	for _, other := range all.Items {
		if other.Name != f.restore.Name && other.Spec.DestinationClusterName == f.restore.Spec.DestinationClusterName {
			f.others = append(f.others, other)
		}
	}
	return nil
}

// readRestore asks the database for the restore of the tag. A tag that another restore has used is refused.
func (o *Operator) readRestore(ctx context.Context, f *facts) {
	f.state = fdb.RestoreUnknown
	if f.cluster == nil || f.cluster.Status.ConnectionString == "" {
		f.unmade, f.silence = true, port.DatabaseSilent.Errorf("the cluster %q has no connection string yet", f.restore.Spec.DestinationClusterName)
		return
	}
	f.at, f.silence = port.EndpointOf(f.cluster)
	switch line := f.at.Version.Short(); {
	case f.silence != nil:
	case !slices.Contains(o.database.Versions(), line):
		f.silence = port.ToolsMissing.Errorf("there are no tools for %s", line)
	default:
		f.state, f.silence = o.ask(ctx, f)
	}
	if f.silence != nil || f.begun() {
		f.observe()
		return
	}
	if owner := f.owner(); owner != "" {
		f.refused = TagUsed.Errorf("the tag %q belongs to the restore %q", f.tag, owner)
	} else if !f.owned && f.state != fdb.RestoreUnknown {
		f.refused = TagUsed.Errorf("the database knows a restore of the tag %q", f.tag)
	}
	if f.refused != nil {
		f.state = fdb.RestoreUnknown
		return
	}
	f.observe()
}

func (o *Operator) ask(ctx context.Context, f *facts) (fdb.RestoreState, error) {
	answer := o.run(ctx, f, fdb.ReadRestoreStatus(f.tag))
	if answer.Outcome != fdb.Ok {
		return fdb.RestoreUnknown, port.DatabaseSilent.Errorf("fdbrestore status: %s", answer.Result)
	}
	return fdb.RestoreStateOf(answer.Stdout, f.tag), nil
}

// readAvailability returns why the database cannot take a restore; empty: it can.
func (o *Operator) readAvailability(ctx context.Context, f *facts) string {
	s, err := o.database.Status(ctx, f.at, port.Long)
	switch {
	case err != nil:
		return err.Error()
	case s.Client.DatabaseStatus.Available == nil || !*s.Client.DatabaseStatus.Available:
		return "the database is not available"
	}
	return ""
}

// observe writes into the status what was heard: the tag is claimed, and a restore of it that the database knows has
// begun, and may have ended. What was not heard stays as it was.
func (f *facts) observe() {
	s := &f.restore.Status
	if f.silence != nil {
		return
	}
	s.Tag = f.tag
	if f.state == fdb.RestoreUnknown && !f.begun() {
		s.State = v1beta2.RestoreState(f.state)
		return
	}
	s.State, s.Running = v1beta2.RestoreState(f.state), f.state.Running()
	now := metav1.NewTime(f.now.Truncate(time.Second))
	if s.StartedAt == nil {
		s.StartedAt = &now
	}
	if f.state == fdb.RestoreCompleted && s.CompletedAt == nil {
		s.CompletedAt = &now
	}
}

// begun reports whether the restore was started: it is never started again.
func (f *facts) begun() bool {
	s := f.restore.Status
	return s.StartedAt != nil || s.Running || s.State != "" && fdb.RestoreState(s.State) != fdb.RestoreUnknown
}

// ended reports whether the restore has come to its end.
func (f *facts) ended() bool {
	state := fdb.RestoreState(f.restore.Status.State)
	return state == fdb.RestoreCompleted || state == fdb.RestoreAborted
}

// owner returns the older restore of the cluster with the same tag; empty: none.
func (f *facts) owner() string {
	for _, other := range f.others {
		if tag, _ := tagOf(&other); tag == f.tag && older(&other, f.restore) {
			return other.Name
		}
	}
	return ""
}

// active returns the other restores of the cluster that run.
func (f *facts) active() string {
	var names []string
	for _, other := range f.others {
		if other.Status.Running {
			names = append(names, other.Name)
		}
	}
	return strings.Join(names, ", ")
}

// older orders objects by age, then by name.
func older(a, b metav1.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !at.Equal(&bt) {
		return at.Before(&bt)
	}
	return a.GetName() < b.GetName()
}
