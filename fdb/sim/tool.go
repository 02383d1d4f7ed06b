package sim

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Run is one run of a tool: what its process is given.
type Run struct {
	Tool       fdb.Tool       // empty: fdbcli
	Argv       []string       // without the name of the program
	Version    fdb.Version    // of the tool
	Connection fdb.Connection // the content of its cluster file
	Secrets    string         // the content of its file of blob credentials; empty: none
	Kill       time.Duration  // when its process is ended from outside; 0: never
}

// Answer is what a run left.
type Answer struct {
	Exit           int // -1: ended from outside
	Stdout, Stderr string
	Connection     fdb.Connection // the content of its cluster file afterwards
	Took           time.Duration
}

// Running is a run that may not have ended.
type Running struct {
	c        *Cluster
	run      Run
	owner    string
	begun    time.Duration
	out, err strings.Builder
	silent   bool // a fault swallows what it prints
	ended    bool
	answer   Answer
}

// Begin starts a tool. It goes on as time passes.
func (c *Cluster) Begin(run Run) *Running {
	r := &Running{c: c, run: run, owner: c.judge.owner, begun: c.clock.now}
	if run.Kill > 0 {
		c.clock.after(run.Kill, func() { r.end(-1) })
	}
	switch cmp.Or(run.Tool, fdb.ToolCLI) {
	case fdb.ToolCLI:
		r.fdbcli()
	case fdb.ToolBackup:
		r.fdbbackup()
	case fdb.ToolRestore:
		r.fdbrestore()
	default:
		r.end(127)
	}
	return r
}

// Answer returns what the run left, once it has ended.
func (r *Running) Answer() (Answer, bool) { return r.answer, r.ended }

// Output returns what the run has printed so far.
func (r *Running) Output() (stdout, stderr string) {
	switch {
	case r.ended:
		return r.answer.Stdout, r.answer.Stderr
	case r.silent:
		return "", ""
	}
	return r.out.String(), r.err.String()
}

// Kill ends the run from outside, as SIGKILL does. What it has done stays done.
func (r *Running) Kill() { r.end(-1) }

// Run starts a tool and lets time pass until it has ended.
func (c *Cluster) Run(run Run) Answer {
	r := c.Begin(run)
	owner := c.judge.owner
	c.judge.owner = ""
	defer func() { c.judge.owner = owner }()
	const forever = 100 * 365 * 24 * time.Hour
	for !r.ended {
		if do := c.clock.next(c.clock.now + forever); do != nil {
			do()
			c.judge.check()
		}
	}
	return r.answer
}

// Call runs a call of package fdb.
func (c *Cluster) Call(call fdb.Call, v fdb.Version, from fdb.Connection) Answer {
	call.Version = v
	argv, kill := call.Arguments()
	return c.Run(Run{Tool: call.Tool(), Argv: argv, Version: v, Connection: from, Kill: kill})
}

// end ends a run.
func (r *Running) end(exit int) {
	if r.ended {
		return
	}
	r.ended = true
	r.answer = Answer{
		Exit: exit, Stdout: r.out.String(), Stderr: r.err.String(), Connection: r.run.Connection, Took: r.c.clock.now - r.begun,
	}
	if r.c.coordination.leads(r.run.Connection) {
		r.answer.Connection = r.c.coordination.connection
	}
}

// poll goes on with something: done tells whether it has ended, else it goes on after some time.
type poll func() (wait time.Duration, done bool)

// until polls until it is done, then goes on with next.
func (r *Running) until(wait time.Duration, p poll, next func()) {
	r.c.clock.after(wait, func() {
		if r.ended {
			return
		}
		r.c.By(r.owner, func() {
			wait, done := p()
			switch {
			case r.ended:
			case done:
				next()
			default:
				r.until(max(wait, 10*time.Millisecond), p, next)
			}
		})
	})
}

// option takes an option with a value out of arguments, written as --name value or --name=value.
func option(argv []string, names ...string) (value string, found bool) {
	for i, word := range argv {
		for _, name := range names {
			if word == name && i+1 < len(argv) {
				return argv[i+1], true
			}
			if rest, is := strings.CutPrefix(word, name+"="); is && strings.HasPrefix(name, "--") {
				return rest, true
			}
		}
	}
	return "", false
}

// fdbcli runs fdbcli with --exec, or prints its version.
func (r *Running) fdbcli() {
	for _, word := range r.run.Argv {
		if word == "--version" || word == "-v" {
			r.out.WriteString(VersionText("FoundationDB CLI", r.run.Version))
			r.end(0)
			return
		}
	}
	text, found := option(r.run.Argv, "--exec")
	if !found {
		r.err.WriteString("ERROR: --exec is missing: a session is started by Session\n")
		r.end(1)
		return
	}
	if value, found := option(r.run.Argv, "--timeout"); found {
		if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
			r.c.clock.after(time.Duration(seconds)*time.Second, func() {
				if !r.ended {
					r.err.WriteString("Specified timeout reached -- exiting...\n")
					r.end(1)
				}
			})
		}
	}
	if len(r.run.Connection.Coordinators) == 0 {
		r.err.WriteString("ERROR: Invalid cluster file `/tmp/fdb.cluster': 2104 Connection string invalid\n")
		r.end(1)
		return
	}
	t := &cli{c: r.c, version: r.run.Version, from: r.run.Connection, out: &r.out, err: &r.err}
	commands := parseCommands(text, r.run.Version)
	t.several = len(commands) > 1
	m := r.misbehave(firstWord(commands))
	if r.ended || m == hangs {
		return
	}
	var next func(at int)
	next = func(at int) {
		for at < len(commands) && len(commands[at]) == 0 {
			at++
		}
		switch {
		case at < len(commands) && t.failed:
			r.out.WriteString("WARNING: the previous command failed, the remaining commands will not be executed.\n")
			r.finish(m, 1)
		case at < len(commands):
			t.echo(commands[at])
			r.until(0, t.start(commands[at]), func() { next(at + 1) })
		case t.failed:
			r.finish(m, 1)
		default:
			r.finish(m, 0)
		}
	}
	t.warnIn(longDelay)
	r.until(r.c.options.Times.Command, ready, func() { next(0) })
}

func ready() (time.Duration, bool) { return 0, true }

// firstWord is the word by which a run is known: that of its last command but sleep.
func firstWord(commands [][]string) (word string) {
	for _, words := range commands {
		if len(words) > 0 && words[0] != "sleep" {
			word = words[0]
		}
	}
	return word
}

// misbehavior is how a run ends that a fault has hit.
type misbehavior int

const (
	behaves misbehavior = iota
	hangs               // it does nothing until it is ended
	holds               // it does everything, and then nothing until it is ended
	loses               // it does everything, and its output is lost
)

// misbehave lets a fault hit a run.
func (r *Running) misbehave(word string) misbehavior {
	if r.c.faults.takeFor(FaultCommandRefused, word) != nil {
		r.err.WriteString("ERROR: Database is locked (1038)\n")
		r.end(1)
		return behaves
	}
	if f := r.c.faults.takeFor(FaultTimedOut, word); f != nil {
		switch _, limited := option(r.run.Argv, "--timeout"); {
		case f.Before && !limited && r.run.Kill == 0:
			r.end(-1)
			return hangs
		case f.Before:
			return hangs
		default:
			r.silent = true
			return holds
		}
	}
	if r.c.faults.takeFor(FaultReplyLost, word) != nil {
		r.silent = true
		return loses
	}
	return behaves
}

// finish ends a run as its misbehavior has it.
func (r *Running) finish(m misbehavior, exit int) {
	switch m {
	case holds:
		r.out.Reset()
		r.err.Reset()
		if _, limited := option(r.run.Argv, "--timeout"); !limited && r.run.Kill == 0 {
			r.end(-1)
		}
	case loses:
		r.out.Reset()
		r.err.Reset()
		r.end(-1)
	default:
		r.end(exit)
	}
}
