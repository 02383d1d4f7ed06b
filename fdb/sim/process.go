package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Server is how one fdbserver is started.
type Server struct {
	Name        string            // unique: the pod, and the number of the server in it
	Folder      string            // its data folder, which outlives the process
	Addresses   []fdb.Address     // the first is the one it reports
	Class       fdb.Class         //
	Version     fdb.Version       //
	Locality    map[string]string // with instance_id, zoneid and so on
	CommandLine string            // empty: made from the other fields
	Connection  fdb.Connection    // of its cluster file, unless the data folder has one; that of the first server names the database
	Fresh       bool              // Connection was read from the cluster file just now: it counts more than what the data folder had
}

// process is a server that was started and not stopped.
type process struct {
	Server
	next        Server // as it is started the next time
	folder      *folder
	id          string
	running     bool
	joined      bool // it reports to the cluster controller
	cut         bool // nobody reaches it
	incarnation int  // counts its starts
	crashes     int
	exitBy      string // on whose behalf it ended, if its launcher is outside
	started     time.Duration
	messages    []string // names of problems it reports
	roles       []string // of the transaction system
}

// folder is a data folder: what a process finds again after a restart.
type folder struct {
	name        string
	processID   string
	connection  fdb.Connection
	coordinates string         // the key of the database whose coordinated state it holds; empty: none
	logs        map[string]int // ids of logs with data in it, and their generation
	erased      bool
	away        bool // no process serves it
	left        time.Duration
}

// commandLine is what a process shows as its command line.
func (s Server) commandLine() string {
	if s.CommandLine != "" {
		return s.CommandLine
	}
	var public []string
	for _, a := range s.Addresses {
		public = append(public, a.String())
	}
	words := []string{"/usr/bin/fdbserver", "--class=" + string(s.Class), "--cluster_file=/var/fdb/data/fdb.cluster", "--datadir=/var/fdb/data"}
	for _, name := range slices.Sorted(maps.Keys(s.Locality)) {
		words = append(words, "--locality_"+name+"="+s.Locality[name])
	}
	words = append(words, "--logdir=/var/log/fdb-trace-logs", "--public_address="+strings.Join(public, ","), "--seed_cluster_file=/var/dynamic-conf/fdb.cluster")
	return strings.Join(words, " ")
}

// find returns the process with a name; nil if there is none.
func (c *Cluster) find(name string) *process {
	at, found := slices.BinarySearchFunc(c.processes, name, func(p *process, name string) int { return cmp.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return c.processes[at]
}

// Start starts a server. If one of that name runs, it is ended first.
func (c *Cluster) Start(s Server) {
	p := c.find(s.Name)
	if p == nil {
		p = &process{}
		at, _ := slices.BinarySearchFunc(c.processes, s.Name, func(p *process, name string) int { return cmp.Compare(p.Name, name) })
		c.processes = slices.Insert(c.processes, at, p)
		p.Name = s.Name
	}
	c.end(p)
	p.next = s
	p.crashes = 0
	c.launch(p)
	c.check()
}

// Prepare changes how a server is started the next time: its arguments or its program.
func (c *Cluster) Prepare(s Server) {
	if p := c.find(s.Name); p != nil {
		p.next = s
	}
}

// Stop ends a server for good, as when its pod is deleted. Its data folder stays.
func (c *Cluster) Stop(name string) {
	p := c.find(name)
	if p == nil {
		return
	}
	owner := c.judge.owner
	if !p.running { // it has ended before, and who has killed it has caused what follows
		owner = p.exitBy
	}
	c.judgeStop(p)
	c.end(p)
	c.say("%s is gone", name)
	c.processes = slices.DeleteFunc(c.processes, func(other *process) bool { return other == p })
	c.By(owner, func() { c.review("the process " + name + " is gone") })
	c.check()
}

// Erase removes a data folder, as when its claim is deleted. What only it held is lost.
func (c *Cluster) Erase(name string) {
	f := c.folders[name]
	if f == nil {
		return
	}
	c.judgeErase(f)
	f.erased = true
	delete(c.folders, name)
	c.say("the data folder %s is erased", name)
	c.loseFolder(f)
	c.review("the data folder " + name + " is erased")
	c.check()
}

// Crash ends a server; its launcher starts it again.
func (c *Cluster) Crash(name string) {
	if p := c.find(name); p != nil && p.running {
		c.say("%s crashes", name)
		c.restart(p)
		c.check()
	}
}

// Cut takes a server's network away, or gives it back.
func (c *Cluster) Cut(name string, cut bool) {
	p := c.find(name)
	if p == nil || p.cut == cut {
		return
	}
	p.cut = cut
	if p.running {
		p.folder.away, p.folder.left = cut, c.clock.now
	}
	c.say("%s: network %s", name, map[bool]string{true: "cut", false: "back"}[cut])
	c.notice(p, p.Name+" cannot be reached")
	if p.running && !p.joined && !cut {
		c.tryJoin(p, p.incarnation, c.options.Times.Join)
	}
	c.check()
}

// Report makes a server report problems, such as io_error; none ends that.
func (c *Cluster) Report(name string, messages ...string) {
	if p := c.find(name); p != nil {
		p.messages = messages
	}
}

// Running tells whether a server runs, and since when.
func (c *Cluster) Running(name string) (since time.Time, running bool) {
	p := c.find(name)
	if p == nil || !p.running {
		return time.Time{}, false
	}
	return c.options.Start.Add(p.started), true
}

// Joined tells whether a server has found the cluster controller and reports to it.
func (c *Cluster) Joined(name string) bool {
	p := c.find(name)
	return p != nil && p.joined && c.works(p)
}

// ClusterFile returns the content of the cluster file in a data folder, which servers keep up to date.
func (c *Cluster) ClusterFile(folder string) fdb.Connection {
	if f := c.folders[folder]; f != nil {
		return f.connection
	}
	return fdb.Connection{}
}

// restart ends a process and has its launcher start it again.
func (c *Cluster) restart(p *process) {
	c.end(p)
	p.crashes++
	if c.options.Exits != nil {
		p.exitBy = c.judge.owner
		c.options.Exits(p.Name)
		return
	}
	incarnation := p.incarnation
	c.clock.after(c.options.Times.Restart, func() {
		if !p.running && p.incarnation == incarnation && c.find(p.Name) == p {
			c.launch(p)
		}
	})
}

// end ends a process; the cluster controller misses it soon.
func (c *Cluster) end(p *process) {
	if !p.running {
		return
	}
	p.running = false
	p.messages = nil
	p.folder.away, p.folder.left = true, c.clock.now
	c.notice(p, p.Name+" has ended")
}

// notice has the cluster controller see a change of a process after some time.
func (c *Cluster) notice(p *process, cause string) {
	c.coordinate()
	owner := c.judge.owner
	c.clock.after(c.around(c.options.Times.Detect), func() {
		c.By(owner, func() {
			if p.joined && !c.works(p) {
				p.joined = false
				if p.running {
					c.tryJoin(p, p.incarnation, c.options.Times.Join)
				}
			}
			c.review(cause)
		})
	})
}

// launch starts the program of a process; it joins after some time.
func (c *Cluster) launch(p *process) {
	p.Server = p.next
	p.incarnation++
	p.running, p.joined = true, false
	p.started = c.clock.now
	p.messages = nil
	p.folder = c.openFolder(p)
	p.id = p.folder.processID
	c.say("%s starts: %s %s at %s", p.Name, p.Class, p.Version, p.Addresses[0])
	c.coordinate()
	c.tryJoin(p, p.incarnation, c.options.Times.Join)
}

// openFolder returns the data folder of a process, a new one if there is none.
func (c *Cluster) openFolder(p *process) *folder {
	f := c.folders[p.Folder]
	if f == nil {
		f = &folder{name: p.Folder, processID: c.word(hexadecimal, 32), logs: map[string]int{}}
		c.folders[p.Folder] = f
	}
	f.away = p.cut
	if len(f.connection.Coordinators) == 0 || p.Fresh && len(p.Connection.Coordinators) > 0 {
		f.connection = p.Connection
	}
	if len(c.coordination.connection.Coordinators) == 0 {
		c.coordination.connection = f.connection
	}
	return f
}

// tryJoin has a process look for the cluster controller until it finds it or ends.
func (c *Cluster) tryJoin(p *process, incarnation int, wait time.Duration) {
	owner := c.judge.owner
	c.clock.after(c.around(wait), func() {
		if !p.running || p.incarnation != incarnation || p.joined {
			return
		}
		c.By(owner, func() {
			if !c.finds(p) {
				c.tryJoin(p, incarnation, min(2*wait, 10*time.Second))
				return
			}
			p.joined = true
			p.folder.connection = c.coordination.connection
			c.returned(p)
			c.review(p.Name + " has joined")
		})
	})
}

// works tells whether a process runs, can be reached and speaks the protocol of the coordinators.
func (c *Cluster) works(p *process) bool {
	return p.running && !p.cut && p.Version.ProtocolCompatible(c.coordination.protocol) && c.coordination.quorum
}

// workers returns the processes that the cluster controller knows, by name.
func (c *Cluster) workers() []*process {
	var found []*process
	for _, p := range c.processes {
		if p.joined && c.works(p) {
			found = append(found, p)
		}
	}
	return found
}

// zone, datacenter and hall are the localities that decide where copies go.
func (s Server) zone() string       { return s.Locality[fdb.ZoneLocality] }
func (s Server) machine() string    { return cmp.Or(s.Locality["machineid"], s.zone(), s.Name) }
func (s Server) datacenter() string { return s.Locality[fdb.DatacenterLocality] }
func (s Server) hall() string       { return s.Locality[fdb.DataHallLocality] }

// listens tells whether a server listens on an address, given as an IP or a name that leads to it.
func (c *Cluster) listens(s Server, a fdb.Address) bool {
	return slices.ContainsFunc(s.Addresses, func(own fdb.Address) bool {
		return own.Port == a.Port && own.TLS == a.TLS && (own.Host == a.Host || c.named(s, a.Host))
	})
}

// named tells whether a name leads to a server.
func (c *Cluster) named(s Server, name string) bool {
	if c.options.Resolves != nil {
		return c.options.Resolves(s.Name, name)
	}
	return s.Locality[fdb.DNSNameLocality] == name && name != ""
}
