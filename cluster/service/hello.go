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
	helloReady = 10 * time.Second      // between the hellos of a node that is ready
	helloSoon  = 2 * time.Second       // of one that is not
	helloPaid  = 10 * time.Millisecond // after its token: it is heard once its credential says that it has it
	helloFlush = 30 * time.Second      // until hellos that change nothing are written
	rollFresh  = 2 * time.Second       // how long a roll answers hellos without being read again
	forgetFor  = time.Hour             // how long a control node is told of a node that was removed
)

// hellos is what nodes said, until it is written.
type hellos struct {
	mu    sync.Mutex
	heard map[int64]cluster.NodeHello // by node
	rolls map[string]*roll            // by cluster

	news     gathered[cluster.NodeHello] // to be written at once
	payments gatherings[*payment]        // by cluster
	told     gatherings[heard]           // by cluster: what its run is to be told
	read     gatherings[**roll]          // by cluster: who waits for its roll
}

// heard is a hello that was written.
type heard struct {
	node  *cluster.Node
	ready bool
}

// payment is a node that pays with its join token for a credential.
type payment struct {
	node       *cluster.Node
	token      string
	hello      Hello
	credential string // hash
	paid       bool
}

// roll is what hellos of one cluster are answered from.
type roll struct {
	at       time.Time
	book     *cluster.Book
	details  *cluster.Details
	caps     cluster.Capabilities
	draining map[string]bool // names; every worker if the cluster stops
}

// Hello hears a node. token is its join token, which pays for one answer with
// a credential, or that credential. NODE_TOKEN_REFUSED. A node that becomes
// ready, or no longer is, is written at once and told to the run under way;
// all else is written later.
func (s *Service) Hello(ctx context.Context, token string, h Hello) (HelloAnswer, error) {
	r, err := s.roll(ctx, h.Cluster, false)
	if err != nil {
		return HelloAnswer{}, refusedHello(err)
	}
	node := r.node(h.Node)
	if node == nil || !r.knows(node, token, s.options.Now()) { // it may be newer than the roll
		if r, err = s.roll(ctx, h.Cluster, true); err != nil {
			return HelloAnswer{}, refusedHello(err)
		}
		if node = r.node(h.Node); node == nil || !r.knows(node, token, s.options.Now()) {
			return HelloAnswer{}, refusedToken(h)
		}
	}
	if node.Role != h.Role {
		return HelloAnswer{}, refusedToken(h)
	}
	if !matches(token, r.details.Credentials[node.Name]) {
		return s.welcome(ctx, r, node, token, h)
	}
	if err := s.learn(ctx, r, node, h); err != nil {
		return HelloAnswer{}, err
	}
	if err := s.hearNode(ctx, r, node, h); err != nil {
		return HelloAnswer{}, err
	}
	return s.answer(r, node, h), nil
}

// refusedHello tells nothing of whether a cluster exists.
func refusedHello(err error) error {
	if errors.Is(err, cluster.NotFound) {
		return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
	}
	return err
}

func refusedToken(Hello) error {
	return cluster.TokenRefused.Errorf("the token speaks for no node of this name")
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
	if r.book, err = s.options.Books.Book(ctx, uuid); err != nil {
		return nil, err
	}
	if r.details, err = s.options.Books.Details(ctx, uuid); err != nil {
		return nil, err
	}
	if p, err := s.provider(r.book.Cluster.Provider); err == nil {
		r.caps = p.Capabilities()
	}
	if r.draining, err = s.draining(ctx, r.book); err != nil {
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

// welcome gives a node its credential: that it is ready counts from then on.
func (s *Service) welcome(ctx context.Context, r *roll, n *cluster.Node, token string, h Hello) (HelloAnswer, error) {
	credential := newToken()
	p := &payment{node: n, token: token, hello: h, credential: hashOf(credential.Reveal())}
	if err := s.pay(ctx, r, p); err != nil {
		return HelloAnswer{}, err
	}
	if !p.paid {
		return HelloAnswer{}, refusedToken(h)
	}
	answer := s.answer(r, n, h)
	answer.Credential, answer.Every = credential.Reveal(), helloPaid
	return answer, nil
}

// pay keeps the credentials of all nodes of a cluster that pay at the moment.
func (s *Service) pay(ctx context.Context, r *roll, p *payment) error {
	uuid := p.hello.Cluster
	return s.hellos.payments.do(ctx, uuid, p, func(ctx context.Context, all []*payment) error {
		known := pair{}
		if last := s.newest(uuid); last != nil {
			known = pair{&last.book.Cluster, last.details}
		}
		stored, err := s.amendFrom(ctx, uuid, known, func(c *cluster.Cluster, d *cluster.Details) bool {
			changed := false
			for _, p := range all {
				if p.paid = matches(p.token, d.JoinTokenHash); !p.paid {
					continue
				}
				if d.Credentials == nil {
					d.Credentials = map[string]string{}
				}
				d.Credentials[p.node.Name] = p.credential
				r.news(p.node, p.hello, c, d)
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
	next.book = &cluster.Book{Cluster: *stored.c, Nodes: old.book.Nodes, Journal: old.book.Journal}
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
		next.book = &cluster.Book{Cluster: old.book.Cluster, Nodes: nodes, Journal: old.book.Journal}
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
	next.book = &cluster.Book{Cluster: old.book.Cluster, // others may be reading the old ones
		Nodes:   append(make([]cluster.Node, 0, len(old.book.Nodes)+len(hands)), old.book.Nodes...),
		Journal: append(make([]cluster.JournalRow, 0, len(old.book.Journal)+len(hands)), old.book.Journal...)}
	for _, h := range hands {
		if h.send == cluster.SendCreate && h.node != nil && old.node(h.node.Name) == nil {
			next.book.Nodes, next.book.Journal = append(next.book.Nodes, *h.node), append(next.book.Journal, *h.row)
		}
	}
	s.hellos.rolls[uuid] = &next
}

// news takes what a control node brings: endpoint, CA and configuration. It
// reports whether anything of it is new.
func (r *roll) news(n *cluster.Node, h Hello, c *cluster.Cluster, d *cluster.Details) bool {
	if n.Role != cluster.Control {
		return false
	}
	url := cmp.Or(h.Endpoint, c.Endpoint)
	if slices.ContainsFunc(r.book.Journal, func(row cluster.JournalRow) bool { return row.Kind == cluster.Address && row.Phase == cluster.Present }) {
		url = c.Endpoint // the run knows the address
	}
	ca, config := cmp.Or(h.CACert, d.CACert), cmp.Or(cluster.Secret(h.Config), d.ConfigData)
	if url == c.Endpoint && ca == d.CACert && config == d.ConfigData {
		return false
	}
	c.Endpoint, d.CACert, d.ConfigData = url, ca, config
	return true
}

// learn writes the news of a control node.
func (s *Service) learn(ctx context.Context, r *roll, n *cluster.Node, h Hello) error {
	c, d := r.book.Cluster, *r.details
	if !r.news(n, h, &c, &d) {
		return nil
	}
	s.drop(h.Cluster)
	return s.amend(ctx, h.Cluster, func(c *cluster.Cluster, d *cluster.Details) bool { return r.news(n, h, c, d) })
}

// hearNode keeps what a node said: at once if its readiness has changed.
func (s *Service) hearNode(ctx context.Context, r *roll, n *cluster.Node, h Hello) error {
	said := cluster.NodeHello{NodeID: n.ID, At: s.options.Now(), Ready: h.Ready, NotReady: h.Reason, Address: h.Address, Version: h.Version}
	s.hellos.mu.Lock()
	before, known := s.hellos.heard[n.ID]
	if s.hellos.heard == nil {
		s.hellos.heard = map[int64]cluster.NodeHello{}
	}
	s.hellos.heard[n.ID] = said
	s.hellos.mu.Unlock()
	was, at := n.NotReady, n.HelloAt
	if known && before.At.After(at) {
		was, at = before.Why(), before.At
	}
	same := !n.ReadyAt.IsZero() && was == said.Why() && said.At.Sub(at) < cluster.DefaultHello && !at.Before(r.book.Cluster.StateSince)
	if same || n.ReadyAt.IsZero() && !said.Ready && was == said.Why() {
		return nil
	}
	if err := s.hellos.news.do(ctx, said, s.options.Books.Hellos); err != nil {
		return err
	}
	return s.hellos.told.do(ctx, h.Cluster, heard{n, h.Ready}, func(ctx context.Context, news []heard) error { return s.tell(ctx, h.Cluster, news) })
}

// tell wakes the run of a cluster whose nodes have something new. Which run that
// is may have been read before; if it has ended, it is read again.
func (s *Service) tell(ctx context.Context, uuid string, news []heard) error {
	for _, anew := range []bool{false, true} {
		run, err := s.waiting(ctx, uuid, news, anew)
		if err != nil || run == "" {
			return err
		}
		err = s.engine.Send(ctx, run, workflow.Signal{ID: "hello/" + control.NewUID(), Name: signalHello})
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
	r, err := s.roll(ctx, uuid, anew)
	if err == nil && r.book.Cluster.RunID == "" && !anew { // one may have begun since
		r, err = s.roll(ctx, uuid, true)
	}
	if err != nil {
		return "", err
	}
	c := &r.book.Cluster
	living, err := s.options.Books.Nodes(ctx, []int64{c.ID})
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

// madeBy reports a node whose VM a run makes, or has made.
func (r *roll) madeBy(n *cluster.Node, run string) bool {
	return slices.ContainsFunc(r.book.Journal, func(row cluster.JournalRow) bool {
		return row.Kind == cluster.VM && row.Key == n.Key && row.RunID == run && (row.Phase == cluster.Intent || row.Phase == cluster.Accepted || row.Phase == cluster.Present)
	})
}

// answer is what a node is told.
func (s *Service) answer(r *roll, n *cluster.Node, h Hello) HelloAnswer {
	a := HelloAnswer{Every: helloReady, Drain: r.draining[n.Name]}
	if !h.Ready {
		a.Every = helloSoon
	}
	if n.Role == cluster.Worker {
		a.Control, a.CAHash = controlURL(r.book, r.caps), cluster.CAHash(r.details.CACert)
		return a
	}
	now := s.options.Now()
	if r.details.JoinTokenHash != "" && now.Before(r.details.JoinTokenExpires) {
		a.JoinToken, _, _ = strings.Cut(r.details.JoinTokenHash, ",")
	}
	for _, row := range r.book.Journal {
		if row.Kind == cluster.VM && (row.Phase == cluster.Closing || row.Phase == cluster.Gone && now.Sub(row.GoneAt) < forgetFor) {
			a.Removed = append(a.Removed, row.Name)
		}
	}
	for _, other := range r.book.Nodes {
		if hash := r.details.Credentials[other.Name]; other.Role == cluster.Worker && other.Removed.IsZero() && hash != "" {
			if a.Members == nil {
				a.Members = map[string]string{}
			}
			a.Members[other.Name] = hash
		}
	}
	return a
}

// draining are the names of nodes that are about to be stopped or removed, as
// the run under way has chosen them.
func (s *Service) draining(ctx context.Context, book *cluster.Book) (map[string]bool, error) {
	c, names := &book.Cluster, map[string]bool{}
	if c.State == cluster.Stopping {
		for _, n := range book.Nodes {
			if n.Role == cluster.Worker {
				names[n.Name] = true
			}
		}
		return names, nil
	}
	if c.State != cluster.Scaling && c.State != cluster.Recovering || c.RunID == "" || s.engine == nil {
		return names, nil
	}
	run, err := s.engine.Get(ctx, c.RunID)
	if err != nil {
		if errors.Is(err, workflow.RunNotFound) {
			err = nil
		}
		return names, err
	}
	for step := range run.Steps() {
		for _, name := range chosen(run, step) {
			names[name] = true
		}
	}
	return names, nil
}

// chosen are the nodes that a step of a run drains: those of the output before
// it, or of the item of its loop.
func chosen(run *workflow.Run, step *workflow.StepRecord) []string {
	loop, inLoop := strings.CutSuffix(step.Name, "]/drain")
	switch {
	case step.Name == "drain":
		for _, before := range []string{"victims", "plan"} {
			if rec := run.Step(before); rec != nil && rec.Output != nil {
				var doc struct{ Names, Drop []string }
				if unmarshal(rec.Output, &doc) == nil {
					return append(doc.Names, doc.Drop...)
				}
			}
		}
	case inLoop:
		name, key, _ := strings.Cut(loop, "[")
		if rec := run.Step(name); rec != nil {
			for _, item := range rec.Items {
				var b batch
				if item.Key == key && unmarshal(item.Value, &b) == nil {
					return b.Names
				}
			}
		}
	}
	return nil
}

// drop forgets the roll of a cluster: it was changed.
func (s *Service) drop(uuid string) {
	s.hellos.mu.Lock()
	defer s.hellos.mu.Unlock()
	delete(s.hellos.rolls, uuid)
}

// flushHellos writes what nodes have said, now and then, until the context ends.
func (s *Service) flushHellos(ctx context.Context) error {
	tick := time.NewTicker(helloFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.writeHellos(context.WithoutCancel(ctx))
		case <-tick.C:
			if err := s.writeHellos(ctx); err != nil && ctx.Err() == nil {
				s.options.Logger.Warn("what nodes said was not written; it is tried again", "error", err, "code", fault.Of(err).Code)
			}
		}
	}
}

func (s *Service) writeHellos(ctx context.Context) error {
	s.hellos.mu.Lock()
	heard := s.hellos.heard
	s.hellos.heard = nil
	now := s.options.Now()
	for uuid, r := range s.hellos.rolls {
		if now.Sub(r.at) >= rollFresh {
			delete(s.hellos.rolls, uuid)
		}
	}
	s.hellos.mu.Unlock()
	if len(heard) == 0 {
		return nil
	}
	said := make([]cluster.NodeHello, 0, len(heard))
	for _, h := range heard {
		said = append(said, h)
	}
	slices.SortFunc(said, func(a, b cluster.NodeHello) int { return cmp.Compare(a.NodeID, b.NodeID) })
	err := s.options.Books.Hellos(ctx, said)
	if err != nil {
		s.hellos.mu.Lock()
		defer s.hellos.mu.Unlock()
		if s.hellos.heard == nil {
			s.hellos.heard = map[int64]cluster.NodeHello{}
		}
		for _, h := range said {
			if _, newer := s.hellos.heard[h.NodeID]; !newer {
				s.hellos.heard[h.NodeID] = h
			}
		}
	}
	return err
}
