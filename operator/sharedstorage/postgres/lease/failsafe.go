package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Peer is a member as another agent reaches it.
type Peer struct {
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"` // as its agent has reported; empty: not known
	Agent string `json:"agent"`          // URL
}

// identity returns the identity of this instance; empty: it takes no part in the failsafe.
func (k *Holder) identity() string { return failsafe.Identity(k.o.Name, k.o.Node) }

// recorded returns what to record with the next lease: all members, or only this instance if it
// cannot ask them all.
func (k *Holder) recorded() (*failsafe.Recorded, map[string]Peer) {
	own := k.identity()
	if own == "" {
		return nil, nil
	}
	names, all := k.o.Agent.Members()
	stops := &failsafe.Recorded{Members: []string{own}}
	r, peers := &failsafe.Recorded{For: k.o.Failsafe}, map[string]Peer{}
	for _, name := range names {
		i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name && p.Node != "" })
		if i < 0 {
			return stops, nil
		}
		identity := failsafe.Identity(name, all[i].Node)
		r.Members, peers[identity] = append(r.Members, identity), all[i]
	}
	if r.For <= 0 || !r.Names(own) {
		return stops, nil
	}
	slices.Sort(r.Members)
	return r, peers
}

// beginAttempt begins an attempt to take or renew the lease, unless a promise forbids it. holds
// means that this instance has the lease.
func (k *Holder) beginAttempt(now time.Duration, attempt *failsafe.Recorded, peers map[string]Peer) (holds bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wait := k.promise.Take(now); wait > 0 {
		return k.on, port.SwitchRefused.Errorf("%s has promised another writer not to take its place for %s", k.o.Name, wait.Round(time.Millisecond))
	}
	k.holder.Begin(k.on, attempt)
	if k.peers == nil {
		k.peers = map[string]Peer{}
	}
	maps.Copy(k.peers, peers)
	return k.on, nil
}

// goOn lets a writer go on that could not renew its lease, if all members confirm that. Otherwise
// the writer stops at the end of its lease, and the error says why.
func (k *Holder) goOn(ctx context.Context, epoch int64, refused error) error {
	if k.o.Failsafe <= 0 || errors.Is(refused, port.SwitchRefused) { // somebody else has the grant
		return refused
	}
	asked := host.SinceBoot()
	k.mu.Lock()
	members, peers := k.holder.Members(), maps.Clone(k.peers)
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, k.o.Lease/6)
	defer cancel()
	answers := k.askMembers(ctx, epoch, members, peers)

	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.on || k.fenced > 0 || k.epoch != epoch {
		return refused
	}
	r := failsafe.Round{
		Self: k.identity(), Members: k.holder.Members(), Answers: answers, Renewed: k.holder.Renewed(), For: k.o.Failsafe,
		Promise: k.o.Lease - k.margin(), Deadline: k.deadline, Asked: asked, Now: host.SinceBoot(),
	}
	until, why := r.Decide()
	if why == "" {
		why = fault.Message(k.note(until + k.margin()/2))
	}
	if why != "" {
		k.o.Log.Warn("the writer cannot go on without a renewal", "epoch", epoch, "why", why)
		return fmt.Errorf("%w; %s", refused, why)
	}
	if !k.alone {
		k.o.Log.Warn("the writer goes on without a renewal: all members have confirmed", "epoch", epoch, "members", members)
	}
	k.alone, k.deadline = true, until
	return nil
}

// askMembers asks all members at once, and returns the answers in time.
func (k *Holder) askMembers(ctx context.Context, epoch int64, members []string, peers map[string]Peer) map[string]failsafe.Answer {
	var mu sync.Mutex
	var asking sync.WaitGroup
	answers := map[string]failsafe.Answer{}
	for _, identity := range members {
		p, ok := peers[identity]
		if !ok || identity == k.identity() {
			continue
		}
		asking.Go(func() {
			got, err := k.o.Agent.Ask(ctx, p, failsafe.Question{Member: identity, Writer: k.o.Name, Epoch: epoch, For: k.o.Lease})
			if err != nil {
				return // a member that does not answer is missing in the result
			}
			mu.Lock()
			defer mu.Unlock()
			answers[identity] = got
		})
	}
	asking.Wait()
	return answers
}

// Confirm answers the question of a writer that cannot renew its lease.
func (k *Holder) Confirm(q failsafe.Question) failsafe.Answer {
	epoch, held := k.o.Agent.State()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := failsafe.State{Identity: k.identity(), Epoch: epoch, Held: held, Writes: k.on}
	return k.promise.Give(q, s, host.SinceBoot())
}
