// Package heartbeat receives the heartbeats of nodes, exchanges their join tokens for
// credentials, and tells runs when the readiness of a node has changed.
package heartbeat

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/cluster/records"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Times of heartbeats.
const (
	heartbeatReady         = 10 * time.Second      // interval of a ready node
	heartbeatSoon          = 2 * time.Second       // interval of a node that is not ready
	credentialConfirmDelay = 10 * time.Millisecond // delay before the heartbeat that confirms that the node has stored its credential
	heartbeatFlush         = 30 * time.Second      // interval at which heartbeats without a change are written
	membershipFresh        = 2 * time.Second       // how long a membership answers heartbeats before it is read again
	forgetFor              = time.Hour             // how long the answer to a control node lists a removed node
)

// Signal is the name of the signal that wakes a run when the readiness of a node
// has changed.
const Signal = "heartbeat"

// Store is the part of cluster.Store that a Receiver uses.
type Store interface {
	cluster.Records
	Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error)
	Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error
}

// Runs reads and signals runs. A *workflow.Engine implements it.
type Runs interface {
	Get(ctx context.Context, id string) (*runtype.Run, error)
	Send(ctx context.Context, id string, s runtype.Signal) error
}

// Providers finds configured providers.
type Providers interface {
	Provider(name string) (cluster.Provider, error)
}

// Options of a Receiver.
type Options struct {
	Store     Store
	Runs      Runs
	Providers Providers
	Versions  settings.Versions
	Logger    *slog.Logger
	Now       func() time.Time
}

// Receiver receives the heartbeats of nodes and registers new nodes.
type Receiver struct {
	options Options

	mu          sync.Mutex
	pending     map[int64]cluster.NodeHeartbeat // by node: not written yet
	memberships map[string]*membership          // by cluster

	writes    batcher[cluster.NodeHeartbeat] // heartbeats that are written at once
	exchanges batchers[*tokenExchange]       // by cluster: writes of credentials
	wakes     batchers[readinessChange]      // by cluster: signals to its run
	reads     batchers[**membership]         // by cluster: reads of its membership
}

// New returns a receiver. Run must be called too.
func New(o Options) *Receiver { return &Receiver{options: o} }

// readinessChange is a written heartbeat that changed the readiness of a node.
type readinessChange struct {
	node  *cluster.Node
	ready bool
}

// tokenExchange is the request of a node to exchange its join token for a
// credential.
type tokenExchange struct {
	node       *cluster.Node
	token      string
	heartbeat  cluster.Heartbeat
	credential string // hash
	exchanged  bool   // the result
}

// Heartbeat receives a heartbeat of a node. token is the credential of the node,
// or the join token, which it exchanges for a credential. NODE_TOKEN_REFUSED. A
// change of readiness is written at once and signalled to the active run; other
// heartbeats are written within 30 s.
func (s *Receiver) Heartbeat(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	r, node, err := s.authenticate(ctx, token, h)
	if err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	if !matches(token, r.details.Credentials[node.Name]) {
		return s.issueCredential(ctx, r, node, token, h)
	}
	if err := s.saveControl(ctx, r, node, h); err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	if err := s.saveHeartbeat(ctx, r, node, h); err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	return s.answer(r, node, h), nil
}

// KnowsNode checks the token of a heartbeat and changes nothing.
// NODE_TOKEN_REFUSED.
func (s *Receiver) KnowsNode(ctx context.Context, token string, h cluster.Heartbeat) error {
	_, _, err := s.authenticate(ctx, token, h)
	return err
}

// authenticate returns the node of a heartbeat if its token is valid.
func (s *Receiver) authenticate(ctx context.Context, token string, h cluster.Heartbeat) (*membership, *cluster.Node, error) {
	r, err := s.membership(ctx, h.Cluster, false)
	if err != nil {
		return nil, nil, tokenFault(err)
	}
	node := r.node(h.Node)
	if node == nil || !r.accepts(node, token, s.options.Now()) { // the node may be newer than the membership
		if r, err = s.membership(ctx, h.Cluster, true); err != nil {
			return nil, nil, tokenFault(err)
		}
		if node = r.node(h.Node); node == nil || !r.accepts(node, token, s.options.Now()) {
			return nil, nil, refusedToken()
		}
	}
	if node.Role != h.Role {
		return nil, nil, refusedToken()
	}
	return r, node, nil
}

// tokenFault returns the same fault for an unknown cluster as for a wrong token,
// so that the answer does not reveal whether a cluster exists.
func tokenFault(err error) error {
	if errors.Is(err, cluster.NotFound) {
		return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
	}
	return err
}

func refusedToken() error {
	return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
}

// issueCredential answers a join token with a credential. Only heartbeats with
// the credential count as readiness.
func (s *Receiver) issueCredential(ctx context.Context, r *membership, n *cluster.Node, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	credential := newToken()
	p := &tokenExchange{node: n, token: token, heartbeat: h, credential: Hash(credential.Reveal())}
	if err := s.exchangeToken(ctx, r, p); err != nil {
		return cluster.HeartbeatAnswer{}, err
	}
	if !p.exchanged {
		return cluster.HeartbeatAnswer{}, refusedToken()
	}
	answer := s.answer(r, n, h)
	answer.Credential, answer.Every = credential.Reveal(), credentialConfirmDelay
	return answer, nil
}

// exchangeToken stores the credentials of all nodes of a cluster that exchange
// their tokens at the same time, in one write.
func (s *Receiver) exchangeToken(ctx context.Context, r *membership, p *tokenExchange) error {
	uuid := p.heartbeat.Cluster
	return s.exchanges.do(ctx, uuid, p, func(ctx context.Context, all []*tokenExchange) error {
		known := records.Pair{}
		if last := s.cachedMembership(uuid); last != nil {
			known = records.Pair{Cluster: &last.rec.Cluster, Details: last.details}
		}
		stored, err := records.AmendFrom(ctx, s.options.Store, uuid, known, func(c *cluster.Cluster, d *cluster.Details) bool {
			changed := false
			for _, p := range all {
				if p.exchanged = matches(p.token, d.JoinTokenHash); !p.exchanged {
					continue
				}
				if d.Credentials == nil {
					d.Credentials = map[string]string{}
				}
				d.Credentials[p.node.Name] = p.credential
				r.applyControl(p.node, p.heartbeat, s.options.Now(), c, d)
				changed = true
			}
			return changed
		})
		if err != nil {
			s.dropMembership(uuid)
			return err
		}
		s.refreshMembership(uuid, stored)
		return nil
	})
}

// applyControl copies endpoint, CA and configuration from the heartbeat of the
// authoritative control node. It reports whether anything changed.
func (r *membership) applyControl(n *cluster.Node, h cluster.Heartbeat, now time.Time, c *cluster.Cluster, d *cluster.Details) bool {
	if n.Role != cluster.Control || !r.authoritative(n, h, now) {
		return false
	}
	url := cmp.Or(h.Endpoint, c.Endpoint)
	if slices.ContainsFunc(r.rec.Journal, func(row cluster.JournalRow) bool { return row.Kind == cluster.Address && row.Phase == cluster.Present }) {
		url = c.Endpoint // the run publishes the address
	}
	ca, config := cmp.Or(h.CACert, d.CACert), cmp.Or(cluster.Secret(h.Config), d.ConfigData)
	if url == c.Endpoint && ca == d.CACert && config == d.ConfigData {
		return false
	}
	if ca != d.CACert { // the node has created its own CA and keeps the key
		d.CAKey = ""
	}
	c.Endpoint, d.CACert, d.ConfigData = url, ca, config
	return true
}

// authoritative reports the control node whose endpoint, CA and configuration
// count: the oldest one that is ready and stays in the cluster. A node that is
// being removed, or whose VM is not the recorded one, does not count.
func (r *membership) authoritative(n *cluster.Node, h cluster.Heartbeat, now time.Time) bool {
	if row := r.rowOf(n); row != nil && row.Identity != "" && h.Identity != "" && row.Identity != h.Identity || !r.stays(n) {
		return false
	}
	return !slices.ContainsFunc(r.rec.Nodes, func(o cluster.Node) bool {
		older := o.Role == cluster.Control && o.Removed.IsZero() && o.Ordinal < n.Ordinal
		return older && r.stays(&o) && !o.ReadyAt.IsZero() && o.NotReady == "" && now.Sub(o.HeartbeatAt) < cluster.DefaultHeartbeatTimeout
	})
}

// stays reports a node that is neither draining nor being removed.
func (r *membership) stays(n *cluster.Node) bool {
	row := r.rowOf(n)
	return !r.draining[n.Name] && (row == nil || row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Present)
}

func (r *membership) rowOf(n *cluster.Node) *cluster.JournalRow {
	for i := range r.rec.Journal {
		if row := &r.rec.Journal[i]; row.Kind == cluster.VM && row.Key == n.Key {
			return row
		}
	}
	return nil
}

// saveControl writes endpoint, CA and configuration of a control node if they
// changed.
func (s *Receiver) saveControl(ctx context.Context, r *membership, n *cluster.Node, h cluster.Heartbeat) error {
	c, d := r.rec.Cluster, *r.details
	if !r.applyControl(n, h, s.options.Now(), &c, &d) {
		return nil
	}
	s.dropMembership(h.Cluster)
	return records.Amend(ctx, s.options.Store, h.Cluster, func(c *cluster.Cluster, d *cluster.Details) bool { return r.applyControl(n, h, s.options.Now(), c, d) })
}

// saveHeartbeat keeps a heartbeat. It writes it at once and wakes the run if
// readiness has changed.
func (s *Receiver) saveHeartbeat(ctx context.Context, r *membership, n *cluster.Node, h cluster.Heartbeat) error {
	said := cluster.NodeHeartbeat{NodeID: n.ID, At: s.options.Now(), Ready: h.Ready, NotReady: h.Reason, Address: h.Address, Version: h.Version}
	s.mu.Lock()
	before, known := s.pending[n.ID]
	if s.pending == nil {
		s.pending = map[int64]cluster.NodeHeartbeat{}
	}
	s.pending[n.ID] = said
	s.mu.Unlock()
	was, at := n.NotReady, n.HeartbeatAt
	if known && before.At.After(at) {
		was, at = before.NotReadyReason(), before.At
	}
	upgraded := r.upgrading[n.Name] != nil && said.Version == r.upgrading[n.Name].Version && n.Version != said.Version
	same := !upgraded && !n.ReadyAt.IsZero() && was == said.NotReadyReason() && said.At.Sub(at) < cluster.DefaultHeartbeatTimeout && !at.Before(r.rec.Cluster.StateSince)
	if same || n.ReadyAt.IsZero() && !said.Ready && was == said.NotReadyReason() {
		return nil
	}
	if err := s.writes.do(ctx, said, s.options.Store.Heartbeats); err != nil {
		return err
	}
	return s.wakes.do(ctx, h.Cluster, readinessChange{n, h.Ready}, func(ctx context.Context, news []readinessChange) error { return s.wakeRun(ctx, h.Cluster, news) })
}

// wakeRun signals the run of a cluster after changes of readiness. If the run
// of the cached membership has ended, the membership is read again.
func (s *Receiver) wakeRun(ctx context.Context, uuid string, news []readinessChange) error {
	for _, anew := range []bool{false, true} {
		run, err := s.runToWake(ctx, uuid, news, anew)
		if err != nil || run == "" {
			return err
		}
		err = s.options.Runs.Send(ctx, run, runtype.Signal{ID: Signal + "/" + control.NewUID(), Name: Signal})
		switch {
		case errors.Is(err, workflow.RunFinished), errors.Is(err, workflow.RunNotFound):
		case errors.Is(err, runstore.QueueFull):
			return nil // the run polls by itself
		default:
			return err
		}
	}
	return nil // no run is active any more
}

// runToWake returns the run to signal after changes of readiness; empty: none. A
// run waits for all nodes that it creates, so only the last of them wakes it.
// The nodes are read after the heartbeats were written: of two concurrent ones,
// at least one sees the other. A first start creates all its nodes before it
// waits for its workers.
func (s *Receiver) runToWake(ctx context.Context, uuid string, news []readinessChange, anew bool) (run string, err error) {
	r, err := s.membership(ctx, uuid, anew)
	if err == nil && r.rec.Cluster.RunID == "" && !anew { // a run may have begun since
		r, err = s.membership(ctx, uuid, true)
	}
	if err != nil {
		return "", err
	}
	c := &r.rec.Cluster
	living, err := s.options.Store.Nodes(ctx, []int64{c.ID})
	if err != nil {
		return "", err
	}
	nodes := living[c.ID]
	s.setMembers(uuid, nodes)
	switch {
	case slices.ContainsFunc(news, func(h readinessChange) bool { return h.node.Role == cluster.Control || !h.ready }):
		return c.RunID, nil
	case c.State == cluster.Starting && !c.Started && len(nodes) < c.ControlCount+c.NodeCount:
		return "", nil
	}
	for _, other := range nodes {
		told := slices.ContainsFunc(news, func(h readinessChange) bool { return h.node.ID == other.ID })
		if !told && other.Role == cluster.Worker && other.ReadyAt.IsZero() && r.createdBy(&other, c.RunID) {
			return "", nil
		}
	}
	return c.RunID, nil
}

// answer returns the answer to a heartbeat.
func (s *Receiver) answer(r *membership, n *cluster.Node, h cluster.Heartbeat) cluster.HeartbeatAnswer {
	a := cluster.HeartbeatAnswer{Every: heartbeatReady, Drain: r.draining[n.Name]}
	if !h.Ready {
		a.Every = heartbeatSoon
	}
	if n.Role == cluster.Worker {
		a.Control, a.CAHash = r.rec.ControlURL(r.caps), bootstrap.CAHash(r.details.CACert)
		return a
	}
	if up := r.upgrading[n.Name]; up != nil && !cluster.SameVersion(h.Version, up.Version) && h.Version != up.Version {
		a.Upgrade, a.Every = up, heartbeatSoon
	}
	if h.CACert == "" {
		a.CACert, a.CAKey = r.details.CACert, r.details.CAKey.Reveal()
		if a.CAKey == "" {
			a.CACert = "" // another node has created it and keeps the key
		}
	}
	now := s.options.Now()
	if r.details.JoinTokenHash != "" && now.Before(r.details.JoinTokenExpires) {
		a.JoinToken, _, _ = strings.Cut(r.details.JoinTokenHash, ",")
	}
	for _, row := range r.rec.Journal {
		if row.Kind == cluster.VM && (row.Phase == cluster.Closing || row.Phase == cluster.Gone && now.Sub(row.GoneAt) < forgetFor) {
			a.Removed = append(a.Removed, row.Name)
		}
	}
	for _, other := range r.rec.Nodes {
		if hash := r.details.Credentials[other.Name]; other.Role == cluster.Worker && other.Removed.IsZero() && hash != "" {
			if a.Members == nil {
				a.Members = map[string]string{}
			}
			a.Members[other.Name] = hash
		}
	}
	return a
}

// Run writes the collected heartbeats every heartbeatFlush until the
// context ends.
func (s *Receiver) Run(ctx context.Context) error {
	tick := time.NewTicker(heartbeatFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.writeHeartbeats(context.WithoutCancel(ctx))
		case <-tick.C:
			if err := s.writeHeartbeats(ctx); err != nil && ctx.Err() == nil {
				s.options.Logger.Warn("heartbeats were not written; the write is tried again", "error", err, "code", fault.Of(err).Code)
			}
		}
	}
}

func (s *Receiver) writeHeartbeats(ctx context.Context) error {
	s.mu.Lock()
	heard := s.pending
	s.pending = nil
	now := s.options.Now()
	for uuid, r := range s.memberships {
		if now.Sub(r.at) >= membershipFresh {
			delete(s.memberships, uuid)
		}
	}
	s.mu.Unlock()
	if len(heard) == 0 {
		return nil
	}
	said := make([]cluster.NodeHeartbeat, 0, len(heard))
	for _, h := range heard {
		said = append(said, h)
	}
	slices.SortFunc(said, func(a, b cluster.NodeHeartbeat) int { return cmp.Compare(a.NodeID, b.NodeID) })
	err := s.options.Store.Heartbeats(ctx, said)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pending == nil {
			s.pending = map[int64]cluster.NodeHeartbeat{}
		}
		for _, h := range said {
			if _, newer := s.pending[h.NodeID]; !newer {
				s.pending[h.NodeID] = h
			}
		}
	}
	return err
}
