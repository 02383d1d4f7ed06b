// Package world serves simulated databases on a real clock to processes that take part in them.
//
//	fdbserver ──┐                              ┌─ description:id ─▶ sim.Cluster
//	fdbcli ─────┼─ FDBSIM_WORLD ─▶ World ──────┤
//	backup_agent┘   (a socket)     (one clock) └─ description:id ─▶ sim.Cluster
//
//	w := world.New(world.Options{Seed: 1})
//	listener, err := world.Listen(address)
//	go w.Serve(listener)
//	err := w.Wait(ctx, connection, func(c *sim.Cluster) bool { return c.Available() })
//
// The description:id of a cluster file names the database; an id that a change of coordinators has replaced still
// leads to it, and the model decides whether its coordinators answer. A server joins as long as its connection
// lasts; a tool ends with its connection. Time in the model is real time, or a multiple of it. A world that ends
// takes its databases with it.
package world

import (
	"context"
	"hash/fnv"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// Options say how a world runs.
type Options struct {
	Seed  uint64  // of all databases, each with its own share: see SeedOf
	Speed float64 // how much faster than real time passes: 1
	// Virtual lets time pass only while a tool runs, and then as fast as it can: a run gives what
	// sim.Cluster.Run gives. Speed is not used.
	Virtual bool
	// Model are the options of each database. Seed, Start and Exits are the world's.
	Model sim.Options
}

// World is the databases of a machine, with the processes that are connected.
type World struct {
	options Options
	begun   time.Time // real time
	start   time.Time // of the model

	mu        sync.Mutex
	ids       map[string]*database // by description:id, also by those that are no longer used
	databases []*database
	places    map[string]*database // by place: which database had a data folder there last
	busy      int                  // tools that wait for time to pass; used when it is virtual
	closed    bool
	conns     map[net.Conn]bool

	wake chan struct{}
	done chan struct{}
	gone sync.WaitGroup
}

// database is one database of a world.
type database struct {
	cluster *sim.Cluster
	servers map[string]*connection
	places  map[string]string // the data folder at a place
	agents  int
	users   int  // connections
	kept    bool // a server has joined, or Do or Wait were called
	hooks   map[*hook]bool
	key     string
}

// hook is called after each step of a database.
type hook struct{ call func() }

// New makes a world and starts its clock. Close ends it.
func New(o Options) *World {
	if o.Speed <= 0 {
		o.Speed = 1
	}
	now := time.Now()
	w := &World{
		options: o, begun: now, start: now, ids: map[string]*database{}, places: map[string]*database{}, conns: map[net.Conn]bool{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if !o.Model.Start.IsZero() {
		w.start = o.Model.Start
	}
	w.gone.Go(w.tick)
	return w
}

// SeedOf is the seed of one database of a world.
func SeedOf(seed uint64, c fdb.Connection) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(keyOf(c))) // it never fails
	return seed ^ h.Sum64()
}

func keyOf(c fdb.Connection) string { return c.Description + ":" + c.ID }

// Close ends the clock and all connections, and waits for them.
func (w *World) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
	for conn := range w.conns {
		conn.Close()
	}
	w.mu.Unlock()
	w.gone.Wait()
}

// Do runs something with the database that a cluster file names, alone. The world makes the database if there is
// none.
func (w *World) Do(c fdb.Connection, do func(*sim.Cluster)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.database(c)
	d.kept = true
	w.step()
	do(d.cluster)
	w.step()
	w.poke()
}

// Wait waits until a condition of a database holds. It is looked at whenever something has happened.
func (w *World) Wait(ctx context.Context, c fdb.Connection, holds func(*sim.Cluster) bool) error {
	reached := make(chan struct{})
	w.mu.Lock()
	d := w.database(c)
	d.kept = true
	h := &hook{}
	h.call = func() {
		if d.hooks[h] && holds(d.cluster) {
			delete(d.hooks, h)
			close(reached)
		}
	}
	d.hooks[h] = true
	w.step()
	h.call()
	w.mu.Unlock()
	w.poke()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(d.hooks, h)
		return context.Cause(ctx)
	}
}

// Connections tells how many programs are connected.
func (w *World) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// database returns the database of a connection string, a new one if there is none.
func (w *World) database(c fdb.Connection) *database {
	key := keyOf(c)
	if d := w.ids[key]; d != nil {
		return d
	}
	d := &database{servers: map[string]*connection{}, places: map[string]string{}, hooks: map[*hook]bool{}, key: key}
	o := w.options.Model
	o.Seed, o.Start = SeedOf(w.options.Seed, c), w.now()
	o.Exits = d.exits
	d.cluster = sim.New(o)
	w.ids[key] = d
	w.databases = append(w.databases, d)
	return d
}

// forget drops a database that nobody uses, and that no server has ever joined: a cluster file was wrong.
func (w *World) forget(d *database) {
	if d.users > 0 || d.kept || len(d.hooks) > 0 {
		return
	}
	maps.DeleteFunc(w.ids, func(_ string, other *database) bool { return other == d })
	w.databases = slices.DeleteFunc(w.databases, func(other *database) bool { return other == d })
}

// exits tells a server that it has ended.
func (d *database) exits(name string) {
	if s := d.servers[name]; s != nil {
		s.send(Event{Ended: true})
	}
}

// now is the time of the model.
func (w *World) now() time.Time {
	if w.options.Virtual {
		return w.start
	}
	return w.start.Add(time.Duration(float64(time.Since(w.begun)) * w.options.Speed))
}

// step lets everything happen that is due, and tells everybody.
func (w *World) step() {
	for _, d := range w.databases {
		if w.options.Virtual {
			d.hear(w)
			continue
		}
		if late := w.now().Sub(d.cluster.Now()); late > 0 {
			d.cluster.Advance(late)
		}
		d.hear(w)
	}
}

// hear notes a new id and calls the hooks.
func (d *database) hear(w *World) {
	if c := d.cluster.Connection(); len(c.Coordinators) > 0 {
		if key := keyOf(c); key != d.key {
			d.key = key
			w.ids[key] = d
		}
	}
	for h := range d.hooks {
		h.call()
	}
}

// jump lets the next event of each database happen at once.
func (w *World) jump() {
	for _, d := range w.databases {
		if next, any := d.cluster.Next(); any {
			d.cluster.Advance(next.Sub(d.cluster.Now()))
		}
		d.hear(w)
	}
}

// poke has the clock look again.
func (w *World) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tick is the clock.
func (w *World) tick() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		wait := time.Hour
		switch {
		case w.options.Virtual && w.busy > 0:
			w.jump()
			wait = 0
		case !w.options.Virtual:
			w.step()
			wait = w.until()
		}
		w.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-w.done:
			return
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// until is how long nothing will happen.
func (w *World) until() time.Duration {
	wait := time.Hour
	for _, d := range w.databases {
		if next, any := d.cluster.Next(); any {
			wait = min(wait, time.Duration(float64(next.Sub(w.now()))/w.options.Speed))
		}
	}
	return max(wait, time.Millisecond)
}
