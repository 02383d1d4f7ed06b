package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// processes are the servers and their data folders.
type processes struct {
	c       *Cluster
	list    []*process // by name
	folders map[string]*folder
}

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
	exitBy      string // on whose behalf it ended
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
func (ps *processes) find(name string) *process {
	at, found := slices.BinarySearchFunc(ps.list, name, func(p *process, name string) int { return cmp.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return ps.list[at]
}

// Start starts a server. If one of that name runs, it is ended first.
func (ps *processes) Start(s Server) {
	p := ps.find(s.Name)
	if p == nil {
		p = &process{}
		at, _ := slices.BinarySearchFunc(ps.list, s.Name, func(p *process, name string) int { return cmp.Compare(p.Name, name) })
		ps.list = slices.Insert(ps.list, at, p)
		p.Name = s.Name
	}
	ps.end(p)
	p.next = s
	p.crashes = 0
	ps.launch(p)
	ps.c.judge.check()
}

// Prepare changes how a server is started the next time: its arguments or its program.
func (ps *processes) Prepare(s Server) {
	if p := ps.find(s.Name); p != nil {
		p.next = s
	}
}

// Stop ends a server for good, as when its pod is deleted. Its data folder stays.
func (ps *processes) Stop(name string) {
	p := ps.find(name)
	if p == nil {
		return
	}
	owner := ps.c.judge.owner
	if !p.running { // it has ended before, and who has killed it has caused what follows
		owner = p.exitBy
	}
	ps.c.judge.stop(p)
	ps.end(p)
	ps.c.say("%s is gone", name)
	ps.list = slices.DeleteFunc(ps.list, func(other *process) bool { return other == p })
	ps.c.By(owner, func() { ps.c.recovery.review(because(ended, "the process %s is gone", name)) })
	ps.c.judge.check()
}

// Erase removes a data folder, as when its claim is deleted. What only it held is lost.
func (ps *processes) Erase(name string) {
	f := ps.folders[name]
	if f == nil {
		return
	}
	ps.c.judge.erase(f)
	f.erased = true
	delete(ps.folders, name)
	ps.c.say("the data folder %s is erased", name)
	ps.c.storage.lose(f)
	ps.c.recovery.review(because(changed, "the data folder %s is erased", name))
	ps.c.judge.check()
}

// Crash ends a server; its launcher starts it again.
func (ps *processes) Crash(name string) {
	if p := ps.find(name); p != nil && p.running {
		ps.c.say("%s crashes", name)
		ps.restart(p)
		ps.c.judge.check()
	}
}

// Cut takes a server's network away, or gives it back.
func (ps *processes) Cut(name string, cut bool) {
	p := ps.find(name)
	if p == nil || p.cut == cut {
		return
	}
	p.cut = cut
	if p.running {
		p.folder.away, p.folder.left = cut, ps.c.clock.now
	}
	ps.c.say("%s: network %s", name, map[bool]string{true: "cut", false: "back"}[cut])
	ps.notice(p, because(changed, "%s cannot be reached", p.Name))
	if p.running && !p.joined && !cut {
		ps.tryJoin(p, p.incarnation, ps.c.options.Times.Join)
	}
	ps.c.judge.check()
}

// Report makes a server report problems, such as io_error; none ends that.
func (ps *processes) Report(name string, messages ...string) {
	if p := ps.find(name); p != nil {
		p.messages = messages
	}
}

// Running tells whether a server runs, and since when.
func (ps *processes) Running(name string) (since time.Time, running bool) {
	p := ps.find(name)
	if p == nil || !p.running {
		return time.Time{}, false
	}
	return ps.c.options.Start.Add(p.started), true
}

// Joined tells whether a server has found the cluster controller and reports to it.
func (ps *processes) Joined(name string) bool {
	p := ps.find(name)
	return p != nil && p.joined && ps.works(p)
}

// ClusterFile returns the content of the cluster file in a data folder, which servers keep up to date.
func (ps *processes) ClusterFile(folder string) fdb.Connection {
	if f := ps.folders[folder]; f != nil {
		return f.connection
	}
	return fdb.Connection{}
}

// restart ends a process and has its launcher start it again.
func (ps *processes) restart(p *process) {
	ps.end(p)
	p.crashes++
	if ps.c.options.Exits != nil {
		ps.c.options.Exits(p.Name)
		return
	}
	incarnation := p.incarnation
	ps.c.clock.after(ps.c.options.Times.Restart, func() {
		if !p.running && p.incarnation == incarnation && ps.find(p.Name) == p {
			ps.launch(p)
		}
	})
}

// end ends a process; the cluster controller misses it soon.
func (ps *processes) end(p *process) {
	if !p.running {
		return
	}
	p.running = false
	p.exitBy = ps.c.judge.owner
	p.messages = nil
	p.folder.away, p.folder.left = true, ps.c.clock.now
	ps.notice(p, because(ended, "%s has ended", p.Name))
}

// notice has the cluster controller see a change of a process after some time.
func (ps *processes) notice(p *process, why cause) {
	ps.c.coordination.observe()
	owner := ps.c.judge.owner
	ps.c.clock.after(ps.c.around(ps.c.options.Times.Detect), func() {
		ps.c.By(owner, func() {
			if p.joined && !ps.works(p) {
				p.joined = false
				if p.running {
					ps.tryJoin(p, p.incarnation, ps.c.options.Times.Join)
				}
			}
			ps.c.recovery.review(why)
		})
	})
}

// launch starts the program of a process; it joins after some time.
func (ps *processes) launch(p *process) {
	p.Server = p.next
	p.incarnation++
	p.running, p.joined = true, false
	p.started = ps.c.clock.now
	p.messages = nil
	p.folder = ps.openFolder(p)
	p.id = p.folder.processID
	ps.c.say("%s starts: %s %s at %s", p.Name, p.Class, p.Version, p.Addresses[0])
	ps.c.coordination.observe()
	ps.tryJoin(p, p.incarnation, ps.c.options.Times.Join)
}

// openFolder returns the data folder of a process, a new one if there is none.
func (ps *processes) openFolder(p *process) *folder {
	f := ps.folders[p.Folder]
	if f == nil {
		f = &folder{name: p.Folder, processID: ps.c.word(hexadecimal, 32), logs: map[string]int{}}
		ps.folders[p.Folder] = f
	}
	f.away = p.cut
	if len(f.connection.Coordinators) == 0 || p.Fresh && len(p.Connection.Coordinators) > 0 {
		f.connection = p.Connection
	}
	if len(ps.c.coordination.connection.Coordinators) == 0 {
		ps.c.coordination.connection = f.connection
	}
	return f
}

// tryJoin has a process look for the cluster controller until it finds it or ends.
func (ps *processes) tryJoin(p *process, incarnation int, wait time.Duration) {
	owner := ps.c.judge.owner
	ps.c.clock.after(ps.c.around(wait), func() {
		if !p.running || p.incarnation != incarnation || p.joined {
			return
		}
		ps.c.By(owner, func() {
			if !ps.c.coordination.finds(p) {
				ps.tryJoin(p, incarnation, min(2*wait, 10*time.Second))
				return
			}
			p.joined = true
			p.folder.connection = ps.c.coordination.connection
			ps.c.storage.returned(p)
			ps.c.recovery.review(because(changed, "%s has joined", p.Name))
		})
	})
}

// works tells whether a process runs, can be reached and speaks the protocol of the coordinators.
func (ps *processes) works(p *process) bool {
	return p.running && !p.cut && p.Version.ProtocolCompatible(ps.c.coordination.protocol) && ps.c.coordination.quorum
}

// workers returns the processes that the cluster controller knows, by name.
func (ps *processes) workers() []*process {
	var found []*process
	for _, p := range ps.list {
		if p.joined && ps.works(p) {
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
func (ps *processes) listens(s Server, a fdb.Address) bool {
	return slices.ContainsFunc(s.Addresses, func(own fdb.Address) bool {
		return own.Port == a.Port && own.TLS == a.TLS && (own.Host == a.Host || ps.named(s, a.Host))
	})
}

// named tells whether a name leads to a server.
func (ps *processes) named(s Server, name string) bool {
	if ps.c.options.Resolves != nil {
		return ps.c.options.Resolves(s.Name, name)
	}
	return s.Locality[fdb.DNSNameLocality] == name && name != ""
}

// kill ends the processes at these addresses; their launchers start them again. It returns an address
// that is not known; empty: none.
func (ps *processes) kill(addresses []string) (unknown string) {
	var found []*process
	for _, text := range addresses {
		at := slices.IndexFunc(ps.list, func(p *process) bool {
			return p.joined && ps.works(p) && slices.ContainsFunc(p.Addresses, func(a fdb.Address) bool { return a.WithoutFlags() == text })
		})
		if at < 0 {
			return text
		}
		found = append(found, ps.list[at])
	}
	ps.c.say("kill: %s", strings.Join(addresses, " "))
	ps.c.judge.effect()
	for _, p := range found {
		if p.running {
			ps.restart(p)
		}
	}
	return ""
}

// unreachable returns the processes that have joined and are missed by the cluster controller.
func (ps *processes) unreachable() []*process {
	var found []*process
	for _, p := range ps.list {
		if p.joined && p.running && p.cut {
			found = append(found, p)
		}
	}
	return found
}

// uptime is how long a process runs, in seconds.
func (ps *processes) uptime(p *process) float64 {
	return (ps.c.clock.now - p.started).Round(time.Millisecond).Seconds()
}

// at returns the process that listens on an address and can be reached; nil if there is none. A DNS
// name leads to the process of that name, whatever its address is.
func (ps *processes) at(a fdb.Address) *process {
	for _, p := range ps.list {
		if p.running && !p.cut && ps.listens(p.Server, a) {
			return p
		}
	}
	return nil
}
