package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// awaitFor is how long the manager waits for a change before it answers all the same. A caller that
// hears nothing for longer takes it for frozen.
const awaitFor = 2 * time.Second

type (
	awaitCall struct {
		Seen string `json:"seen"`
	}
	awaitAnswer struct {
		Seen string `json:"seen"`
	}
)

// observation is the part of what a manager observes that the conditions of a cluster depend on.
// Positions and times are not part of it, because they always change.
type observation struct {
	Grant   string                       `json:"grant"`
	Epoch   int64                        `json:"epoch"`
	HA      bool                         `json:"ha"`
	Code    fault.Code                   `json:"code"`
	Sync    []string                     `json:"sync"`
	Safe    bool                         `json:"safe"`
	Members map[string]memberObservation `json:"members"` // those that answer
}

type memberObservation struct {
	Running   bool      `json:"running"`
	Ready     bool      `json:"ready"`
	Role      port.Role `json:"role"`
	Streaming bool      `json:"streaming"`
	Stalled   bool      `json:"stalled"`
	Followers []string  `json:"followers"`
	Code      string    `json:"code"`
	Restart   bool      `json:"restart"`
}

// publish answers those who wait if the round has seen something new. The caller holds w.mu.
func (w *Watcher) publish(v view) {
	s := w.state
	o := observation{Grant: v.grant.Writer, Epoch: v.grant.Epoch, HA: s.HA(v.at), Code: v.code, Sync: s.Sync.Names, Safe: s.Sync.Safe, Members: map[string]memberObservation{}}
	for name, m := range v.seen {
		o.Members[name] = memberObservation{m.Running, m.Ready, m.Role, m.Streaming, m.Stalled, m.Followers, m.Code, m.Restart}
	}
	if digest := short(string(mustJSON(o))); digest != w.digest {
		w.digest = digest
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// callAwait answers when the digest of the last round is not the one that the caller has seen.
func (w *Watcher) callAwait(ctx context.Context, in awaitCall) (awaitAnswer, error) {
	late := time.NewTimer(awaitFor)
	defer late.Stop()
	for {
		w.mu.Lock()
		digest, changed := w.digest, w.changed
		w.mu.Unlock()
		if digest != in.Seen {
			return awaitAnswer{digest}, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return awaitAnswer{digest}, nil
		case <-ctx.Done():
			return awaitAnswer{digest}, ctx.Err()
		}
	}
}
