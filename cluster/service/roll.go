package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/workflow"
)

// roll is what hellos of one cluster are answered from.
type roll struct {
	at       time.Time
	book     *cluster.Record
	details  *cluster.Details
	caps     cluster.Capabilities
	draining map[string]bool // names; every worker if the cluster stops

	upgrading map[string]*cluster.NodeUpgrade // by name: nodes that are upgraded in place
}

// roll gives what hellos of a cluster are answered from. It is read unless it is
// known freshly; who wants it at the same time has it read together.
func (s *Service) roll(ctx context.Context, uuid string, anew bool) (*roll, error) {
	if r := s.newest(uuid); r != nil && !anew && s.options.Now().Sub(r.at) < rollFresh {
		return r, nil
	}
	var r *roll
	err := s.hellos.read.do(ctx, uuid, &r, func(ctx context.Context, all []**roll) error {
		read, err := s.readRoll(ctx, uuid)
		for _, one := range all {
			*one = read
		}
		return err
	})
	return r, err
}

func (s *Service) readRoll(ctx context.Context, uuid string) (*roll, error) {
	r := &roll{at: s.options.Now()}
	var err error
	if r.book, err = s.options.Books.Record(ctx, uuid); err != nil {
		return nil, err
	}
	if r.details, err = s.options.Books.Details(ctx, uuid); err != nil {
		return nil, err
	}
	if p, err := s.provider(r.book.Cluster.Provider); err == nil {
		r.caps = p.Capabilities()
	}
	if err := s.readRun(ctx, r); err != nil {
		return nil, err
	}
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	if s.hellos.rolls == nil {
		s.hellos.rolls = map[string]*roll{}
	}
	s.hellos.rolls[uuid] = r
	return r, nil
}

func (r *roll) node(name string) *cluster.Node {
	for i := range r.book.Nodes {
		if n := &r.book.Nodes[i]; n.Name == name && n.Removed.IsZero() {
			return n
		}
	}
	return nil
}

// knows reports a token that speaks for a node: its credential, or the join
// token of the run that makes it.
func (r *roll) knows(n *cluster.Node, token string, now time.Time) bool {
	known := matches(token, r.details.Credentials[n.Name])
	joins := matches(token, r.details.JoinTokenHash)
	return known || joins && now.Before(r.details.JoinTokenExpires) && expected(r.book, r.details, n)
}

// newest is the last roll of a cluster that was read; nil: none.
func (s *Service) newest(uuid string) *roll {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	return s.hellos.rolls[uuid]
}

// renew writes into the roll of a cluster what was stored just now.
func (s *Service) renew(uuid string, stored pair) {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	old := s.hellos.rolls[uuid]
	if old == nil || old.book.Cluster.Revision >= stored.c.Revision {
		return
	}
	next := *old
	next.book = &cluster.Record{Cluster: *stored.c, Nodes: old.book.Nodes, Journal: old.book.Journal}
	next.details = stored.d
	s.hellos.rolls[uuid] = &next
}

// meet writes nodes that were read just now into the roll of their cluster: the
// join token speaks for none that was ready.
func (s *Service) meet(uuid string, nodes []cluster.Node) {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	if old := s.hellos.rolls[uuid]; old != nil {
		next := *old
		next.book = &cluster.Record{Cluster: old.book.Cluster, Nodes: nodes, Journal: old.book.Journal}
		s.hellos.rolls[uuid] = &next
	}
}

// enroll writes the nodes that are about to be made into the roll of their
// cluster, if there is one: they will call home in a moment.
func (s *Service) enroll(uuid string, hands []*hand) {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	old := s.hellos.rolls[uuid]
	if old == nil {
		return
	}
	next := *old
	next.book = &cluster.Record{Cluster: old.book.Cluster, // others may be reading the old ones
		Nodes:   append(make([]cluster.Node, 0, len(old.book.Nodes)+len(hands)), old.book.Nodes...),
		Journal: append(make([]cluster.JournalRow, 0, len(old.book.Journal)+len(hands)), old.book.Journal...)}
	for _, h := range hands {
		if h.send == cluster.SendCreate && h.node != nil && old.node(h.node.Name) == nil {
			next.book.Nodes, next.book.Journal = append(next.book.Nodes, *h.node), append(next.book.Journal, *h.row)
		}
	}
	s.hellos.rolls[uuid] = &next
}

// drop forgets the roll of a cluster: it was changed.
func (s *Service) drop(uuid string) {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	delete(s.hellos.rolls, uuid)
}

// madeBy reports a node whose VM a run makes, or has made.
func (r *roll) madeBy(n *cluster.Node, run string) bool {
	return slices.ContainsFunc(r.book.Journal, func(row cluster.JournalRow) bool {
		return row.Kind == cluster.VM && row.Key == n.Key && row.RunID == run && (row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Present)
	})
}

// readRun finds the nodes that are about to be stopped, removed or upgraded in
// place, as the run under way has chosen them.
func (s *Service) readRun(ctx context.Context, r *roll) error {
	c := &r.book.Cluster
	r.draining, r.upgrading = map[string]bool{}, map[string]*cluster.NodeUpgrade{}
	if c.State == cluster.Stopping {
		for _, n := range r.book.Nodes {
			if n.Role == cluster.Worker {
				r.draining[n.Name] = true
			}
		}
		return nil
	}
	if c.State != cluster.Scaling && c.State != cluster.Recovering || c.RunID == "" || s.engine == nil {
		return nil
	}
	run, err := s.engine.Get(ctx, c.RunID)
	if err != nil {
		if errors.Is(err, workflow.RunNotFound) {
			err = nil
		}
		return err
	}
	var in cluster.RunInput
	if err := unmarshal(run.Input, &in); err != nil {
		return err
	}
	for step := range run.Steps() {
		for _, name := range chosen(run, step) {
			r.draining[name] = true
		}
		if b := batchOf(run, step, "]/upgrade"); b.InPlace && in.Request != nil {
			for _, name := range b.Names {
				r.upgrading[name] = &cluster.NodeUpgrade{Version: s.semantic(in.Request.Version), Template: in.Request.Template.ID}
			}
		}
	}
	return nil
}

// chosen are the nodes that a step of a run drains: those of the output before
// it, or of the item of its loop.
func chosen(run *workflow.Run, step *workflow.StepRecord) []string {
	if step.Name == "drain" {
		for _, before := range []string{"victims", "plan"} {
			if rec := run.Step(before); rec != nil && rec.Output != nil {
				var doc struct{ Names, Drop []string }
				if unmarshal(rec.Output, &doc) == nil {
					return append(doc.Names, doc.Drop...)
				}
			}
		}
	}
	return batchOf(run, step, "]/drain").Names
}

// batchOf is the item of the loop that a step whose name ends like this is in.
func batchOf(run *workflow.Run, step *workflow.StepRecord, end string) (b batch) {
	loop, inLoop := strings.CutSuffix(step.Name, end)
	if !inLoop || step.Phase == workflow.StepSkipped {
		return b
	}
	name, key, _ := strings.Cut(loop, "[")
	if rec := run.Step(name); rec != nil {
		for _, item := range rec.Items {
			if item.Key == key && unmarshal(item.Value, &b) == nil {
				return b
			}
		}
	}
	return batch{}
}
