// Package sim is a simulated FoundationDB: a model on a virtual clock, made from one seed.
//
//	c := sim.New(sim.Options{Seed: 1})
//	c.Start(sim.Server{Name: "storage-1", Folder: "storage-1", Class: fdb.ClassStorage, …}) // and others
//	c.Advance(5 * time.Second)
//	c.Run(sim.Run{Argv: []string{"--exec", "configure new double ssd"}, Connection: connection, Version: version})
//	status, err := fdb.ParseStatus(c.Status(connection, version))
//
// The model has processes that join, crash and come back with another address or version; recoveries
// with their logs, generation after generation; data in teams of storage servers, which moves at a
// rate; coordinators and their quorum; the configuration with FoundationDB's rules; exclusions;
// clients; maintenance; a key space with transactions; backups and restores. It answers the tools'
// arguments with the tools' texts. Faults can be injected, and invariants are judged after every
// effect. What it takes as fact stands with its source in testdata/SOURCES.md.
//
// Nothing here reads a clock or starts a goroutine. A Cluster is for one goroutine.
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Cluster is one simulated database with all of its processes.
type Cluster struct {
	options Options
	clock   clock
	random  *rand.Rand

	// Its parts, each with its own state. What the embedded ones export is what a Cluster can do.
	processes
	storage
	data
	recovery
	exclusions
	clients
	backups
	faults
	judge
	coordination coordination
	maintenance  maintenance
	settings     settings
	keys         keySpace
	restores     restores
	load         load

	transcript []string
	dropped    int // lines of the transcript that are no longer kept
}

// New returns a database without processes.
func New(o Options) *Cluster {
	o = o.withDefaults()
	c := &Cluster{options: o, random: rand.New(rand.NewPCG(o.Seed, o.Seed^0x9e3779b97f4a7c15))} //nolint:gosec // a seed repeats a run
	c.processes = processes{c: c, folders: map[string]*folder{}}
	c.storage = storage{c: c, of: map[string]*storageServer{}}
	c.data = data{c: c}
	c.recovery = recovery{c: c, state: neverCreated}
	c.exclusions = exclusions{c: c}
	c.clients = clients{c: c}
	c.backups = backups{c: c, containers: map[string]*container{}}
	c.faults = faults{c: c}
	c.judge = judge{c: c}
	c.coordination = coordination{c: c}
	c.maintenance = maintenance{c: c}
	c.settings = newSettings()
	c.keys = keySpace{c: c, cells: map[string][]cell{}}
	c.restores = restores{c: c}
	return c
}

// Now returns the time of the model.
func (c *Cluster) Now() time.Time { return c.options.Start.Add(c.clock.now) }

// Advance lets time pass: everything that is due until then happens, in order.
func (c *Cluster) Advance(d time.Duration) {
	until := c.clock.now + d
	owner := c.judge.owner
	c.judge.owner = "" // events know on whose behalf they happen
	defer func() { c.judge.owner = owner }()
	for do := c.clock.next(until); do != nil; do = c.clock.next(until) {
		do()
		c.judge.check()
	}
}

// After has something happen after some time, on behalf of nobody: what runs beside the database, such as
// pods and their launchers, shares its clock.
func (c *Cluster) After(d time.Duration, do func()) { c.clock.after(d, do) }

// Next returns when the next event is due, and whether there is one.
func (c *Cluster) Next() (time.Time, bool) {
	if len(c.clock.queue) == 0 {
		return time.Time{}, false
	}
	return c.options.Start.Add(max(c.clock.now, c.clock.queue[0].at)), true
}

// By runs acts on behalf of an instance of the operator: what they cause is judged as its doing. Acts
// outside of By are the world's, and are judged as accidents.
func (c *Cluster) By(owner string, acts func()) {
	before := c.judge.owner
	defer func() { c.judge.owner = before }()
	c.judge.owner = owner
	acts()
}

// Transcript returns what has happened, a line an event, for people.
func (c *Cluster) Transcript() []string {
	if c.dropped == 0 {
		return c.transcript
	}
	return append([]string{fmt.Sprintf("… %d lines before", c.dropped)}, c.transcript...)
}

// Note adds a line of what happens beside the database to the transcript.
func (c *Cluster) Note(format string, args ...any) { c.say(format, args...) }

// say adds a line to the transcript.
func (c *Cluster) say(format string, args ...any) {
	if len(c.transcript) >= c.options.Times.Transcript {
		half := len(c.transcript) / 2
		c.dropped += half
		c.transcript = append(c.transcript[:0], c.transcript[half:]...)
	}
	by := ""
	if c.judge.owner != "" {
		by = c.judge.owner + ": "
	}
	c.transcript = append(c.transcript, stamp(c.clock.now)+" "+by+fmt.Sprintf(format, args...))
}

// stamp prints a time since the start as days, hours, minutes, seconds and tenths.
func stamp(d time.Duration) string {
	const oneDay = 24 * time.Hour
	day := int(d / oneDay)
	d %= oneDay
	text := fmt.Sprintf("%02d:%02d:%02d.%d", d/time.Hour, d/time.Minute%60, d/time.Second%60, d/(100*time.Millisecond)%10)
	if day > 0 {
		text = fmt.Sprintf("%dd %s", day, text)
	}
	return text
}

// around returns a time up to half as long again.
func (c *Cluster) around(d time.Duration) time.Duration {
	return d + time.Duration(c.random.Int64N(int64(d)/2+1))
}

const (
	alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	hexadecimal  = "0123456789abcdef"
)

// word returns random characters of an alphabet.
func (c *Cluster) word(alphabet string, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = alphabet[c.random.IntN(len(alphabet))]
	}
	return string(text)
}

// Available tells whether transactions are possible.
func (c *Cluster) Available() bool {
	return c.recovery.state >= acceptingCommits && c.coordination.controller != nil && c.data.readable()
}

// Connection returns the connection string as the database has it; the zero value before the first
// process has joined.
func (c *Cluster) Connection() fdb.Connection { return c.coordination.connection }
