package runstore

import (
	"context"
	"log/slog"
	"sync"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
)

// shared is what the parts of a Store share: the objects of the runs as they were seen last,
// guarded writes to them, and repairs in the background. Each part embeds it, keeps its own
// state, and calls the others by their names.
type shared struct {
	o      Options
	client *client.Client
	format format.Format
	log    *slog.Logger

	ctx  context.Context // for watches and repairs
	stop context.CancelFunc
	all  sync.WaitGroup

	mu         sync.Mutex // guards the cache, and the state of all parts
	cache      cache
	wake       chan string
	overflowed bool
	repairs    map[string]bool // running, by key

	claims      *claims      // picks runs that are due, and claims them
	slots       *slots       // lets one run of a subject be active at a time
	workers     *workers     // the leases of workers
	outbox      *outbox      // delivers signals
	starter     *starter     // starts the runs that objects ask for
	history     *history     // events
	definitions *definitions // sources of flows
	retention   *retention   // removes ended runs
	watches     *watches
}

func newShared(o Options, c *client.Client) *shared {
	s := &shared{o: o, client: c, log: o.Logger, cache: newCache(), wake: make(chan string, 1024), repairs: map[string]bool{}}
	s.claims, s.outbox, s.history = &claims{shared: s}, &outbox{s}, &history{s}
	s.definitions, s.retention = &definitions{s}, &retention{s}
	s.slots = &slots{shared: s, slots: map[string]*slot{}}
	s.workers = &workers{shared: s, workers: map[string]*worker{}}
	s.starter = &starter{shared: s, requests: make(chan struct{}, 1)}
	s.watches = &watches{shared: s, synced: make(chan struct{}), unsynced: 2}
	if o.Client {
		s.watches.unsynced = 1
	}
	return s
}
