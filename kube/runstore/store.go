package runstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Kind is the kind of object that keeps a run.
type Kind string

// The kinds. Run needs the CRDs of deploy/crds; ConfigMap needs nothing.
const (
	Run       Kind = "Run"
	ConfigMap Kind = "ConfigMap"
)

// Options of a store.
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	// Kind of the objects; default Run.
	Kind Kind
	// Namespace keeps definitions, leases of workers and the runs of subjects
	// without a namespace; default "default".
	Namespace string
	// SingleNamespace keeps and watches everything in Namespace: a role for that
	// namespace is enough. Default: runs are kept in the namespace of their subject,
	// and all namespaces are watched.
	SingleNamespace bool
	// Namespaces are the namespaces whose runs this store works on, besides the runs
	// of subjects without a namespace. The store ignores all other runs, although its
	// watch reports them. Empty: all.
	Namespaces []string
	// Serves reports, among the runs of Namespaces, whether this store works on the
	// runs of a subject; see Kinds. All other runs are not claimed, started, repaired,
	// listed or removed. nil: all.
	Serves func(subject string) bool
	// Operator marks the runs that this store creates, by a label. A store with an
	// Operator leaves the runs of every other Operator alone, as those that Serves
	// excludes; runs without a mark are everybody's. Two operators of the same kinds need
	// one each. "": this store marks nothing and works on the runs of all operators.
	Operator string
	// Client limits the store to reading runs and sending signals. It claims and
	// repairs nothing; rights on runs and their history are enough. Definitions are
	// searched in all namespaces.
	Client bool
	// Owner returns the object that a subject names. Kubernetes deletes the runs of the
	// subject together with that object, and also its slot if the subject ends with the
	// uid. The object must be in the namespace of the run. nil, or a nil answer: no owner.
	Owner func(subject string) *metav1.OwnerReference
	// Timeout of one request; default 10 s.
	Timeout time.Duration
	// Logger reports repairs and errors in the background; default slog.Default().
	Logger *slog.Logger
}

// Store keeps runs in the API server. It implements Claimer, Lister,
// Definitions and Retainer. Any number of processes may share the runs.
type Store struct{ *shared }

var (
	_ runstore.Store       = (*Store)(nil)
	_ runstore.Claimer     = (*Store)(nil)
	_ runstore.Lister      = (*Store)(nil)
	_ runstore.Definitions = (*Store)(nil)
	_ runstore.Retainer    = (*Store)(nil)
	_ runstore.Bounded     = (*Store)(nil)
	_ runstore.StepLimiter = (*Store)(nil)
)

// Open starts the watches and returns when they have read all existing objects. ctx
// bounds only that first read. Close ends the watches.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Kind = cmp.Or(o.Kind, Run)
	o.Namespace = cmp.Or(o.Namespace, metav1.NamespaceDefault)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Operator != format.LabelValue(o.Operator) || len(validation.IsValidLabelValue(o.Operator)) > 0 {
		return nil, runtype.InputInvalid.Errorf("kube/runstore: Options.Operator %q is not the value of a label: letters, digits, '-', '_' and '.', at most 63", o.Operator)
	}
	if o.Config == nil {
		return nil, runtype.InputInvalid.Errorf("kube/runstore: Options.Config is missing")
	}
	c, err := client.New(o.Config, o.Timeout)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("kube/runstore: the configuration of the client: %w", err)
	}
	s := &Store{newShared(o, c)}
	switch o.Kind {
	case Run:
		s.format = format.Runs()
	case ConfigMap:
		s.format = format.ConfigMaps()
	default:
		return nil, runtype.InputInvalid.Errorf("kube/runstore: runs are kept as Run or ConfigMap, not as %q", o.Kind)
	}
	if err := s.reachable(ctx); err != nil {
		c.Close()
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.watches.watch()
	select {
	case <-s.watches.synced:
		return s, nil
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("kube/runstore: reading the existing runs: %w", context.Cause(ctx))
	}
}

// reachable checks that the API server knows the kind of the runs and answers.
func (s *Store) reachable(ctx context.Context) error {
	err := s.client.List(ctx, s.runRef(s.watchNamespace(), ""), metav1.ListOptions{Limit: 1}, s.format.NewList())
	if err == nil {
		return nil
	}
	if client.IsNotFound(err) {
		return runstore.StoreUnavailable.Errorf("kube/runstore: the API server knows no %s; install deploy/crds, or keep runs as ConfigMaps: %w", s.o.Kind, err)
	}
	return client.StoreError(ctx, "kube/runstore: listing runs", err)
}

// Close ends the watches and repairs. Runs that this process owns stay owned until
// their worker's lease ends, unless Release was called before.
func (s *Store) Close() error {
	s.stop()
	s.all.Wait()
	s.client.Close()
	return nil
}

// RunLimit is half of the limit of other stores: an object of the API server also
// holds signals and history, and its quotes are escaped. See runstore.Bounded.
func (s *Store) RunLimit() int { return runtype.MaxRun / 2 }

// Requests returns how many requests this store has sent, without watches.
func (s *Store) Requests() int64 { return s.client.Sent() }

// watchNamespace is the namespace of the watches; "": all.
func (s *shared) watchNamespace() string {
	if s.o.SingleNamespace {
		return s.o.Namespace
	}
	return ""
}

// namespaceOf returns the namespace that keeps the runs of a subject.
func (s *shared) namespaceOf(subject string) string {
	parts := strings.Split(subject, "/")
	if s.o.SingleNamespace || len(parts) < 3 || parts[1] == "" {
		return s.o.Namespace
	}
	return parts[1]
}

func (s *shared) runRef(namespace, name string) client.Ref {
	group, resource, _, _ := s.format.Resource()
	return client.Ref{Group: group, Resource: resource, Namespace: namespace, Name: name}
}

func (s *shared) saveRun(ctx context.Context, o *format.Object, body []byte) (uint64, error) {
	_, _, _, part := s.format.Resource()
	meta, err := s.client.Patch(ctx, s.runRef(o.Namespace, o.Name), part, body)
	return format.ParseVersion(meta.ResourceVersion), err
}

// notify sends the id of a run to Wake; s.mu is held. If the channel is full, the next
// notification carries "" (any run).
func (s *shared) notify(id string) {
	if s.overflowed {
		id = ""
	}
	select {
	case s.wake <- id:
		s.overflowed = false
	default:
		s.overflowed = true
	}
}

// Wake carries the ids of runs that may be due. See runstore.Claimer.
func (s *Store) Wake() <-chan string { return s.wake }

// background runs work in a goroutine and repeats it with growing delay until it
// succeeds. It does nothing while work with the same key runs. s.mu is held.
func (s *shared) background(key string, after time.Duration, work func(context.Context) error) {
	if s.repairs[key] || s.ctx.Err() != nil || s.o.Client {
		return
	}
	s.repairs[key] = true
	s.all.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.repairs, key)
			s.mu.Unlock()
		}()
		for wait := after; ; wait = min(2*max(wait, 100*time.Millisecond), 30*time.Second) {
			if !sleep(s.ctx, wait) {
				return
			}
			err := work(s.ctx)
			if err == nil || s.ctx.Err() != nil {
				return
			}
			s.log.Warn("kube/runstore: a repair failed and is repeated", "repair", key, "error", err)
		}
	})
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notifyRequests wakes ServeRequests. s.mu is held.
func (s *starter) notifyRequests() {
	select {
	case s.requests <- struct{}{}:
	default:
	}
}
