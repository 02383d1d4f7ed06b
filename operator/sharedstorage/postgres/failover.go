package postgres

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// unhealthy handles a round without a healthy writer.
func (w *Watcher) unhealthy(ctx context.Context, t tick) error {
	if err := w.change(ctx, func(s *WatchState) {
		*s = s.settled(t).located(t)
		if t.grant.Writer != "" {
			s.Writer = t.grant.Writer
		}
	}); err != nil {
		return err
	}
	w.mu.Lock()
	s := w.state
	w.mu.Unlock()
	w.push(ctx, s, t)
	down := port.WriterUnhealthy.Errorf("%s does not write under epoch %d: %s", lease.Named(t.grant.Writer), t.grant.Epoch, condition(t))
	if !s.HA(t.now) {
		return down
	}
	if seen, ok := t.seen[t.grant.Writer]; ok && seen.Installed && (seen.Role == port.Follower || w.misses > 1) && seen.Wanted {
		// It has the grant and does not write: a failover or switch ended between grant and
		// promotion.
		if m, ok := s.member(t.grant.Writer); ok {
			if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "promote", promoteCall{t.grant.Epoch, w.sighting()}); err != nil {
				w.log.Warn("promoting", "name", m.Name, "err", err)
			}
		}
	}
	if w.misses < w.cfg.Misses {
		return down
	}
	if err := w.failOver(ctx, s, t); err != nil {
		return err
	}
	w.misses = 0 // the new one gets its time
	return down
}

func condition(t tick) string {
	seen, ok := t.seen[t.grant.Writer]
	switch {
	case t.grant.Writer == "":
		return "nobody has the grant"
	case !ok:
		return "its agent does not answer"
	case !seen.Running:
		return strings.TrimSpace("its engine does not run " + seen.Message)
	case !seen.Ready:
		return "its engine does not answer"
	case seen.Role != port.Primary:
		return "it is a follower still"
	}
	return fmt.Sprintf("it writes under epoch %d", seen.Epoch)
}

// failOver gives the grant to the most advanced reader. It never loses an answered row, wherever
// it is interrupted and however often it is repeated:
//
//  1. every reader that may be the only one with a commit answers;
//  2. the grant is revoked from the writer;
//  3. the readers receive from nobody: each answered commit is on one of them by now;
//  4. the one with the most log gets the grant, under a new epoch, and is promoted.
//     Its agent waits until the lease of the old writer has ended.
func (w *Watcher) failOver(ctx context.Context, s WatchState, t tick) error {
	old := s.Writer
	usable := func(r AgentStatus) bool { return r.Ready && r.Role == port.Follower && !r.Ahead }
	if missing, why := s.unsafe(t, usable); why != "" {
		if t.grant.Writer == "" && t.seen[old].Installed { // its grant was revoked before: it may go on, since it has everything
			return w.grantAndPromote(ctx, old, t.grant.Epoch)
		}
		return port.FailoverUnsafe.Errorf("no failover from %s: %s cannot be asked or trusted, and %s", lease.Named(old), strings.Join(missing, ", "), why).With("readers", missing)
	}
	var readers []string
	for _, m := range s.Members {
		if r, ok := t.seen[m.Name]; ok && m.Name != old && usable(r) {
			readers = append(readers, m.Name)
		}
	}
	if _, err := w.elect(s, old, readers, t.seen); err != nil {
		return err
	}
	w.log.Warn("failing over", "from", old, "epoch", t.grant.Epoch, "readers", readers)
	if err := w.revoke(ctx, t.grant); err != nil {
		return err
	}
	if seen, ok := t.seen[old]; ok && seen.Running {
		if err := w.change(ctx, func(s *WatchState) { s.Fenced = uniq(append(s.Fenced, old)) }); err != nil {
			return err
		}
		w.stop(ctx, s, []string{old})
	}
	held, err := w.hold(ctx, s, readers)
	if err != nil {
		return err
	}
	if missing, why := s.unsafe(tick{now: t.now, grant: t.grant, seen: held}, usable); why != "" {
		return port.FailoverUnsafe.Errorf("no failover from %s: %s ended while it was asked, and %s", lease.Named(old), strings.Join(missing, ", "), why).With("readers", missing)
	}
	best, err := w.elect(s, old, readers, held)
	if err != nil {
		return err
	}
	if err := w.complete(ctx, s, best, held); err != nil {
		return err
	}
	if err := w.grantAndPromote(ctx, best, t.grant.Epoch); err != nil {
		return err
	}
	w.tasks.Go(func() {
		w.followPromoted(w.running, s, best, t.grant.Epoch+1, without(slices.Sorted(maps.Keys(held)), best))
	})
	return nil
}

// followPromoted points the readers that a failover holds to the new writer as soon as it writes: with
// strict it answers no commit before one of them follows, and a round may take a second.
func (w *Watcher) followPromoted(ctx context.Context, s WatchState, name string, epoch int64, readers []string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // after that the rounds do it
	defer cancel()
	writer, ok := s.member(name)
	if !ok {
		return
	}
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		st, err := callAgent[AgentStatus](ctx, w, writer, http.MethodGet, "status", nil)
		if err == nil && st.Ready && st.Role == port.Primary && st.Epoch == epoch {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
	parallel(readers, func(reader string) {
		if m, ok := s.member(reader); ok {
			if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "follow", followCall{writer.engine()}); err != nil {
				w.log.Warn("pointing a follower to the new writer", "follower", reader, "err", err)
			}
		}
	})
	w.wake()
}

// apartBytes is how much log a reader may have to get from another one, before it takes over because
// it stands apart from the writer.
const apartBytes = 16 << 20

// elect chooses a reader on another node than the writer's, or, if the spec allows it and there is
// none, on the same node. Of those on other nodes it chooses the one that stands apart from the
// writer in the most keys of the spread, and of equal ones the one with the most log; the spread
// counts only as far as apartBytes.
func (w *Watcher) elect(s WatchState, old string, readers []string, seen map[string]AgentStatus) (string, error) {
	from, _ := s.member(old)
	best, beside, most := "", "", ""
	for _, name := range readers {
		m, _ := s.member(name)
		r, ok := seen[name]
		switch {
		case !ok:
		case from.Node != "" && m.Node == from.Node:
			if beside == "" || ahead(r, seen[beside]) > 0 {
				beside = name
			}
		case most == "" || ahead(r, seen[most]) > 0:
			most = name
		}
	}
	apart := -1
	for _, name := range readers {
		m, _ := s.member(name)
		r, ok := seen[name]
		if !ok || from.Node != "" && m.Node == from.Node || r.Timeline != seen[most].Timeline || r.Received+apartBytes < seen[most].Received {
			continue
		}
		if n := from.Domain.Apart(m.Domain); n > apart || n == apart && ahead(r, seen[best]) > 0 {
			best, apart = name, n
		}
	}
	if best == "" && s.SameNode {
		best = beside
	}
	if best == "" {
		return "", port.FailoverUnsafe.Errorf("no failover from %s: no reader on another node than %s can take over", lease.Named(old), lease.Named(from.Node)).With("readers", readers)
	}
	return best, nil
}

// revoke revokes the grant, unless failover was switched off meanwhile.
func (w *Watcher) revoke(ctx context.Context, g lease.Grant) error {
	if g.Writer == "" {
		return nil
	}
	return w.grant(ctx, "", g.Epoch)
}

// grant changes the grant under the lock that SetHA needs. So once the call that switches failover
// off has returned, no failover grants anything.
func (w *Watcher) grant(ctx context.Context, writer string, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.state.HA(time.Now()) {
		return port.WriterUnhealthy.Errorf("failover was turned off while it was under way")
	}
	if err := w.grants.Grant(ctx, writer, epoch); err != nil || writer == "" {
		return err
	}
	return w.changeLocked(ctx, func(s *WatchState) {
		s.Writer = writer
		s.Fenced = without(s.Fenced, writer)
	})
}

// hold makes readers receive from nobody, and returns how far they are.
func (w *Watcher) hold(ctx context.Context, s WatchState, readers []string) (map[string]AgentStatus, error) {
	parallel(readers, func(name string) {
		m, _ := s.member(name)
		if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "hold", nil); err != nil {
			w.log.Warn("holding a reader", "name", name, "err", err)
		}
	})
	var held map[string]AgentStatus
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		held = w.requestStatuses(ctx, s, readers)
		for name, r := range held {
			if !r.Held {
				delete(held, name)
			}
		}
		if len(held) == len(readers) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-every.C:
		}
	}
	return held, nil
}

// complete lets the chosen reader catch up with a reader that has more log and must not be chosen
// itself.
func (w *Watcher) complete(ctx context.Context, s WatchState, best string, held map[string]AgentStatus) error {
	most := best
	for name, r := range held {
		if ahead(r, held[most]) > 0 {
			most = name
		}
	}
	if most == best {
		return nil
	}
	from, _ := s.member(most)
	m, _ := s.member(best)
	w.log.Info("catching up before the failover", "name", best, "with", most, "bytes", held[most].Received-held[best].Received)
	if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "follow", followCall{from.engine()}); err != nil {
		return err
	}
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if r, ok := w.requestStatuses(ctx, s, []string{best})[best]; ok && ahead(r, held[most]) >= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
	return port.FailoverUnsafe.Errorf("%s has not caught up with %s, which has more and is not to be the writer", best, most).With("readers", []string{most})
}

// grantAndPromote grants and promotes. The next round completes what this one does not reach.
func (w *Watcher) grantAndPromote(ctx context.Context, name string, epoch int64) error {
	if err := w.grant(ctx, name, epoch+1); err != nil {
		return err
	}
	w.mu.Lock()
	m, ok := w.state.member(name)
	w.mu.Unlock()
	if !ok {
		return port.SwitchRefused.Errorf("%s left while it was to become the writer", name)
	}
	w.log.Warn("a new writer", "name", name, "epoch", epoch+1)
	if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "promote", promoteCall{epoch + 1, w.sighting()}); err != nil {
		w.log.Warn("promoting", "name", name, "err", err)
	}
	return nil
}
