package kubestore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/workflow"
)

// Kind is what keeps the runs.
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
	// Only keeps and watches everything in Namespace: a role for that
	// namespace is enough. Default: runs stand in the namespace of their subject,
	// and all namespaces are watched.
	Only bool
	// Namespaces whose runs this store works on, beside those of subjects without a
	// namespace; others belong to somebody else, though one watch tells of all.
	// Empty: all.
	Namespaces []string
	// Serves tells by their subject whose runs this store works on, among those of
	// Namespaces; see Kinds. All others belong to somebody else: they are not claimed,
	// started, repaired, listed or removed. nil: all.
	Serves func(subject string) bool
	// Client only reads and sends, as who looks at runs does that others work on:
	// nothing is claimed or repaired, and rights on runs and their history are
	// enough. Definitions are looked for in all namespaces.
	Client bool
	// Owner gives the object a subject is, so that its runs go when it goes, and its slot
	// where the subject ends with the uid; it must be in the namespace of the run. nil, or
	// a nil answer: no owner.
	Owner func(subject string) *metav1.OwnerReference
	// Timeout of one request; default 10 s.
	Timeout time.Duration
	// Logger hears of repairs and of trouble in the background; default slog.Default().
	Logger *slog.Logger
}

// Store keeps runs in the API server. It implements Claimer, Lister,
// Definitions and Retainer. Any number of processes may share what it keeps.
type Store struct {
	o      Options
	client *client
	format format
	log    *slog.Logger

	ctx  context.Context // of the watches and of repairs
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	cache    cache
	workers  map[string]*worker // by name
	slots    map[string]*slot   // by subject: what was read or written last
	vacant   []vacancy          // whose Lease is to go
	vacating bool               // somebody is at that
	works    bool               // runs were claimed here
	swept    time.Time          // when all slots were looked at
	wake     chan string
	missed   bool
	repairs  map[string]bool // under way, by key
	requests chan struct{}   // told when an object asks for something
	synced   chan struct{}   // closed when both watches have begun
	unsynced int
}

var (
	_ workflow.Store       = (*Store)(nil)
	_ workflow.Claimer     = (*Store)(nil)
	_ workflow.Lister      = (*Store)(nil)
	_ workflow.Definitions = (*Store)(nil)
	_ workflow.Retainer    = (*Store)(nil)
	_ workflow.Bounded     = (*Store)(nil)
)

// Open begins to watch and returns when everything that is there has been
// read; ctx bounds only that. Close ends the watches.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Kind = cmp.Or(o.Kind, Run)
	o.Namespace = cmp.Or(o.Namespace, metav1.NamespaceDefault)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Config == nil {
		return nil, workflow.InputInvalid.Errorf("kubestore: no configuration of a client is given")
	}
	c, err := newClient(o.Config, o.Timeout)
	if err != nil {
		return nil, workflow.InputInvalid.Errorf("kubestore: the configuration of the client: %w", err)
	}
	s := &Store{
		o: o, client: c, log: o.Logger, cache: newCache(), workers: map[string]*worker{}, slots: map[string]*slot{},
		wake: make(chan string, 1024), repairs: map[string]bool{}, requests: make(chan struct{}, 1), synced: make(chan struct{}), unsynced: 2,
	}
	if o.Client {
		s.unsynced = 1
	}
	switch o.Kind {
	case Run:
		s.format = runs{}
	case ConfigMap:
		s.format = configMaps{}
	default:
		return nil, workflow.InputInvalid.Errorf("kubestore: runs are kept as Run or ConfigMap, not as %q", o.Kind)
	}
	if err := s.reachable(ctx); err != nil {
		c.close()
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.watch()
	select {
	case <-s.synced:
		return s, nil
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("kubestore: reading the runs that are there: %w", context.Cause(ctx))
	}
}

// reachable finds out before anything else that runs can be kept here.
func (s *Store) reachable(ctx context.Context) error {
	err := s.client.list(ctx, s.runRef(s.watched(), ""), metav1.ListOptions{Limit: 1}, s.format.list())
	if err == nil {
		return nil
	}
	if isNotFound(err) {
		return workflow.StoreUnavailable.Errorf("kubestore: the API server knows no %s; install deploy/crds, or keep runs as ConfigMaps: %w", s.o.Kind, err)
	}
	return trouble(ctx, "kubestore: listing runs", err)
}

// Close ends the watches and repairs. Runs this process owns stay owned until
// their worker's lease ends, or Release was called before.
func (s *Store) Close() error {
	s.stop()
	s.all.Wait()
	s.client.close()
	return nil
}

// RunLimit is half of what other stores hold of a run: an object of the API
// server has signals and history too, and quotes count twice. See workflow.Bounded.
func (s *Store) RunLimit() int { return workflow.MaxRun / 2 }

// Requests is how many requests this store has sent, watches not counted.
func (s *Store) Requests() int64 { return s.client.sent.Load() }

// watched is the namespace of the watches; "": all.
func (s *Store) watched() string {
	if s.o.Only {
		return s.o.Namespace
	}
	return ""
}

// home is the namespace that keeps the runs of a subject.
func (s *Store) home(subject string) string {
	parts := strings.Split(subject, "/")
	if s.o.Only || len(parts) < 3 || parts[1] == "" {
		return s.o.Namespace
	}
	return parts[1]
}

func (s *Store) runRef(namespace, name string) ref {
	group, resource, _, _ := s.format.resource()
	return ref{group, resource, namespace, name}
}

func (s *Store) saveRun(ctx context.Context, o *object, body []byte) (uint64, error) {
	_, _, _, part := s.format.resource()
	meta, err := s.client.patch(ctx, s.runRef(o.namespace, o.name), part, body)
	return parseVersion(meta.ResourceVersion), err
}

// hint tells whoever listens on Wake; s.mu is held. What overflows is told as
// "any" as soon as there is room.
func (s *Store) hint(id string) {
	if s.missed {
		id = ""
	}
	select {
	case s.wake <- id:
		s.missed = false
	default:
		s.missed = true
	}
}

// Wake carries hints. See workflow.Claimer.
func (s *Store) Wake() <-chan string { return s.wake }

// background does a piece of work once at a time, and again at growing delay
// until it succeeds. s.mu is held.
func (s *Store) background(key string, after time.Duration, work func(context.Context) error) {
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
			s.log.Warn("kubestore: a repair failed and is tried again", "repair", key, "error", err)
		}
	})
}

// sleep waits; false: ctx has ended.
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

// notifyRequests says that an object asks for something. s.mu is held.
func (s *Store) notifyRequests() {
	select {
	case s.requests <- struct{}{}:
	default:
	}
}
