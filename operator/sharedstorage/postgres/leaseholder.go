package postgres

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// leaseHolder returns what keeps the lease of this instance.
func (a *Agent) leaseHolder() *lease.Holder {
	return lease.New(lease.Options{
		Name: a.name, Node: a.cfg.Node, Dir: a.srv.dir, Lease: time.Duration(a.cfg.Lease), Failsafe: time.Duration(a.cfg.Failsafe),
		Command: a.cfg.Command, Grants: a.grants, Log: a.log,
		Agent: lease.Agent{
			Engine: a.engine,
			Freed:  a.wake,
			Child:  a.srv.children.Go,
			Fenced: func(err error) { a.retryAfter(err, 0) },
			Adopt:  func(epoch int64) error { return a.change(func(r *record) { r.Epoch = epoch }) },
			State: func() (int64, bool) {
				a.mu.Lock()
				defer a.mu.Unlock()
				return max(a.rec.Epoch, a.rec.Promote, a.rec.Members.Epoch), a.rec.Hold
			},
			Members: func() ([]string, []lease.Peer) {
				a.mu.Lock()
				defer a.mu.Unlock()
				return a.rec.Members.Names, a.rec.Members.Peers
			},
			Ask: func(ctx context.Context, p lease.Peer, q failsafe.Question) (failsafe.Answer, error) {
				return request[failsafe.Answer](ctx, a.peers.For(port.InstanceIdentity(a.cfg.Cluster.Of(p.Name))), p.Agent+"/v1/confirm", a.token.keys(), http.MethodPost, q)
			},
		},
	})
}

// believe uses what the manager knows of the lease.
func (a *Agent) believe(s *lease.Sighting) {
	if witness, ok := a.grants.(lease.Witness); ok && s != nil && s.Age >= 0 {
		witness.Believe(*s, time.Now())
	}
}
