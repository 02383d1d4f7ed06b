package world

import (
	"encoding/gob"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/fdb/sim"
)

// Serve takes connections until the listener is closed.
func (w *World) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		w.Take(conn)
	}
}

// Pipe returns a program's end of a connection within this process.
func (w *World) Pipe() *Peer {
	ours, theirs := net.Pipe()
	w.Take(ours)
	return NewPeer(theirs)
}

// Take serves one connection in the background.
func (w *World) Take(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		conn.Close()
		return
	}
	w.conns[conn] = true
	w.gone.Go(func() {
		c := &connection{world: w, conn: conn, decoder: gob.NewDecoder(conn)}
		c.signal = sync.NewCond(&c.mu)
		w.gone.Go(c.write)
		c.serve()
		c.close()
		w.mu.Lock()
		delete(w.conns, conn)
		w.mu.Unlock()
	})
}

// connection is one program, from the side of the world. Events are sent in the background, so that a program that
// does not read holds up nobody.
type connection struct {
	world   *World
	conn    net.Conn
	decoder *gob.Decoder
	folder  string // the data folder of a server

	mu     sync.Mutex
	signal *sync.Cond
	queue  []Event
	closed bool
}

func (c *connection) send(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, e)
	c.signal.Signal()
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.signal.Signal()
	c.conn.Close()
}

func (c *connection) write() {
	encoder := gob.NewEncoder(c.conn)
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.closed {
			c.signal.Wait()
		}
		queue, closed := c.queue, c.closed
		c.queue = nil
		c.mu.Unlock()
		if closed {
			return
		}
		for _, e := range queue {
			if encoder.Encode(e) != nil {
				c.conn.Close() // serve sees it
				return
			}
		}
	}
}

// serve reads the request and whatever follows until the program is gone.
func (c *connection) serve() {
	var r Request
	if c.decoder.Decode(&r) != nil {
		return
	}
	begin := c.begin(&r)
	if begin == nil {
		return
	}
	w := c.world
	w.mu.Lock()
	w.step()
	d, hooked, input, end := begin()
	d.users++
	h := &hook{call: hooked}
	if hooked != nil {
		d.hooks[h] = true
		hooked()
	}
	w.mu.Unlock()
	w.poke()
	for {
		var in Input
		if c.decoder.Decode(&in) != nil {
			break
		}
		if input != nil {
			w.mu.Lock()
			w.step()
			input(in.Line)
			w.step()
			w.mu.Unlock()
			w.poke()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step()
	delete(d.hooks, h)
	d.users--
	end()
	w.step()
	w.forget(d)
	w.poke()
}

// part is what a connection does in a database: hooked after each step, input for each line, end when it is gone.
type part func() (d *database, hooked func(), input func(line string), end func())

func (c *connection) begin(r *Request) part {
	switch {
	case r.Server != nil:
		return func() (*database, func(), func(string), func()) { return c.server(r.Server) }
	case r.Run != nil:
		return func() (*database, func(), func(string), func()) { return c.run(*r.Run, r.Owner) }
	case r.Session != nil:
		return func() (*database, func(), func(string), func()) { return c.session(*r.Session, r.Owner) }
	case r.Agent != nil:
		return func() (*database, func(), func(string), func()) { return c.agent(*r.Agent) }
	case r.Watch != nil:
		return func() (*database, func(), func(string), func()) { return c.watch(*r.Watch) }
	}
	return nil
}

// server has a server take part until it is gone.
func (c *connection) server(s *Server) (d *database, hooked func(), input func(string), end func()) {
	w := c.world
	d = w.database(s.Connection)
	d.kept = true
	if s.Place != "" {
		w.place(d, s.Place, s.Folder)
	}
	s.Fresh = true
	c.folder = s.Folder
	d.servers[s.Name] = c
	d.cluster.Start(s.Server)
	told := "" // the id, which each change of coordinators changes
	hooked = func() {
		if d.servers[s.Name] != c || !d.cluster.Joined(s.Name) {
			return
		}
		if now := d.cluster.ClusterFile(s.Folder); now.ID != told {
			told = now.ID
			c.send(Event{Connection: now.String()})
		}
	}
	end = func() {
		if d.servers[s.Name] == c {
			delete(d.servers, s.Name)
			d.cluster.Stop(s.Name)
		}
		if now := w.places[s.Place]; now != nil && now.places[s.Place] != s.Folder && !d.serves(s.Folder) {
			d.cluster.Erase(s.Folder) // its successor was here before this end was heard of
		}
	}
	return d, hooked, nil, end
}

// place notes which data folder is at a place. One that was there before was wiped; while its server is connected,
// that waits for its end.
func (w *World) place(d *database, place, folder string) {
	if before := w.places[place]; before != nil {
		old := before.places[place]
		if old != folder && !before.serves(old) {
			before.cluster.Erase(old)
		}
		delete(before.places, place)
	}
	w.places[place] = d
	d.places[place] = folder
}

// serves tells whether a server of a data folder is connected.
func (d *database) serves(folder string) bool {
	for _, c := range d.servers {
		if c.folder == folder {
			return true
		}
	}
	return false
}

// run runs a tool until it has ended or is killed.
func (c *connection) run(r sim.Run, owner string) (d *database, hooked func(), input func(string), end func()) {
	w := c.world
	if len(r.Connection.Coordinators) == 0 {
		d = w.storing(r)
	} else {
		d = w.database(r.Connection)
	}
	var running *sim.Running
	d.cluster.By(owner, func() { running = d.cluster.Begin(r) })
	w.busy++
	out, errs, over := 0, 0, false
	hooked = func() {
		if over {
			return
		}
		stdout, stderr := running.Output()
		e := Event{Stdout: []byte(stdout[min(out, len(stdout)):]), Stderr: []byte(stderr[min(errs, len(stderr)):])}
		out, errs = len(stdout), len(stderr)
		if answer, ended := running.Answer(); ended {
			over = true
			w.busy--
			e.Ended, e.Exit = true, answer.Exit
			if now := answer.Connection.String(); now != r.Connection.String() {
				e.Connection = now
			}
		}
		if e.Ended || len(e.Stdout)+len(e.Stderr) > 0 {
			c.send(e)
		}
	}
	end = func() {
		if !over {
			over = true
			w.busy--
			running.Kill()
		}
	}
	return d, hooked, nil, end
}

// storing returns the database that knows the backups at one of the URLs of a tool that has no cluster file, or else
// any.
func (w *World) storing(r sim.Run) *database {
	for _, d := range w.databases {
		if slices.ContainsFunc(r.Argv, d.cluster.Stores) {
			return d
		}
	}
	if len(w.databases) > 0 {
		return w.databases[0]
	}
	return w.database(r.Connection)
}

// agent has a backup agent work.
func (c *connection) agent(a Agent) (d *database, hooked func(), input func(string), end func()) {
	d = c.world.database(a.Connection)
	d.agents++
	d.cluster.SetAgents(d.agents)
	return d, nil, nil, func() {
		d.agents--
		d.cluster.SetAgents(d.agents)
	}
}

// watch sends the transcript, a line an event; the first event is empty and says that it watches.
func (c *connection) watch(r Watch) (d *database, hooked func(), input func(string), end func()) {
	d = c.world.database(r.Connection)
	seen := len(d.cluster.Transcript())
	c.send(Event{})
	hooked = func() {
		lines := d.cluster.Transcript()
		for _, line := range lines[min(seen, len(lines)):] {
			c.send(Event{Stdout: []byte(line + "\n")})
		}
		seen = len(lines)
	}
	return d, hooked, nil, func() {}
}
