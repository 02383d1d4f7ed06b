package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// Times of hellos.
const (
	heartbeatReady         = 10 * time.Second      // between the hellos of a node that is ready
	heartbeatSoon          = 2 * time.Second       // of one that is not
	credentialConfirmDelay = 10 * time.Millisecond // after its token: it is heard once its credential says that it has it
	heartbeatFlush         = 30 * time.Second      // until hellos that change nothing are written
	membershipFresh        = 2 * time.Second       // how long a roll answers hellos without being read again
	forgetFor              = time.Hour             // how long a control node is told of a node that was removed
)

// heartbeatBatch is what nodes said, until it is written.
type heartbeatBatch struct {
	mu    sync.Mutex
	heard map[int64]cluster.NodeHeartbeat // by node
	rolls map[string]*membership          // by cluster

	news     batcher[cluster.NodeHeartbeat] // to be written at once
	payments gatherings[*tokenExchange]     // by cluster
	told     gatherings[heard]              // by cluster: what its run is to be told
	read     gatherings[**membership]       // by cluster: who waits for its roll
}

// heard is a hello that was written.
type heard struct {
	node  *cluster.Node
	ready bool
}

// tokenExchange is a node that pays with its join token for a credential.
type tokenExchange struct {
	node       *cluster.Node
	token      string
	heartbeat  Heartbeat
	credential string // hash
	exchanged  bool
}

// Heartbeat hears a node. token is its join token, which pays for one answer with
// a credential, or that credential. NODE_TOKEN_REFUSED. A node that becomes
// ready, or no longer is, is written at once and told to the run under way;
// all else is written later.
func (s *Service) Heartbeat(ctx context.Context, token string, h Heartbeat) (HeartbeatAnswer, error) {
	r, node, err := s.speaker(ctx, token, h)
	if err != nil {
		return HeartbeatAnswer{}, err
	}
	if !matches(token, r.details.Credentials[node.Name]) {
		return s.welcome(ctx, r, node, token, h)
	}
	if err := s.learn(ctx, r, node, h); err != nil {
		return HeartbeatAnswer{}, err
	}
	if err := s.hearNode(ctx, r, node, h); err != nil {
		return HeartbeatAnswer{}, err
	}
	return s.answer(r, node, h), nil
}

// KnowsNode checks that a token speaks for the node of a hello, and changes
// nothing. NODE_TOKEN_REFUSED.
func (s *Service) KnowsNode(ctx context.Context, token string, h Heartbeat) error {
	_, _, err := s.speaker(ctx, token, h)
	return err
}

// speaker finds the node that a token speaks for.
func (s *Service) speaker(ctx context.Context, token string, h Heartbeat) (*membership, *cluster.Node, error) {
	r, err := s.membership(ctx, h.Cluster, false)
	if err != nil {
		return nil, nil, refusedHeartbeat(err)
	}
	node := r.node(h.Node)
	if node == nil || !r.knows(node, token, s.options.Now()) { // it may be newer than the roll
		if r, err = s.membership(ctx, h.Cluster, true); err != nil {
			return nil, nil, refusedHeartbeat(err)
		}
		if node = r.node(h.Node); node == nil || !r.knows(node, token, s.options.Now()) {
			return nil, nil, refusedToken(h)
		}
	}
	if node.Role != h.Role {
		return nil, nil, refusedToken(h)
	}
	return r, node, nil
}

// refusedHeartbeat tells nothing of whether a cluster exists.
func refusedHeartbeat(err error) error {
	if errors.Is(err, cluster.NotFound) {
		return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
	}
	return err
}

func refusedToken(Heartbeat) error {
	return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
}

// welcome gives a node its credential: that it is ready counts from then on.
func (s *Service) welcome(ctx context.Context, r *membership, n *cluster.Node, token string, h Heartbeat) (HeartbeatAnswer, error) {
	credential := newToken()
	p := &tokenExchange{node: n, token: token, heartbeat: h, credential: hashOf(credential.Reveal())}
	if err := s.exchangeToken(ctx, r, p); err != nil {
		return HeartbeatAnswer{}, err
	}
	if !p.exchanged {
		return HeartbeatAnswer{}, refusedToken(h)
	}
	answer := s.answer(r, n, h)
	answer.Credential, answer.Every = credential.Reveal(), credentialConfirmDelay
	return answer, nil
}

// exchangeToken keeps the credentials of all nodes of a cluster that pay at the moment.
func (s *Service) exchangeToken(ctx context.Context, r *membership, p *tokenExchange) error {
	uuid := p.heartbeat.Cluster
	return s.heartbeats.payments.do(ctx, uuid, p, func(ctx context.Context, all []*tokenExchange) error {
		known := pair{}
		if last := s.newest(uuid); last != nil {
			known = pair{&last.rec.Cluster, last.details}
		}
		stored, err := s.amendFrom(ctx, uuid, known, func(c *cluster.Cluster, d *cluster.Details) bool {
			changed := false
			for _, p := range all {
				if p.exchanged = matches(p.token, d.JoinTokenHash); !p.exchanged {
					continue
				}
				if d.Credentials == nil {
					d.Credentials = map[string]string{}
				}
				d.Credentials[p.node.Name] = p.credential
				r.news(p.node, p.heartbeat, s.options.Now(), c, d)
				changed = true
			}
			return changed
		})
		if err != nil {
			s.drop(uuid)
			return err
		}
		s.renew(uuid, stored)
		return nil
	})
}

// news takes what a control node brings: endpoint, CA and configuration. It
// reports whether anything of it is new. Of several control nodes one speaks
// for the cluster.
func (r *membership) news(n *cluster.Node, h Heartbeat, now time.Time, c *cluster.Cluster, d *cluster.Details) bool {
	if n.Role != cluster.Control || !r.speaks(n, h, now) {
		return false
	}
	url := cmp.Or(h.Endpoint, c.Endpoint)
	if slices.ContainsFunc(r.rec.Journal, func(row cluster.JournalRow) bool { return row.Kind == cluster.Address && row.Phase == cluster.Present }) {
		url = c.Endpoint // the run knows the address
	}
	ca, config := cmp.Or(h.CACert, d.CACert), cmp.Or(cluster.Secret(h.Config), d.ConfigData)
	if url == c.Endpoint && ca == d.CACert && config == d.ConfigData {
		return false
	}
	if ca != d.CACert { // the node has one of its own, and its key
		d.CAKey = ""
	}
	c.Endpoint, d.CACert, d.ConfigData = url, ca, config
	return true
}

// speaks reports the control node whose word on endpoint, CA and configuration
// counts: the oldest member that stays in the cluster and is ready. What a node
// says that leaves, or that is another VM than the books know, does not count.
func (r *membership) speaks(n *cluster.Node, h Heartbeat, now time.Time) bool {
	if row := r.rowOf(n); row != nil && row.Identity != "" && h.Identity != "" && row.Identity != h.Identity || !r.stays(n) {
		return false
	}
	return !slices.ContainsFunc(r.rec.Nodes, func(o cluster.Node) bool {
		older := o.Role == cluster.Control && o.Removed.IsZero() && o.Ordinal < n.Ordinal
		return older && r.stays(&o) && !o.ReadyAt.IsZero() && o.NotReady == "" && now.Sub(o.HeartbeatAt) < cluster.DefaultHeartbeatTimeout
	})
}

// stays reports a node that nobody is about to take out of the cluster.
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

// learn writes the news of a control node.
func (s *Service) learn(ctx context.Context, r *membership, n *cluster.Node, h Heartbeat) error {
	c, d := r.rec.Cluster, *r.details
	if !r.news(n, h, s.options.Now(), &c, &d) {
		return nil
	}
	s.drop(h.Cluster)
	return s.amend(ctx, h.Cluster, func(c *cluster.Cluster, d *cluster.Details) bool { return r.news(n, h, s.options.Now(), c, d) })
}

// hearNode keeps what a node said: at once if its readiness has changed.
func (s *Service) hearNode(ctx context.Context, r *membership, n *cluster.Node, h Heartbeat) error {
	said := cluster.NodeHeartbeat{NodeID: n.ID, At: s.options.Now(), Ready: h.Ready, NotReady: h.Reason, Address: h.Address, Version: h.Version}
	s.heartbeats.mu.Lock()
	before, known := s.heartbeats.heard[n.ID]
	if s.heartbeats.heard == nil {
		s.heartbeats.heard = map[int64]cluster.NodeHeartbeat{}
	}
	s.heartbeats.heard[n.ID] = said
	s.heartbeats.mu.Unlock()
	was, at := n.NotReady, n.HeartbeatAt
	if known && before.At.After(at) {
		was, at = before.NotReadyReason(), before.At
	}
	upgraded := r.upgrading[n.Name] != nil && said.Version == r.upgrading[n.Name].Version && n.Version != said.Version
	same := !upgraded && !n.ReadyAt.IsZero() && was == said.NotReadyReason() && said.At.Sub(at) < cluster.DefaultHeartbeatTimeout && !at.Before(r.rec.Cluster.StateSince)
	if same || n.ReadyAt.IsZero() && !said.Ready && was == said.NotReadyReason() {
		return nil
	}
	if err := s.heartbeats.news.do(ctx, said, s.options.Records.Heartbeats); err != nil {
		return err
	}
	return s.heartbeats.told.do(ctx, h.Cluster, heard{n, h.Ready}, func(ctx context.Context, news []heard) error { return s.tell(ctx, h.Cluster, news) })
}

// tell wakes the run of a cluster whose nodes have something new. Which run that
// is may have been read before; if it has ended, it is read again.
func (s *Service) tell(ctx context.Context, uuid string, news []heard) error {
	for _, anew := range []bool{false, true} {
		run, err := s.waiting(ctx, uuid, news, anew)
		if err != nil || run == "" {
			return err
		}
		err = s.engine.Send(ctx, run, workflow.Signal{ID: "hello/" + control.NewUID(), Name: signalHeartbeat})
		switch {
		case errors.Is(err, workflow.RunFinished), errors.Is(err, workflow.RunNotFound):
		case errors.Is(err, workflow.QueueFull):
			return nil // it looks by itself
		default:
			return err
		}
	}
	return nil // it needs nothing any more
}

// waiting gives the run that is to be told of nodes; empty: none. A run waits
// for all nodes that it makes, so it is told by the last of them: the nodes are
// read after what these said was written, so that of two that come at the same
// time one sees the other. A first start makes all its nodes before it waits
// for its workers.
func (s *Service) waiting(ctx context.Context, uuid string, news []heard, anew bool) (run string, err error) {
	r, err := s.membership(ctx, uuid, anew)
	if err == nil && r.rec.Cluster.RunID == "" && !anew { // one may have begun since
		r, err = s.membership(ctx, uuid, true)
	}
	if err != nil {
		return "", err
	}
	c := &r.rec.Cluster
	living, err := s.options.Records.Nodes(ctx, []int64{c.ID})
	if err != nil {
		return "", err
	}
	nodes := living[c.ID]
	s.meet(uuid, nodes)
	switch {
	case slices.ContainsFunc(news, func(h heard) bool { return h.node.Role == cluster.Control || !h.ready }):
		return c.RunID, nil
	case c.State == cluster.Starting && !c.Started && len(nodes) < c.ControlCount+c.NodeCount:
		return "", nil
	}
	for _, other := range nodes {
		told := slices.ContainsFunc(news, func(h heard) bool { return h.node.ID == other.ID })
		if !told && other.Role == cluster.Worker && other.ReadyAt.IsZero() && r.madeBy(&other, c.RunID) {
			return "", nil
		}
	}
	return c.RunID, nil
}

// answer is what a node is told.
func (s *Service) answer(r *membership, n *cluster.Node, h Heartbeat) HeartbeatAnswer {
	a := HeartbeatAnswer{Every: heartbeatReady, Drain: r.draining[n.Name]}
	if !h.Ready {
		a.Every = heartbeatSoon
	}
	if n.Role == cluster.Worker {
		a.Control, a.CAHash = controlURL(r.rec, r.caps), cluster.CAHash(r.details.CACert)
		return a
	}
	if up := r.upgrading[n.Name]; up != nil && !cluster.SameVersion(h.Version, up.Version) && h.Version != up.Version {
		a.Upgrade, a.Every = up, heartbeatSoon
	}
	if h.CACert == "" {
		a.CACert, a.CAKey = r.details.CACert, r.details.CAKey.Reveal()
		if a.CAKey == "" {
			a.CACert = "" // another node's own
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

// flushHeartbeats writes what nodes have said, now and then, until the context ends.
func (s *Service) flushHeartbeats(ctx context.Context) error {
	tick := time.NewTicker(heartbeatFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.writeHeartbeats(context.WithoutCancel(ctx))
		case <-tick.C:
			if err := s.writeHeartbeats(ctx); err != nil && ctx.Err() == nil {
				s.options.Logger.Warn("what nodes said was not written; it is tried again", "error", err, "code", fault.Of(err).Code)
			}
		}
	}
}

func (s *Service) writeHeartbeats(ctx context.Context) error {
	s.heartbeats.mu.Lock()
	heard := s.heartbeats.heard
	s.heartbeats.heard = nil
	now := s.options.Now()
	for uuid, r := range s.heartbeats.rolls {
		if now.Sub(r.at) >= membershipFresh {
			delete(s.heartbeats.rolls, uuid)
		}
	}
	s.heartbeats.mu.Unlock()
	if len(heard) == 0 {
		return nil
	}
	said := make([]cluster.NodeHeartbeat, 0, len(heard))
	for _, h := range heard {
		said = append(said, h)
	}
	slices.SortFunc(said, func(a, b cluster.NodeHeartbeat) int { return cmp.Compare(a.NodeID, b.NodeID) })
	err := s.options.Records.Heartbeats(ctx, said)
	if err != nil {
		s.heartbeats.mu.Lock()
		defer s.heartbeats.mu.Unlock()
		if s.heartbeats.heard == nil {
			s.heartbeats.heard = map[int64]cluster.NodeHeartbeat{}
		}
		for _, h := range said {
			if _, newer := s.heartbeats.heard[h.NodeID]; !newer {
				s.heartbeats.heard[h.NodeID] = h
			}
		}
	}
	return err
}
