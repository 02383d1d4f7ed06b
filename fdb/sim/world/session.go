package world

import (
	"strings"

	"github.com/pawl-dev/pawl/fdb/sim"
)

// defaultFile is what the model takes for the path of a cluster file.
const defaultFile = "/var/fdb/data/fdb.cluster"

// session has somebody talk to an fdbcli.
func (c *connection) session(r Session, owner string) (d *database, hooked func(), input func(string), end func()) {
	w := c.world
	d = w.database(r.Connection)
	var s *sim.Session
	d.cluster.By(owner, func() { s = d.cluster.Session(r.Version, r.Connection) })
	greeted, prompted, over := false, false, false
	w.busy++
	hooked = func() {
		if over {
			return
		}
		stdout, stderr, prompt := s.Read()
		if !greeted {
			greeted = true
			stdout = r.greet(stdout, d.cluster)
		}
		e := Event{Stdout: []byte(stdout), Stderr: []byte(stderr), Prompt: prompt && !prompted, Ended: s.Ended()}
		if e.Prompt || e.Ended && !prompted {
			w.busy--
		}
		prompted = prompt
		over = e.Ended
		if e.Prompt || e.Ended || len(e.Stdout)+len(e.Stderr) > 0 {
			c.send(e)
		}
	}
	input = func(line string) {
		if over || !prompted {
			return
		}
		prompted = false
		w.busy++
		d.cluster.By(owner, func() { s.Send(line) })
	}
	end = func() {
		if !over {
			s.Kill()
			if !prompted {
				w.busy--
			}
		}
		over = true
	}
	return d, hooked, input, end
}

// greet is what fdbcli prints before its first prompt: without --no-status also how the database is.
func (r Session) greet(stdout string, c *sim.Cluster) string {
	if r.File != "" {
		stdout = strings.Replace(stdout, defaultFile, r.File, 1)
	}
	if r.NoStatus {
		return stdout
	}
	state := "The database is available."
	switch {
	case !c.Available():
		state = "The database is unavailable; type `status' for more information."
	case c.Unhealthy() != "":
		state = "The database is available, but has issues (type 'status' for more information)."
	}
	before, after, _ := strings.Cut(stdout, "\n\n")
	return before + "\n\n" + state + "\n\n" + after
}
