package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/records"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// membership is the snapshot of a cluster from which its heartbeats are
// answered.
type membership struct {
	at       time.Time
	rec      *cluster.Record
	details  *cluster.Details
	caps     cluster.Capabilities
	draining map[string]bool // by name; every worker if the cluster stops

	upgrading map[string]*cluster.NodeUpgrade // by name: nodes that are upgraded in place
}

// membership returns the membership of a cluster. It reads it if anew is set or
// the cached one is older than membershipFresh. Concurrent callers share one
// read.
func (s *Receiver) membership(ctx context.Context, uuid string, anew bool) (*membership, error) {
	if r := s.cachedMembership(uuid); r != nil && !anew && s.options.Now().Sub(r.at) < membershipFresh {
		return r, nil
	}
	var r *membership
	err := s.reads.do(ctx, uuid, &r, func(ctx context.Context, all []**membership) error {
		read, err := s.readMembership(ctx, uuid)
		for _, one := range all {
			*one = read
		}
		return err
	})
	return r, err
}

func (s *Receiver) readMembership(ctx context.Context, uuid string) (*membership, error) {
	r := &membership{at: s.options.Now()}
	var err error
	if r.rec, err = s.options.Store.Record(ctx, uuid); err != nil {
		return nil, err
	}
	if r.details, err = s.options.Store.Details(ctx, uuid); err != nil {
		return nil, err
	}
	if p, err := s.options.Providers.Provider(r.rec.Cluster.Provider); err == nil {
		r.caps = p.Capabilities()
	}
	if err := s.readRun(ctx, r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memberships == nil {
		s.memberships = map[string]*membership{}
	}
	s.memberships[uuid] = r
	return r, nil
}

func (r *membership) node(name string) *cluster.Node {
	for i := range r.rec.Nodes {
		if n := &r.rec.Nodes[i]; n.Name == name && n.Removed.IsZero() {
			return n
		}
	}
	return nil
}

// accepts reports a token that is valid for a node: its credential, or the join
// token of the run that creates it.
func (r *membership) accepts(n *cluster.Node, token string, now time.Time) bool {
	known := matches(token, r.details.Credentials[n.Name])
	joins := matches(token, r.details.JoinTokenHash)
	return known || joins && now.Before(r.details.JoinTokenExpires) && expected(r.rec, r.details, n)
}

// cachedMembership returns the membership that was read last; nil if there is
// none.
func (s *Receiver) cachedMembership(uuid string) *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memberships[uuid]
}

// refreshMembership puts a cluster and its details that were just stored into
// its cached membership.
func (s *Receiver) refreshMembership(uuid string, stored records.Pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.memberships[uuid]
	if old == nil || old.rec.Cluster.Revision >= stored.Cluster.Revision {
		return
	}
	next := *old
	next.rec = &cluster.Record{Cluster: *stored.Cluster, Nodes: old.rec.Nodes, Journal: old.rec.Journal}
	next.details = stored.Details
	s.memberships[uuid] = &next
}

// setMembers puts nodes that were just read into the cached membership of their
// cluster. The join token is not valid for a node that has been ready.
func (s *Receiver) setMembers(uuid string, nodes []cluster.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.memberships[uuid]; old != nil {
		next := *old
		next.rec = &cluster.Record{Cluster: old.rec.Cluster, Nodes: nodes, Journal: old.rec.Journal}
		s.memberships[uuid] = &next
	}
}

// Expect adds nodes that are about to be created, with their rows, to the cached
// membership of their cluster, if there is one: their first heartbeats are near.
func (s *Receiver) Expect(uuid string, nodes []*cluster.Node, rows []*cluster.JournalRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.memberships[uuid]
	if old == nil {
		return
	}
	next := *old
	next.rec = &cluster.Record{Cluster: old.rec.Cluster, // others may be reading the old ones
		Nodes:   append(make([]cluster.Node, 0, len(old.rec.Nodes)+len(nodes)), old.rec.Nodes...),
		Journal: append(make([]cluster.JournalRow, 0, len(old.rec.Journal)+len(nodes)), old.rec.Journal...)}
	for i, n := range nodes {
		if old.node(n.Name) == nil {
			next.rec.Nodes, next.rec.Journal = append(next.rec.Nodes, *n), append(next.rec.Journal, *rows[i])
		}
	}
	s.memberships[uuid] = &next
}

// dropMembership removes the cached membership of a cluster that has changed.
func (s *Receiver) dropMembership(uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.memberships, uuid)
}

// createdBy reports a node whose VM a run creates or has created.
func (r *membership) createdBy(n *cluster.Node, run string) bool {
	return slices.ContainsFunc(r.rec.Journal, func(row cluster.JournalRow) bool {
		return row.Kind == cluster.VM && row.Key == n.Key && row.RunID == run && (row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Present)
	})
}

// readRun sets the nodes that the active run stops, removes or upgrades in
// place.
func (s *Receiver) readRun(ctx context.Context, r *membership) error {
	c := &r.rec.Cluster
	r.draining, r.upgrading = map[string]bool{}, map[string]*cluster.NodeUpgrade{}
	if c.State == cluster.Stopping {
		for _, n := range r.rec.Nodes {
			if n.Role == cluster.Worker {
				r.draining[n.Name] = true
			}
		}
		return nil
	}
	if c.State != cluster.Scaling && c.State != cluster.Recovering || c.RunID == "" {
		return nil
	}
	run, err := s.options.Runs.Get(ctx, c.RunID)
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
				r.upgrading[name] = &cluster.NodeUpgrade{Version: s.options.Versions.Semantic(in.Request.Version), Template: in.Request.Template.ID}
			}
		}
	}
	return nil
}

// chosen returns the names of the nodes that a step of a run drains: those
// in the output of an earlier step, or in the item of its loop.
func chosen(run *runtype.Run, step *runtype.StepRecord) []string {
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

// batchOf returns the loop item of a step whose name has the suffix end; empty
// for other steps.
func batchOf(run *runtype.Run, step *runtype.StepRecord, end string) (b upgrade.Batch) {
	loop, inLoop := strings.CutSuffix(step.Name, end)
	if !inLoop || step.Phase == runtype.StepSkipped {
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
	return upgrade.Batch{}
}

// unmarshal leaves v as it is if there are no data.
func unmarshal(data json.RawMessage, v any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, v)
}
