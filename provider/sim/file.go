package sim

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// file stores the cloud as lines of JSON. The newest line of a resource counts. The file
// is rewritten at the start and when most of its lines are outdated.
type file struct {
	path    string
	f       *os.File
	lines   int
	pending []line
	dirty   map[*resource]bool
}

type line struct {
	Resource *resource `json:"resource,omitempty"`
	Gone     string    `json:"gone,omitempty"` // id of a resource
	Job      *job      `json:"job,omitempty"`
	JobGone  string    `json:"jobGone,omitempty"`
	World    *world    `json:"world,omitempty"`
	Names    []used    `json:"names,omitempty"` // only what changed
}

// used is how often a name has been used.
type used struct {
	name
	Times int
}

// world holds the counters.
type world struct {
	Seq                        int64
	Addresses, Networks, Hosts int
}

func (c *Cloud) persist(t *resource) {
	if c.file != nil && !t.gone {
		c.file.dirty[t] = true
	}
}

func (c *Cloud) persistRemoval(t *resource) {
	if c.file != nil {
		delete(c.file.dirty, t)
		c.file.pending = append(c.file.pending, line{Gone: t.ID})
	}
}

func (c *Cloud) persistJob(j *job) {
	if c.file != nil {
		c.file.pending = append(c.file.pending, line{Job: j})
	}
}

func (c *Cloud) persistJobRemoval(j *job) {
	if c.file != nil {
		c.file.pending = append(c.file.pending, line{JobGone: j.ID})
	}
}

// flush writes the changes of a call before the call returns.
func (c *Cloud) flush() error {
	if c.file == nil || len(c.file.dirty) == 0 && len(c.file.pending) == 0 {
		return nil
	}
	// Write deletions first: their names may be in use again.
	lines := slices.Clone(c.file.pending)
	var names []used
	for t := range c.file.dirty {
		lines = append(lines, line{Resource: t})
		names = append(names, used{t.name(), c.names[t.name()]})
	}
	lines = append(lines, line{World: c.world(), Names: names})
	if err := c.file.write(lines); err != nil {
		return cluster.ProviderUnreachable.Errorf("the simulated cloud's file: %w", err)
	}
	c.file.pending = nil
	clear(c.file.dirty)
	if c.file.lines > 1000 && c.file.lines > 4*(len(c.resources)+len(c.jobs)) {
		return c.rewrite()
	}
	return nil
}

func (c *Cloud) world() *world { return &world{c.seq, c.addresses, c.networks, c.hosts} }

func (f *file) write(lines []line) error {
	var b bytes.Buffer
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	f.lines += len(lines)
	_, err := f.f.Write(b.Bytes())
	return err
}

func (f *file) close() error { return f.f.Close() }

// load reads the cloud from a file, which may not exist yet.
func (c *Cloud) load(path string) error {
	resources, jobs := map[string]*resource{}, map[string]*job{}
	if err := c.read(path, resources, jobs); err != nil {
		return fmt.Errorf("sim: %s: %w", path, err)
	}
	all := make([]*resource, 0, len(resources))
	for _, t := range resources {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *resource) int { return int(a.Seq - b.Seq) })
	now := c.o.Now()
	for _, t := range all {
		c.addToIndexes(t)
		if t.Node != nil && (t.State == stateRunning || t.State == stateMigrating) {
			at := t.Node.Booted
			if at.Before(now) {
				at = now
			}
			c.scheduleHeartbeat(t, at)
		}
	}
	for _, j := range jobs {
		c.jobs[j.ID] = j
		if j.CallID != "" && !c.o.NoCallIDs {
			c.byCall[j.CallID] = j
		}
		switch {
		case j.Done:
			heap.Push(&c.due, event{at: j.Ends.Add(jobRetention), seq: j.Seq, id: j.ID})
		case !j.Stuck:
			heap.Push(&c.due, event{at: j.Ends, seq: j.Seq, id: j.ID})
		}
	}
	c.file = &file{path: path, dirty: map[*resource]bool{}}
	if err := c.rewrite(); err != nil {
		return fmt.Errorf("sim: %s: %w", path, err)
	}
	return nil
}

func (c *Cloud) read(path string, resources map[string]*resource, jobs map[string]*job) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // an incomplete last line belongs to a call that was not answered: the process was killed
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		switch {
		case l.Resource != nil:
			resources[l.Resource.ID] = l.Resource
		case l.Gone != "":
			delete(resources, l.Gone)
		case l.Job != nil:
			jobs[l.Job.ID] = l.Job
		case l.JobGone != "":
			delete(jobs, l.JobGone)
		case l.World != nil:
			c.seq, c.addresses, c.networks, c.hosts = l.World.Seq, l.World.Addresses, l.World.Networks, l.World.Hosts
			for _, u := range l.Names {
				c.names[u.name] = u.Times
			}
		}
	}
}

// rewrite replaces the file by one without outdated lines.
func (c *Cloud) rewrite() error {
	tmp, err := os.CreateTemp(filepath.Dir(c.file.path), filepath.Base(c.file.path)+".*")
	if err != nil {
		return err
	}
	fresh := &file{path: c.file.path, f: tmp, dirty: map[*resource]bool{}}
	lines := make([]line, 0, len(c.resources)+len(c.jobs)+1)
	for _, t := range c.resources {
		lines = append(lines, line{Resource: t})
	}
	for _, j := range c.jobs {
		lines = append(lines, line{Job: j})
	}
	names := make([]used, 0, len(c.names))
	for n, times := range c.names {
		names = append(names, used{n, times})
	}
	lines = append(lines, line{World: c.world(), Names: names})
	err = fresh.write(lines)
	if err == nil {
		err = os.Rename(tmp.Name(), c.file.path)
	}
	if err != nil {
		tmp.Close()
		os.Remove(tmp.Name())
		return err
	}
	if c.file.f != nil {
		c.file.f.Close()
	}
	c.file = fresh
	return nil
}
