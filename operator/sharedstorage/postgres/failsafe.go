package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
)

// Peer is a member as another agent reaches it.
type Peer struct {
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"` // as its agent has reported; empty: not known
	Agent string `json:"agent"`          // URL
}

// identity returns the identity of this instance; empty: it takes no part in the failsafe.
func (a *Agent) identity() string { return failsafe.Identity(a.name, a.cfg.Node) }

// recorded returns what to record with the next lease: all members, or only this instance if it
// cannot ask them all.
func (a *Agent) recorded() (*failsafe.Recorded, map[string]Peer) {
	own := a.identity()
	if own == "" {
		return nil, nil
	}
	a.mu.Lock()
	m := a.rec.Members
	a.mu.Unlock()
	stops := &failsafe.Recorded{Members: []string{own}}
	r, peers := &failsafe.Recorded{For: time.Duration(a.cfg.Failsafe)}, map[string]Peer{}
	for _, name := range m.Names {
		i := slices.IndexFunc(m.Peers, func(p Peer) bool { return p.Name == name && p.Node != "" })
		if i < 0 {
			return stops, nil
		}
		identity := failsafe.Identity(name, m.Peers[i].Node)
		r.Members, peers[identity] = append(r.Members, identity), m.Peers[i]
	}
	if r.For <= 0 || !r.Names(own) {
		return stops, nil
	}
	slices.Sort(r.Members)
	return r, peers
}

// beginAttempt begins an attempt to take or renew the lease, unless a promise forbids it. holds
// means that this instance has the lease.
func (a *Agent) beginAttempt(now time.Duration, attempt *failsafe.Recorded, peers map[string]Peer) (holds bool, err error) {
	t := &a.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.promise.Take(now); wait > 0 {
		return t.on, port.SwitchRefused.Errorf("%s has promised another writer not to take its place for %s", a.name, wait.Round(time.Millisecond))
	}
	t.holder.Begin(t.on, attempt)
	if t.peers == nil {
		t.peers = map[string]Peer{}
	}
	maps.Copy(t.peers, peers)
	return t.on, nil
}

// goOn lets a writer go on that could not renew its lease, if all members confirm that. Otherwise
// the writer stops at the end of its lease, and the error says why.
func (a *Agent) goOn(ctx context.Context, epoch int64, refused error) error {
	if a.cfg.Failsafe <= 0 || errors.Is(refused, port.SwitchRefused) { // somebody else has the grant
		return refused
	}
	asked := sinceBoot()
	t := &a.tenure
	t.mu.Lock()
	members, peers := t.holder.Members(), maps.Clone(t.peers)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.cfg.Lease)/6)
	defer cancel()
	answers := a.askMembers(ctx, epoch, members, peers)

	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on || t.fenced > 0 || t.epoch != epoch {
		return refused
	}
	r := failsafe.Round{
		Self: a.identity(), Members: t.holder.Members(), Answers: answers, Renewed: t.holder.Renewed(), For: time.Duration(a.cfg.Failsafe),
		Promise: time.Duration(a.cfg.Lease) - a.margin(), Deadline: t.deadline, Asked: asked, Now: sinceBoot(),
	}
	until, why := r.Decide()
	if why == "" {
		why = fault.Message(a.note(until + a.margin()/2))
	}
	if why != "" {
		a.log.Warn("the writer cannot go on without a renewal", "epoch", epoch, "why", why)
		return fmt.Errorf("%w; %s", refused, why)
	}
	if !t.alone {
		a.log.Warn("the writer goes on without a renewal: all members have confirmed", "epoch", epoch, "members", members)
	}
	t.alone, t.deadline = true, until
	return nil
}

// askMembers asks all members at once, and returns the answers in time.
func (a *Agent) askMembers(ctx context.Context, epoch int64, members []string, peers map[string]Peer) map[string]failsafe.Answer {
	var mu sync.Mutex
	answers := map[string]failsafe.Answer{}
	parallel(without(members, a.identity()), func(identity string) {
		p, ok := peers[identity]
		if !ok {
			return
		}
		q := failsafe.Question{Member: identity, Writer: a.name, Epoch: epoch, For: time.Duration(a.cfg.Lease)}
		got, err := request[failsafe.Answer](ctx, a.http, p.Agent+"/v1/confirm", a.token.keys(), http.MethodPost, q)
		if err != nil {
			return // a member that does not answer is missing in the result
		}
		mu.Lock()
		defer mu.Unlock()
		answers[identity] = got
	})
	return answers
}

// callConfirm is the question of a writer that cannot renew its lease.
func (a *Agent) callConfirm(_ context.Context, q failsafe.Question) (failsafe.Answer, error) {
	a.mu.Lock()
	s := failsafe.State{Identity: a.identity(), Epoch: max(a.rec.Epoch, a.rec.Promote, a.rec.Members.Epoch), Held: a.rec.Hold}
	a.mu.Unlock()
	t := &a.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Writes = t.on
	return t.promise.Give(q, s, sinceBoot()), nil
}
