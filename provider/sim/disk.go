package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// disk stores the cloud as lines of JSON. The newest line of a resource counts. The file
// is rewritten at the start and when most of its lines are outdated.
type disk struct {
	ids       *ids
	addresses *addresses
	resources *resources
	jobs      *jobs

	path    string
	f       *os.File // nil: the cloud is stored nowhere
	lines   int
	pending []line
	dirty   map[*resource]bool
}

type line struct {
	Resource *resource `json:"resource,omitempty"`
	Gone     string    `json:"gone,omitempty"` // id of a resource
	Job      *job      `json:"job,omitempty"`
	JobGone  string    `json:"jobGone,omitempty"`
	World    *counters `json:"world,omitempty"`
	Names    []used    `json:"names,omitempty"` // only what changed
}

// used is how often a name has been used.
type used struct {
	name
	Times int
}

// counters are the numbers given so far.
type counters struct {
	Seq                        int64
	Addresses, Networks, Hosts int
}

func (d *disk) changed(t *resource) {
	if d.f != nil && !t.gone {
		d.dirty[t] = true
	}
}

func (d *disk) removed(t *resource) {
	if d.f != nil {
		delete(d.dirty, t)
		d.pending = append(d.pending, line{Gone: t.ID})
	}
}

func (d *disk) jobChanged(j *job) {
	if d.f != nil {
		d.pending = append(d.pending, line{Job: j})
	}
}

func (d *disk) jobRemoved(j *job) {
	if d.f != nil {
		d.pending = append(d.pending, line{JobGone: j.ID})
	}
}

// flush writes the changes of a call before the call returns.
func (d *disk) flush() error {
	if d.f == nil || len(d.dirty) == 0 && len(d.pending) == 0 {
		return nil
	}
	// Write deletions first: their names may be in use again.
	lines := slices.Clone(d.pending)
	var names []used
	for t := range d.dirty {
		lines = append(lines, line{Resource: t})
		names = append(names, used{t.name(), d.ids.names[t.name()]})
	}
	lines = append(lines, line{World: d.counters(), Names: names})
	if err := d.write(lines); err != nil {
		return cluster.ProviderUnreachable.Errorf("the simulated cloud's file: %w", err)
	}
	d.pending = nil
	clear(d.dirty)
	if d.lines > 1000 && d.lines > 4*(len(d.resources.byID)+len(d.jobs.byID)) {
		return d.rewrite()
	}
	return nil
}

func (d *disk) counters() *counters {
	return &counters{d.ids.seq, d.addresses.public, d.addresses.networks, d.addresses.hosts}
}

func (d *disk) write(lines []line) error {
	var b bytes.Buffer
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	d.lines += len(lines)
	_, err := d.f.Write(b.Bytes())
	return err
}

func (d *disk) close() error {
	if d.f == nil {
		return nil
	}
	return d.f.Close()
}

// open reads a file, which may not exist yet. The resources are in the order of their creation.
// The file is written from the next rewrite on.
func (d *disk) open(path string) ([]*resource, map[string]*job, error) {
	resources, jobs := map[string]*resource{}, map[string]*job{}
	if err := d.read(path, resources, jobs); err != nil {
		return nil, nil, err
	}
	d.path = path
	all := slices.SortedFunc(maps.Values(resources), func(a, b *resource) int { return int(a.Seq - b.Seq) })
	return all, jobs, nil
}

func (d *disk) read(path string, resources map[string]*resource, jobs map[string]*job) error {
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
			d.ids.seq, d.addresses.public, d.addresses.networks, d.addresses.hosts = l.World.Seq, l.World.Addresses, l.World.Networks, l.World.Hosts
			for _, u := range l.Names {
				d.ids.names[u.name] = u.Times
			}
		}
	}
}

// rewrite replaces the file by one without outdated lines.
func (d *disk) rewrite() error {
	tmp, err := os.CreateTemp(filepath.Dir(d.path), filepath.Base(d.path)+".*")
	if err != nil {
		return err
	}
	fresh := &disk{f: tmp}
	lines := make([]line, 0, len(d.resources.byID)+len(d.jobs.byID)+1)
	for _, t := range d.resources.byID {
		lines = append(lines, line{Resource: t})
	}
	for _, j := range d.jobs.byID {
		lines = append(lines, line{Job: j})
	}
	names := make([]used, 0, len(d.ids.names))
	for n, times := range d.ids.names {
		names = append(names, used{n, times})
	}
	lines = append(lines, line{World: d.counters(), Names: names})
	err = fresh.write(lines)
	if err == nil {
		err = os.Rename(tmp.Name(), d.path)
	}
	if err != nil {
		tmp.Close()
		os.Remove(tmp.Name())
		return err
	}
	if d.f != nil {
		d.f.Close()
	}
	d.f, d.lines, d.pending, d.dirty = tmp, fresh.lines, nil, map[*resource]bool{}
	return nil
}
