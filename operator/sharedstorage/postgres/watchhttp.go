package postgres

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// The calls of a cluster manager.
type (
	ensureCall struct {
		HA         bool          `json:"ha"`
		SameNode   bool          `json:"sameNode,omitempty"`
		Durability string        `json:"durability"`
		Members    []WatchMember `json:"members"`
	}
	removeCall struct {
		Name string `json:"name"`
	}
	haCall struct {
		On  bool          `json:"on"`
		For host.Duration `json:"for,omitzero"` // off for so long, by the clock of the manager; zero: without an end
	}
	// topologyAnswer has the time that is left until Topology.Until: the clocks of two machines
	// differ by more than such a time may be.
	topologyAnswer struct {
		port.Topology
		Left host.Duration `json:"left,omitzero"`
	}
)

func (w *Watcher) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, map[string]string{"cluster": w.cfg.Cluster.String()})
	})
	handle := func(pattern string, do http.HandlerFunc) {
		mux.Handle(pattern, transport.Guard(w.tls, guarded(w.token.keys, do)))
	}
	handle("GET /v1/topology", answer(func(context.Context, nothing) (topologyAnswer, error) { return w.topologyAnswer(), nil }))
	handle("POST /v1/await", answer(w.callAwait))
	handle("POST /v1/ensure", answer(w.callEnsure))
	handle("POST /v1/add", answer(w.callAdd))
	handle("POST /v1/remove", answer(w.callRemove))
	handle("POST /v1/ha", answer(w.callHA))
	return mux
}

// staleAfter is how long a reader may not stream from a writer that writes until no client is sent
// to it.
const staleAfter = 10 * time.Second

// Topology returns the result of the last round.
func (w *Watcher) Topology() port.Topology {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, s, v := time.Now(), w.state, w.view
	top := port.Topology{
		Present: true, Ready: s.Created && !v.at.IsZero() && now.Sub(v.at) < 10*time.Second+5*time.Duration(w.cfg.Every),
		Node: w.cfg.Node, Address: w.cfg.Listen, Version: w.cfg.Version, HA: s.HA(now),
		Writer: v.grant.Writer, Epoch: v.grant.Epoch, Sync: slices.Clone(s.Sync.Names), At: v.at.UTC(), Code: string(v.code), Message: v.message,
		TLS: w.tls.Certificate() != nil, Identity: w.tls.Identity(),
	}
	if s.Durability == Available || !s.Sync.Safe {
		top.Sync = nil // no reader is known to have every commit
	}
	if s.Off && s.HADesired && !top.HA {
		top.Until = s.Until
	}
	if s.Created {
		top.Durability, top.SameNode = s.Durability, s.SameNode
	}
	for _, m := range s.Members {
		top.Members = append(top.Members, m.Member)
		if m.Name != v.grant.Writer && v.writes && v.at.Sub(s.Sync.Last[m.Name]) > staleAfter {
			top.Stale = append(top.Stale, m.Name)
		}
	}
	return top
}

func (w *Watcher) topologyAnswer() topologyAnswer {
	out := topologyAnswer{Topology: w.Topology()}
	if !out.Until.IsZero() {
		out.Left = host.Duration(max(time.Until(out.Until), 1))
	}
	return out
}

func (w *Watcher) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *Watcher) callEnsure(ctx context.Context, in ensureCall) (port.Topology, error) {
	if in.Durability == "" {
		in.Durability = Strict
	}
	err := w.change(ctx, func(s *WatchState) {
		if !s.Created {
			s.Created, s.HADesired, s.Version = true, in.HA, s.Version+1
			for _, m := range in.Members {
				s.add(m)
			}
		}
		s.HADesired, s.SameNode = in.HA, in.SameNode
		if s.Durability != in.Durability {
			s.Durability = in.Durability
			s.Version++
		}
	})
	w.wake()
	return w.Topology(), err
}

// add adds a member or changes its entry.
func (s *WatchState) add(m WatchMember) {
	i := slices.IndexFunc(s.Members, func(o WatchMember) bool { return o.Name == m.Name })
	if i >= 0 && s.Members[i] == m {
		return
	}
	if i >= 0 {
		s.Members[i] = m
	} else {
		s.Members = append(s.Members, m)
		slices.SortFunc(s.Members, func(a, b WatchMember) int { return strings.Compare(a.Name, b.Name) })
	}
	s.Leaving = slices.DeleteFunc(s.Leaving, func(l formerMember) bool { return l.Name == m.Name })
	s.Version++
}

func (w *Watcher) callAdd(ctx context.Context, in WatchMember) (nothing, error) {
	err := w.change(ctx, func(s *WatchState) { s.add(in) })
	w.wake()
	return nothing{}, err
}

func (w *Watcher) callRemove(ctx context.Context, in removeCall) (nothing, error) {
	err := w.change(ctx, func(s *WatchState) {
		if _, ok := s.member(in.Name); !ok {
			return
		}
		s.Members = slices.DeleteFunc(s.Members, func(m WatchMember) bool { return m.Name == in.Name })
		s.Version++
		s.Leaving = append(s.Leaving, formerMember{in.Name, s.Version})
		s.Fenced = without(s.Fenced, in.Name)
	})
	w.wake()
	return nothing{}, err
}

func (w *Watcher) callHA(ctx context.Context, in haCall) (nothing, error) {
	return nothing{}, w.change(ctx, func(s *WatchState) {
		if in.On {
			s.HADesired, s.Off, s.Until = true, false, time.Time{}
			return
		}
		s.Off, s.Until = true, time.Time{}
		if in.For != 0 {
			s.Until = time.Now().Add(time.Duration(in.For)).UTC()
		}
	})
}
