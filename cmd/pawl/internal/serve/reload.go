package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// pollEvery is the interval at which the files are checked.
const pollEvery = time.Second

// definitionStore holds the sources of definitions and the last version read.
type definitionStore struct {
	flows, machines []string
	options         flowfile.Options
	warn            func(flowfile.Problem) // receives warnings about files that load; nil: dropped
	files           map[string]string
	last            library.Library
}

func (s *definitionStore) paths() []string { return slices.Concat(s.flows, s.machines) }

func (s *definitionStore) load() (library.Library, error) {
	files, err := library.Files(s.paths()...)
	if err != nil {
		return library.Library{}, err
	}
	lib, err := library.Load(s.flows, s.machines, s.options)
	if err != nil {
		return library.Library{}, err
	}
	s.files, s.last = files, lib
	for _, w := range lib.Warnings {
		if s.warn != nil {
			s.warn(w)
		}
	}
	return lib, nil
}

func (p *parts) newDriver(lib library.Library) (*driver.Driver, error) {
	if len(lib.Machines) == 0 {
		return nil, nil
	}
	for _, m := range lib.Machines {
		if backend.IsOwn(m.Table.Kind) {
			return nil, machine.Invalid.Errorf("machine %s: the server itself serves the kind %s", m.Table.Name, m.Table.Kind)
		}
		if slices.ContainsFunc(p.options.Kinds, func(k driver.ServedKind) bool { return k.Kind == m.Table.Kind }) {
			return nil, machine.Invalid.Errorf("machine %s: an operator of this program serves the kind %s", m.Table.Name, m.Table.Kind)
		}
	}
	return driver.New(driver.Options{
		Objects: p.objects, Engine: p.engine, Machines: lib.Machines, Notifier: p.runNotifier, Actions: p.actions,
		Secrets: p.options.Secrets, Logger: p.log, Metrics: p.queues,
	})
}

// drive runs the machines, and others once the files have changed.
func (p *parts) drive(ctx context.Context) error {
	for ctx.Err() == nil {
		p.mu.Lock()
		d := p.driver
		p.mu.Unlock()
		serving, stop := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			if d == nil {
				<-serving.Done()
				failed <- nil
				return
			}
			failed <- d.Serve(serving)
		}()
		changed := make(chan *driver.Driver, 1)
		go func() { changed <- p.awaitChange(serving) }()
		select {
		case err := <-failed:
			stop()
			<-changed
			if ctx.Err() != nil {
				return nil //nolint:nilerr // ctx has ended
			}
			return err
		case next := <-changed:
			stop()
			if err := <-failed; err != nil && ctx.Err() == nil {
				return err
			}
			p.mu.Lock()
			p.driver = next
			p.mu.Unlock()
			if err := p.keepKinds(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("the kinds that are served were not written down: apply checks by those of before", "error", err)
			}
		}
	}
	return nil
}

// awaitChange waits until the files have changed and what they hold is loaded.
// A load that finds errors keeps the old definitions.
func (p *parts) awaitChange(ctx context.Context) *driver.Driver {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	seen := p.definitions.files
	for {
		asked := false
		select {
		case <-ctx.Done():
			return p.driver
		case <-p.options.Reload:
			asked = true
		case <-ticker.C:
		}
		now, err := library.Files(p.definitions.paths()...)
		if err != nil {
			if asked {
				p.log.Error("the definitions are not read again", "error", err)
			}
			continue
		}
		// Whoever writes files writes several: wait until they stay as they are.
		settled := maps.Equal(now, seen)
		seen = now
		if !asked && (!settled || maps.Equal(now, p.definitions.files)) {
			continue
		}
		if next, err := p.reload(); err == nil {
			return next
		}
	}
}

func (p *parts) reload() (*driver.Driver, error) {
	before := p.definitions
	lib, err := p.definitions.load()
	var next *driver.Driver
	if err == nil {
		err = p.shared.refuseClash(lib)
	}
	if err == nil {
		next, err = p.newDriver(lib)
	}
	if err == nil {
		err = p.engine.LoadAll(p.flows(lib.Flows), p.shared.healers(lib.Healers))
	}
	if err != nil {
		files, _ := library.Files(before.paths()...) // the same files are not reported twice
		p.definitions = before
		p.definitions.files = files
		var problems flowfile.Problems
		if errors.As(err, &problems) {
			for _, problem := range problems.Errors() {
				p.log.Error("the definitions stay as they were: " + problem.String())
			}
		} else {
			p.log.Error("the definitions stay as they were", "error", err)
		}
		return nil, err
	}
	p.log.Info("the definitions were read again", "flows", len(lib.Flows), "machines", len(lib.Machines), "healers", len(lib.Healers))
	return next, nil
}
