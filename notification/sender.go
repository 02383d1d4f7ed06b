package notification

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	pollEvery = time.Second // for what other servers wrote, and for retries
	gather    = 100 * time.Millisecond

	releaseFor = 5 * time.Second
)

// History is the history of the runs. A runstore.Lister is one.
type History interface {
	List(ctx context.Context, q runstore.Query) (runs []*runtype.Run, cursor string, err error)
	Events(ctx context.Context, cursor string, limit int) (events []runtype.Event, next string, err error)
}

// selective is a history that finds the events of some kinds without decoding the others. The cursor stays at its end. A sql.Store is one.
type selective interface {
	EventsOf(ctx context.Context, cursor string, limit int, kinds []runtype.EventKind) (events []runtype.Event, next string, err error)
}

// Options of a sender. Objects, History and Secrets are required.
type Options struct {
	Objects  control.Objects
	History  History
	Secrets  workflow.Secrets
	Client   func() *http.Client    // makes the client of one URL. nil: clients that keep connections and refuse local addresses
	Clusters Source                 // of container clusters; nil: none
	Changed  func() <-chan struct{} // returns a channel that is closed when the history grows. nil: it is polled each second
	Name     string                 // of this server, unlike that of others; default a random one
	Logger   *slog.Logger
	Observe  func(result string, delay time.Duration) // result: sent, failed, dead; delay: since the event. nil: none
	Now      func() time.Time                         // default time.Now
}

// Idle is how many connections to a receiver are kept for the next webhooks. They are closed when
// nothing was sent for some time.
const Idle = batch

// Sender sends the webhooks of the notifications of a store. Several may share the store.
type Sender struct {
	options Options

	interrupted *control.Shared[Interruption] // nil: Serve has not begun

	mu      sync.Mutex
	workers map[string]*worker // by UID
	shared  *reading           // of the newest round of passes
}

// New returns a sender.
func New(o Options) *Sender {
	if o.Client == nil {
		o.Client = func() *http.Client { return (&egress.Policy{}).Client(egress.ClientOptions{Idle: Idle}) }
	}
	if o.Name == "" {
		o.Name = control.NewUID()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration) {}
	}
	if o.Changed == nil {
		o.Changed = func() <-chan struct{} { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{options: o, workers: map[string]*worker{}}
}

// reading is what the passes of the newest round share.
func (s *Sender) reading() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// newRound forgets what was read of the history.
func (s *Sender) newRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = &reading{history: s.options.History, source: s.options.Clusters}
}

// Serve sends until the context ends. A receiver that is slow holds up its own notification only.
func (s *Sender) Serve(ctx context.Context) error {
	specs := control.NewShared(s.options.Objects.Feed(Kind), control.SharedOptions[control.Object]{Name: "notifications", Log: s.options.Logger})
	var changed control.Notifier
	desired := control.Or(control.DesiredChanged, control.RequestChanged)
	specs.Handle(func(_ context.Context, e control.Event[control.Object]) {
		if e.Created || desired(e) { // and not what a sender writes
			changed.Notify()
		}
	})
	s.interrupted = control.NewShared(interruptions{s.options.Objects.Feed("")}, control.SharedOptions[Interruption]{Name: "interrupted objects", Log: s.options.Logger})
	s.interrupted.Handle(func(context.Context, control.Event[Interruption]) { changed.Notify() })
	watched := false
	var all sync.WaitGroup
	defer s.release(ctx)
	defer all.Wait()
	all.Go(func() { _ = specs.Run(ctx) }) // it ends with the context
	for ctx.Err() == nil {
		history, told := s.options.Changed(), changed.Next()
		s.newRound()
		known := map[string]bool{}
		for _, o := range specs.Cache().All() {
			known[o.UID] = true
			if w := s.begin(o); w != nil {
				all.Go(func() {
					defer s.end(w)
					if err := s.pass(ctx, w); err != nil && ctx.Err() == nil {
						s.options.Logger.Log(ctx, control.LogLevel(err), "a notification waits", "notification", o.Ref.String(), "error", err)
					}
				})
			}
		}
		switch {
		case len(known) == 0:
			history = nil
		case !watched: // the other objects are of interest now
			watched = true
			all.Go(func() { _ = s.interrupted.Run(ctx) })
		}
		s.closeIdle(known)
		pause(ctx, gather, nil, nil)
		pause(ctx, pollEvery-gather, history, told)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration, until, or <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-until:
	case <-or:
	}
}

// begin returns the worker of a notification, which is the caller's until end; nil: it is busy.
func (s *Sender) begin(o control.Object) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[o.UID]
	if w == nil {
		w = &worker{}
		s.workers[o.UID] = w
	}
	if w.busy {
		return nil
	}
	w.busy = true
	w.see(o)
	return w
}

func (s *Sender) end(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.busy = false
}

// closeIdle forgets the notifications that are not known any more, and closes their connections.
func (s *Sender) closeIdle(known map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, w := range s.workers {
		if !known[uid] && !w.busy {
			w.close()
			delete(s.workers, uid)
		}
	}
}

// release ends the leases, so that the next server need not wait for their end, and closes the connections.
func (s *Sender) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	for _, w := range s.workers { // nobody else is left
		if w.status.Holder != s.options.Name {
			continue
		}
		status := w.statusNow()
		status.Holder, status.HeldUntil = "", time.Time{}
		if err := s.save(ctx, w, w.object, status); err != nil { // it ends by itself
			s.options.Logger.Debug("a notification stays held", "notification", w.object.Ref.String(), "error", err)
		}
	}
	s.closeIdle(nil)
}

// Pass sends what is due of one notification.
func (s *Sender) Pass(ctx context.Context, ref control.Ref) error {
	o, err := s.options.Objects.Get(ctx, ref)
	if fault.Of(err) == control.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	w := s.begin(o)
	if w == nil {
		return nil
	}
	defer s.end(w)
	s.newRound()
	return s.pass(ctx, w)
}
