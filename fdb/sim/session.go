package sim

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Session is an interactive fdbcli: it reads lines, and prints a prompt when it waits for one.
type Session struct {
	c        *Cluster
	owner    string
	cli      *cli
	out, err strings.Builder
	busy     bool
	ended    bool
}

// Session starts fdbcli with --no-status and without --exec.
func (c *Cluster) Session(v fdb.Version, from fdb.Connection) *Session {
	s := &Session{c: c, owner: c.judge.owner}
	s.cli = &cli{c: c, version: v, from: from, out: &s.out, err: &s.err}
	s.out.WriteString("Using cluster file `/var/fdb/data/fdb.cluster'.\n\nWelcome to the fdbcli. For help, type `help'.\n")
	return s
}

// Send writes a line to the process. What it prints comes as time passes.
func (s *Session) Send(line string) {
	if s.ended || s.busy {
		return
	}
	commands := parseCommands(line, s.cli.version)
	s.cli.several, s.cli.failed = len(commands) > 1, false
	s.busy = true
	s.cli.warnIn(longDelay)
	s.next(commands)
}

func (s *Session) next(commands [][]string) {
	for len(commands) > 0 && len(commands[0]) == 0 {
		commands = commands[1:]
	}
	switch {
	case len(commands) == 0:
		s.cli.calm()
		s.busy = false
		return
	case s.cli.failed:
		s.out.WriteString("WARNING: the previous command failed, the remaining commands will not be executed.\n")
		s.cli.calm()
		s.busy = false
		return
	case commands[0][0] == "exit" || commands[0][0] == "quit":
		s.busy, s.ended = false, true
		return
	}
	s.cli.echo(commands[0])
	s.poll(time.Millisecond, s.cli.start(commands[0]), func() { s.next(commands[1:]) })
}

func (s *Session) poll(wait time.Duration, p poll, next func()) {
	s.c.clock.after(wait, func() {
		if s.ended {
			return
		}
		s.c.By(s.owner, func() {
			if wait, done := p(); done {
				next()
			} else {
				s.poll(max(wait, 10*time.Millisecond), p, next)
			}
		})
	})
}

// Read returns what was printed since the last Read, and whether the process waits for a line.
func (s *Session) Read() (stdout, stderr string, prompt bool) {
	stdout, stderr = s.out.String(), s.err.String()
	s.out.Reset()
	s.err.Reset()
	return stdout, stderr, !s.busy && !s.ended
}

// Kill ends the process.
func (s *Session) Kill() { s.ended = true }

// Ended tells whether the process has ended.
func (s *Session) Ended() bool { return s.ended }

// Transact runs a dialogue through a session of its own, and lets time pass until it has ended, at most
// for the timeout; then the process is ended.
func (c *Cluster) Transact(d *fdb.Dialogue, v fdb.Version, from fdb.Connection, timeout time.Duration) fdb.Result {
	s := c.Session(v, from)
	until := c.clock.now + timeout
	for {
		stdout, stderr, prompt := s.Read()
		for !prompt && !s.ended && c.clock.now < until {
			c.Advance(10 * time.Millisecond)
			var more, moreErr string
			more, moreErr, prompt = s.Read()
			stdout, stderr = stdout+more, stderr+moreErr
		}
		if !prompt {
			s.Kill()
			d.Ended()
			return d.Result()
		}
		line, last := d.Next(stdout, stderr)
		s.Send(line)
		if last {
			d.Ended()
			return d.Result()
		}
	}
}
