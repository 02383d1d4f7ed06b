package sim

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

const (
	heartbeatInterval = 30 * time.Second
	maxHeartbeats     = 1024
)

// Nodes are the node programs on the VMs, which send heartbeats.
type Nodes struct {
	world *world

	heartbeats  queue // heartbeats that are due
	configs     configs
	endSleep    context.CancelFunc // ends Serve's sleep
	sleepsUntil time.Time          // Serve sleeps until then
}

// Serve sends the nodes' heartbeats until the context ends. Up to maxHeartbeats are sent
// concurrently.
func (s *Nodes) Serve(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, maxHeartbeats)
	for ctx.Err() == nil {
		sleeping, wake := context.WithCancel(ctx)
		for _, one := range s.dueHeartbeats() {
			slots <- struct{}{}
			sending.Go(func() {
				defer func() { <-slots }()
				s.sendHeartbeat(ctx, one)
			})
		}
		s.world.mu.Lock()
		now, wait := s.world.o.Now(), time.Hour
		if next := s.world.nextDue(); !next.IsZero() {
			wait = max(next.Sub(now), 0)
		}
		s.endSleep, s.sleepsUntil = wake, now.Add(wait)
		s.world.mu.Unlock()
		if wait > 0 {
			_ = s.world.o.Sleep(sleeping, wait) // woken or ended: the loop decides
		}
		s.world.mu.Lock()
		s.endSleep = nil
		s.world.mu.Unlock()
		wake()
	}
	return ctx.Err()
}

// Tick ends finished jobs, sends the heartbeats that are due and waits for their answers.
// It returns the time of the next event; zero if there is none.
func (s *Nodes) Tick(ctx context.Context) time.Time {
	var sending sync.WaitGroup
	slots := make(chan struct{}, maxHeartbeats)
	for _, one := range s.dueHeartbeats() {
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			s.sendHeartbeat(ctx, one)
		})
	}
	sending.Wait()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.nextDue()
}

// dueHeartbeat is a heartbeat to send.
type dueHeartbeat struct {
	id        string
	boot      int64
	token     string
	heartbeat cluster.Heartbeat
}

// dueHeartbeats ends finished jobs and returns the heartbeats that are due.
func (s *Nodes) dueHeartbeats() []dueHeartbeat {
	var due []dueHeartbeat
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	now := s.world.o.Now()
	s.world.jobs.settle(now)
	for len(s.heartbeats) > 0 && !s.heartbeats[0].at.After(now) {
		e := heap.Pop(&s.heartbeats).(event)
		t, ok := s.world.inventory.byID[e.id]
		if ok && t.Node.Boots == e.boot && !t.Node.Silent && t.nodeRunning(now) {
			due = append(due, dueHeartbeat{e.id, e.boot, t.Node.Token, s.heartbeat(t, now)})
		}
	}
	return due
}

func (s *Nodes) sendHeartbeat(ctx context.Context, one dueHeartbeat) {
	answer, err := s.world.o.Home(ctx, one.token, one.heartbeat)
	s.handleAnswer(one.id, one.boot, one.heartbeat, answer, err)
}

// handleAnswer applies the answer to a heartbeat.
func (s *Nodes) handleAnswer(id string, boot int64, h cluster.Heartbeat, answer cluster.HeartbeatAnswer, err error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	defer s.world.wake() // the node's next heartbeat may be the earliest event
	now := s.world.o.Now()
	t, ok := s.world.inventory.byID[id]
	if !ok || t.Node.Boots != boot {
		return
	}
	n := t.Node
	before := *n
	if err == nil {
		n.Every = answer.Every
	}
	every := s.world.o.HeartbeatInterval
	if every == 0 {
		if every = n.Every; every == 0 {
			every = heartbeatInterval
		}
	}
	if err != nil {
		s.world.log.calls.add(Entry{Seq: s.world.ids.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Cluster: n.Cluster, Code: codeOf(err), Err: err.Error()})
		s.schedule(t, now.Add(every))
		return
	}
	if answer.Credential != "" {
		n.Token = answer.Credential
	}
	for _, name := range answer.Removed {
		if !slices.Contains(n.Removed, name) {
			n.Removed = append(n.Removed, name)
		}
	}
	if up := answer.Upgrade; up != nil && up.Version != n.Version && !n.Stubborn { // in place: the node keeps its data and boots again
		n.Version = up.Version
		s.boot(t, now)
		if failed := s.world.disk.flush(); failed != nil {
			s.world.log.calls.add(Entry{Seq: s.world.ids.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Err: failed.Error()})
		}
		return
	}
	if n.Drained = answer.Drain; n.Drained != before.Drained {
		every = min(every, time.Second) // the node reports a changed drain within a second
	}
	if before.Token != n.Token || before.Drained != n.Drained || before.Every != n.Every || len(before.Removed) != len(n.Removed) {
		s.world.disk.changed(t)
		if failed := s.world.disk.flush(); failed != nil {
			s.world.log.calls.add(Entry{Seq: s.world.ids.next(), At: now, Call: "home", Kind: t.Kind, Name: t.Name, ID: t.ID, Err: failed.Error()})
		}
	}
	s.schedule(t, now.Add(every))
}

// boot sets a VM to Running at the given time. Its node works after Times.Boot.
func (s *Nodes) boot(t *resource, at time.Time) {
	t.State = stateRunning
	if n := t.Node; n != nil {
		n.Boots++
		n.Booted, n.Drained = at.Add(s.world.o.Times.Boot), false
		s.schedule(t, n.Booted)
	}
	s.world.disk.changed(t)
}

// schedule schedules a node's next heartbeat.
func (s *Nodes) schedule(t *resource, at time.Time) {
	if s.world.o.Home == nil || t.Node == nil || t.Node.Silent {
		return
	}
	heap.Push(&s.heartbeats, event{at: at, seq: t.Seq, id: t.ID, boot: t.Node.Boots})
}

// wakeBefore ends Serve's sleep if it lasts longer than until next.
func (s *Nodes) wakeBefore(next time.Time) {
	if s.endSleep != nil && !next.IsZero() && next.Before(s.sleepsUntil) {
		s.endSleep()
	}
}

// NotReady makes a node report that it is not ready, with a reason; an empty reason: ready
// again.
func (s *Nodes) NotReady(vm, reason string) error {
	return s.node(vm, "NotReady", func(_ *resource, n *node) { n.NotReady = reason })
}

// KeepVersion makes a node ignore upgrade requests, or obey them again.
func (s *Nodes) KeepVersion(vm string, keep bool) error {
	return s.node(vm, "KeepVersion", func(_ *resource, n *node) { n.Stubborn = keep })
}

// Silence stops the heartbeats of a node, or starts them again.
func (s *Nodes) Silence(vm string, silent bool) error {
	return s.node(vm, "Silence", func(t *resource, n *node) {
		if n.Silent = silent; !silent {
			s.schedule(t, s.world.o.Now())
		}
	})
}

func (s *Nodes) node(vm, by string, change func(*resource, *node)) error {
	return s.world.change(cluster.VM, vm, by, func(t *resource, _ time.Time) error {
		if t.Node == nil {
			return fmt.Errorf("sim: VM %s is no node: its user data have no server URL", t.Name)
		}
		change(t, t.Node)
		return nil
	})
}
