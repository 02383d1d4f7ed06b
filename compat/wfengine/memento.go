package wfengine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// mementos is a store over storages of the user's own kind: the memory store decides, and each of
// its writes goes to the storage of the resource first.
//
// A text is the record that the PolarDB Stack engine would have written, with Pawl's checkpoint
// added, so that programs which read such records still can. The storage interface cannot delete,
// so a new flow takes the key of an ended one.
type mementos struct {
	*runstore.Memory
	manager *WfManager

	mu     sync.Mutex
	caches map[string]*mementoCache // by subject
}

var (
	_ runstore.Store   = (*mementos)(nil)
	_ runstore.Claimer = (*mementos)(nil)
	_ runstore.Lister  = (*mementos)(nil)
)

// mementoCache is the state of one resource's storage.
type mementoCache struct {
	load  sync.Mutex // held while the storage is read
	ready bool

	mu      sync.Mutex // held while the storage is written
	storage WfRuntimeMementoStorage
	keys    map[string]string   // by run
	free    map[string][]string // keys of ended flows, by flow name
	next    int
	ended   []string // runs, oldest first
}

// keepEnded is how many ended runs of a resource stay in memory.
const keepEnded = 20

// checkpoint is the part of a text that Pawl adds to the record.
type checkpoint struct {
	Run     *runtype.Run          `json:"run"`
	Steps   []*runtype.StepRecord `json:"steps,omitempty"`
	Signals []runtype.Signal      `json:"signals,omitempty"`
}

func newMementos(m *WfManager) *mementos {
	return &mementos{Memory: runstore.NewMemory(), manager: m, caches: map[string]*mementoCache{}}
}

func (m *mementos) cache(subject string) *mementoCache {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.caches[subject] == nil {
		m.caches[subject] = &mementoCache{keys: map[string]string{}, free: map[string][]string{}, next: 1}
	}
	return m.caches[subject]
}

// add registers the storage of a resource, and reads it the first time.
func (m *mementos) add(resource statemachine.StateResource, storage WfRuntimeMementoStorage) (err error) {
	defer turn.Guard(&err)
	texts, err := storage.LoadMementoMap(maintenanceLock(resource))
	if err != nil {
		return err
	}
	subject := m.manager.subject(resource)
	s := m.cache(subject)
	s.load.Lock()
	defer s.load.Unlock()
	s.mu.Lock()
	s.storage = storage
	s.mu.Unlock()
	if s.ready {
		return nil
	}
	if err := m.read(context.Background(), subject, s, recordsOf(texts)); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// read loads the unfinished flows of a resource into memory.
func (m *mementos) read(ctx context.Context, subject string, s *mementoCache, all []record) error {
	ours := false
	for _, r := range all {
		s.next = max(s.next, r.number+1)
		ours = ours || r.pawl != nil
	}
	for _, r := range all {
		if r.ended() {
			s.free[r.flow] = append(s.free[r.flow], r.key)
		}
	}
	if !ours {
		r, found := open(all)
		if !found {
			return nil
		}
		imported, err := m.manager.read(subject, r)
		if err != nil {
			return err
		}
		for _, run := range imported.Runs {
			s.keys[run.Run.ID] = r.key
		}
		_, err = imported.Write(ctx, m)
		return err
	}
	for _, r := range slices.Backward(all) {
		if r.pawl == nil || r.ended() {
			continue
		}
		var c checkpoint
		if err := json.Unmarshal(r.pawl, &c); err != nil || c.Run == nil {
			return runstore.StoreCorrupt.Errorf("%s: the checkpoint in %s cannot be read: %v", subject, r.key, err)
		}
		s.keys[c.Run.ID] = r.key
		if err := m.restore(ctx, c); err != nil {
			return fmt.Errorf("%s: %s: %w", subject, r.key, err)
		}
	}
	return nil
}

// restore puts a checkpoint into the memory store.
func (m *mementos) restore(ctx context.Context, c checkpoint) error {
	run := *c.Run
	run.Owner = ""
	for _, step := range c.Steps {
		step.Row = 0
		run.Put(step)
	}
	got, err := m.Memory.Create(ctx, &run, nil)
	if err != nil {
		return err
	}
	got.Phase, got.Fault, got.State, got.NextAt, got.EndedAt, got.Seq = c.Run.Phase, c.Run.Fault, c.Run.State, c.Run.NextAt, c.Run.EndedAt, c.Run.Seq
	if err := m.Memory.Save(ctx, &runstore.Save{Run: got}); err != nil {
		return err
	}
	for _, signal := range c.Signals {
		if err := m.Memory.Send(ctx, got.ID, signal); err != nil {
			return err
		}
	}
	return nil
}

// Create stores a new run. See runstore.Store.
func (m *mementos) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	s := m.cache(r.Subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, _, err := m.Memory.Load(ctx, r.ID); err == nil {
		return known, nil
	}
	first := *r
	first.Phase = runtype.Running
	if err := m.keep(s, &first, nil); err != nil {
		return nil, err
	}
	return m.Memory.Create(ctx, r, events)
}

// Save replaces a run. See runstore.Store.
func (m *mementos) Save(ctx context.Context, save *runstore.Save) error {
	s := m.cache(save.Run.Subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, mail, err := m.Memory.Load(ctx, save.Run.ID)
	switch {
	case err != nil:
		return err
	case stored.Epoch > save.Run.Epoch:
		return runstore.ErrFenced
	case stored.Revision != save.Run.Revision:
		return runstore.ErrConflict
	}
	mail = slices.DeleteFunc(mail, func(signal runtype.Signal) bool { return slices.Contains(save.Consumed, signal.ID) })
	if err := m.keep(s, save.Run, mail); err != nil {
		return err
	}
	if err := m.Memory.Save(ctx, save); err != nil {
		return err
	}
	if save.Run.Phase.Final() {
		m.end(ctx, s, save.Run)
	}
	return nil
}

// Send stores a signal. See runstore.Store.
func (m *mementos) Send(ctx context.Context, id string, signal runtype.Signal) error {
	run, _, err := m.Memory.Load(ctx, id)
	if err != nil {
		return err
	}
	s := m.cache(run.Subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := m.Memory.Send(ctx, id, signal); err != nil {
		return err
	}
	run, mail, err := m.Memory.Load(ctx, id)
	if err != nil || run.Phase.Final() {
		return err
	}
	return m.keep(s, run, mail)
}

// end frees the key of an ended run for another one. s.mu is held.
func (m *mementos) end(ctx context.Context, s *mementoCache, run *runtype.Run) {
	if key, known := s.keys[run.ID]; known {
		delete(s.keys, run.ID)
		s.free[run.Flow] = append(s.free[run.Flow], key)
		s.ended = append(s.ended, run.ID)
	}
	if over := len(s.ended) - keepEnded; over > 0 {
		if err := m.Remove(ctx, s.ended[:over]); err == nil {
			s.ended = slices.Delete(s.ended, 0, over)
		}
	}
}

// keep writes a run to the storage. s.mu is held.
func (m *mementos) keep(s *mementoCache, run *runtype.Run, mail []runtype.Signal) (err error) {
	defer turn.Guard(&err)
	if s.storage == nil {
		return runstore.StoreUnavailable.Errorf("%s has no storage yet", run.Subject)
	}
	key := s.keys[run.ID]
	if key == "" {
		if free := s.free[run.Flow]; len(free) > 0 {
			key, s.free[run.Flow] = free[0], free[1:]
		} else {
			key = fmt.Sprintf("%d-%s", s.next, run.Flow)
			s.next++
		}
		s.keys[run.ID] = key
	}
	bare := *run
	bare.Handle = nil
	c := checkpoint{Run: &bare, Signals: mail, Steps: slices.Collect(run.Steps())}
	text, err := json.Marshal(struct {
		*WfRuntime
		Pawl checkpoint `json:"pawl"`
	}{viewOf(run, m.manager.flow(run.Flow)), c})
	if err != nil {
		return err
	}
	if err := s.storage.Save(key, string(text)); err != nil {
		return runstore.StoreUnavailable.Errorf("saving %s of %s: %w", key, run.Subject, err)
	}
	return nil
}
