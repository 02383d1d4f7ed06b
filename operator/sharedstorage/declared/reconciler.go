package declared

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/cache"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Options of a Reconciler.
type Options struct {
	// Engine is asked as far as it is a port.DatabaseAdmin, and a port.ReplicationAdmin.
	Engine port.Engine
	// Secrets reads the passwords that a spec names. nil: they cannot be read.
	Secrets func(ctx context.Context, namespace string, from v1alpha1.SecretSource) (string, error)
	// Credentials keeps the passwords of users that name none. nil: such users get no password.
	Credentials Credentials

	Timeout       time.Duration // of one look; default 5 s
	Interval      time.Duration // between looks while nothing changes; default 1 m
	WaitInterval  time.Duration // between looks at what is under way; default 10 s
	RetryInterval time.Duration // before the first look at an object that has a problem; it doubles, up to 20 times of it; default 15 s
	Logger        *slog.Logger  // default slog.Default()
}

// Reconciler makes what clusters declare. Its methods are safe for concurrent use.
type Reconciler struct {
	options Options
	found   cache.Cache[*finding] // by namespace/name/section
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	o.Timeout, o.Interval = cmp.Or(o.Timeout, 5*time.Second), cmp.Or(o.Interval, time.Minute)
	o.WaitInterval, o.RetryInterval = cmp.Or(o.WaitInterval, 10*time.Second), cmp.Or(o.RetryInterval, 15*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Reconciler{options: o}
}

// Cluster is what a pass knows of a cluster that has a writer.
type Cluster struct {
	Ref        port.Ref // without Instance
	Generation int64
	Writer     string // name of the instance
	CA         []byte // the authorities of the instances' certificates; nil: they have none
	Spec       *v1alpha1.SharedStorageClusterSpec
	Status     *v1alpha1.SharedStorageClusterStatus // of the former pass
}

// Event is a message about a cluster for people.
type Event struct {
	Warning         bool
	Reason, Message string // Reason is CamelCase
}

// Report is what is known of the declared objects after a pass. A section whose server did not answer is not in it.
type Report struct {
	Conditions []metav1.Condition
	Events     []Event       // of this pass
	Next       time.Duration // until something is looked at again that is not as declared; 0: all is

	databases     *v1alpha1.DatabasesStatus
	subscriptions []v1alpha1.SubscriptionStatus
	replicates    bool // subscriptions is known
}

// finding is what a look at a section has found.
type finding struct {
	conditions    []metav1.Condition
	held          map[string]retry // by subject: the objects that have a problem; "": the section itself
	settled       bool             // all is as declared, and nothing is under way
	databases     *v1alpha1.DatabasesStatus
	subscriptions []v1alpha1.SubscriptionStatus
	replicates    bool
}

// section is objects that are read from the server together.
type section interface {
	// declaration returns what a spec declares. Without conditions there is nothing to look at.
	declaration(s *v1alpha1.SharedStorageClusterSpec) declaration
	// want reads what is wanted, but for objects that are held. An object that cannot be read is a problem.
	want(ctx context.Context, l *look)
	// find asks the server.
	find(ctx context.Context, l *look) error
	// plan returns the statements that make what was found as it is wanted, and what no statement can. It is pure.
	plan() ([]statement, []problem)
	// check tells what else keeps objects from being as declared, and what a status has of them.
	check(ctx context.Context, l *look) error
}

// declaration is what a spec declares of a section.
type declaration struct {
	name       string // of the section, for people
	changed    string // reason of the event of what was done
	conditions []told
	subjects   []string // the objects, in order
	passwords  []password
}

// told is a condition, and what it says when nothing is wrong.
type told struct{ condition, fine string }

// password is the password of an object that may change while the spec stays.
type password struct {
	name string
	from *v1alpha1.SecretSource // nil: Credentials keep it
}

// sections returns what the engine can do, each for one look.
func (r *Reconciler) sections() (all []section) {
	if admin, ok := r.options.Engine.(port.DatabaseAdmin); ok {
		all = append(all, &databases{admin: admin, kept: map[string]string{}})
	}
	if admin, ok := r.options.Engine.(port.ReplicationAdmin); ok {
		all = append(all, &replication{admin: admin})
	}
	return all
}

// Reconcile looks at the writer of a cluster as far as a look is due, and makes what is missing. It holds up nothing:
// what cannot be done is a condition. Spec and status stay as they are.
func (r *Reconciler) Reconcile(ctx context.Context, c Cluster, now time.Time) *Report {
	rep := &Report{}
	for _, s := range r.sections() {
		d := s.declaration(c.Spec)
		if len(d.conditions) == 0 {
			continue
		}
		f, until := r.section(ctx, s, d, c, now, rep)
		if f == nil {
			continue
		}
		rep.Conditions = append(rep.Conditions, f.conditions...)
		if left := until.Sub(now); !f.settled && (rep.Next == 0 || left < rep.Next) {
			rep.Next = left
		}
		if f.databases != nil {
			rep.databases = f.databases
		}
		if f.replicates {
			rep.subscriptions, rep.replicates = f.subscriptions, true
		}
	}
	return rep
}

// section returns what is known of a section, and until when; nil: nothing.
func (r *Reconciler) section(ctx context.Context, s section, d declaration, c Cluster, now time.Time, rep *Report) (*finding, time.Time) {
	kept, key := kept(c.Ref.Namespace, c.Ref.Name, d.name), r.key(ctx, c, d)
	if f, until, ok := r.found.Get(kept, key, now); ok {
		return f, until
	}
	former, _ := r.found.Last(kept, key)
	if former == nil {
		former = &finding{}
	}
	limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	l := &look{r: r, c: c, d: d, id: c.Ref.Of(c.Writer), now: now, former: former, found: &finding{}}
	var f *finding
	err := port.Guard(func() (err error) { f, err = l.run(limited, s); return err })
	rep.Events = append(rep.Events, l.events...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, time.Time{}
		}
		r.options.Logger.Warn("a cluster could not be asked for what it declares", "cluster", c.Ref.String(), "of", d.name, "error", err)
		if transient(err) {
			return nil, time.Time{}
		}
		f = &finding{held: map[string]retry{"": former.held[""].again([]problem{{err: err}}, now, r.options.RetryInterval)}}
		for subject, held := range former.held {
			if subject != "" {
				f.held[subject] = held
			}
		}
	}
	until := l.until(f)
	r.found.Put(kept, key, until, f)
	return f, until
}

// transient reports whether an error ends by itself within seconds: the instance does not answer or write.
func transient(err error) bool {
	kind := fault.Of(err)
	return kind == port.WriterUnhealthy || kind == port.PodLost
}

// key changes with all that makes a look due before its time.
func (r *Reconciler) key(ctx context.Context, c Cluster, d declaration) string {
	parts := []string{c.Ref.UID, strconv.FormatInt(c.Generation, 10), c.Writer, sha(string(c.CA))} // users' Secrets have the authorities
	for _, p := range d.passwords {
		if r.options.Credentials != nil {
			parts = append(parts, r.options.Credentials.Revision(ctx, c.Ref, p.name, p.from))
		}
	}
	return strings.Join(parts, "/")
}

func kept(namespace, name, section string) string { return namespace + "/" + name + "/" + section }

// Forget drops what is kept of a cluster that is gone.
func (r *Reconciler) Forget(namespace, name string) {
	for _, section := range []string{databasesName, replicationName} {
		r.found.Forget(kept(namespace, name, section))
	}
}
