package postgres

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// WatchState is what a cluster manager must not forget.
type WatchState struct {
	Created    bool           `json:"created"`            // Ensure was called
	HADesired  bool           `json:"haDesired"`          // failover is wanted
	Off        bool           `json:"off,omitempty"`      // but switched off
	Until      time.Time      `json:"until,omitzero"`     // end of Off; zero: without an end
	SameNode   bool           `json:"sameNode,omitempty"` // a reader on the writer's node may take over
	Durability string         `json:"durability,omitempty"`
	Version    int64          `json:"version"` // version of the membership
	Members    []WatchMember  `json:"members,omitempty"`
	Leaving    []formerMember `json:"leaving,omitempty"`
	Writer     string         `json:"writer,omitempty"` // the newest writer that was granted
	Fenced     []string       `json:"fenced,omitempty"` // stopped by this manager, to become followers again
	Sync       SyncState      `json:"sync,omitzero"`
}

// WatchMember is a member with the URL of its agent.
type WatchMember struct {
	port.Member
	Agent string `json:"agent"`
}

func (m WatchMember) engine() Upstream { return Upstream{Name: m.Name, Host: m.Address, Port: m.Port} }

// formerMember is a former member that a writer may still count as having a commit.
type formerMember struct {
	Name    string `json:"name"`
	Version int64  `json:"version"` // version of the first membership without it
}

// SyncState is the list of readers of which one has each answered commit.
//
// The writer works with Want. A failover must ask Names: it is longer while the writer may still
// use an older list, and until one reader of the new list has caught up with what only others had.
type SyncState struct {
	Epoch     int64                `json:"epoch,omitempty"`
	Names     []string             `json:"names,omitempty"`
	Want      []string             `json:"want,omitempty"`
	Confirmed time.Time            `json:"confirmed,omitzero"` // since when the writer uses Want
	Mark      uint64               `json:"mark,omitempty"`     // position of the writer after Confirmed
	Safe      bool                 `json:"safe,omitempty"`     // each answered commit is on one of Names
	Last      map[string]time.Time `json:"last,omitempty"`     // when each reader last streamed
}

// HA reports whether the manager fails over now.
func (s WatchState) HA(now time.Time) bool {
	return s.HADesired && (!s.Off || !s.Until.IsZero() && !now.Before(s.Until))
}

// dropAfter is how long a reader may not stream before the list drops it.
const dropAfter = 5 * time.Second

// settleIn is how long the processes of an engine may take to read its configuration.
const settleIn = 500 * time.Millisecond

func (s WatchState) member(name string) (WatchMember, bool) {
	i := slices.IndexFunc(s.Members, func(m WatchMember) bool { return m.Name == name })
	if i < 0 {
		return WatchMember{}, false
	}
	return s.Members[i], true
}

func (s WatchState) names() []string {
	names := make([]string, len(s.Members))
	for i, m := range s.Members {
		names[i] = m.Name
	}
	slices.Sort(names)
	return names
}

// all returns everyone whom a writer with an unknown list may count: members and former members,
// without the writer.
func (s WatchState) all(writer string) []string {
	names := s.names()
	for _, l := range s.Leaving {
		names = append(names, l.Name)
	}
	return without(uniq(names), writer)
}

func (s WatchState) membership() Membership {
	m := Membership{Version: s.Version, Durability: s.Durability, Names: s.names(), Epoch: s.Sync.Epoch, Sync: s.Sync.Want}
	for _, member := range s.Members {
		m.Peers = append(m.Peers, lease.Peer{Name: member.Name, Node: member.Node, Agent: member.Agent})
	}
	return m
}

// located returns the state with the nodes that the agents have reported: a pod may have moved.
func (s WatchState) located(t tick) WatchState {
	s.Members = slices.Clone(s.Members)
	for i, m := range s.Members {
		if node := t.seen[m.Name].Node; node != "" && node != m.Node {
			s.Members[i].Node = node
			s.Version++
		}
	}
	return s
}

// tick is the observation of one round.
type tick struct {
	now   time.Time
	grant lease.Grant
	seen  map[string]AgentStatus // statuses of those that answered
}

// writer reports whether the holder of the grant writes.
func (t tick) writer() (AgentStatus, bool) {
	s, ok := t.seen[t.grant.Writer]
	return s, ok && s.Ready && s.Role == port.Primary && s.Epoch == t.grant.Epoch
}

// tooMany returns the writers besides the one with the newest epoch.
func (t tick) tooMany() []string {
	var writers []string
	for name, s := range t.seen {
		if s.Role == port.Primary {
			writers = append(writers, name)
		}
	}
	slices.SortFunc(writers, func(a, b string) int { // the right one first
		switch x, y := t.seen[a].Epoch, t.seen[b].Epoch; {
		case x != y:
			return int(y - x)
		case a == t.grant.Writer:
			return -1
		case b == t.grant.Writer:
			return 1
		}
		return 0
	})
	if len(writers) < 2 {
		return nil
	}
	return writers[1:]
}

// synced returns the state after a round with a healthy writer. The list grows before the writer
// uses it, and shrinks after one of the remaining readers has everything.
func (s WatchState) synced(t tick) WatchState {
	writer := t.grant.Writer
	readers := without(s.names(), writer)
	sync := s.Sync
	if sync.Epoch != t.grant.Epoch {
		sync = SyncState{Epoch: t.grant.Epoch, Names: s.all(writer), Want: readers, Last: map[string]time.Time{}}
		for _, name := range readers {
			sync.Last[name] = t.now
		}
		s.Version++
	}
	last := map[string]time.Time{}
	for _, name := range readers {
		if r, ok := t.seen[name]; ok && r.Streaming && r.Upstream == writer {
			last[name] = t.now
		} else if at, ok := sync.Last[name]; ok {
			last[name] = at
		}
	}
	sync.Last = last

	want := slices.DeleteFunc(slices.Clone(readers), func(name string) bool { return !last[name].Equal(t.now) })
	if len(want) > 0 { // with those that paused a moment ago
		for _, name := range sync.Want {
			if at, ok := last[name]; ok && t.now.Sub(at) < dropAfter {
				want = append(want, name)
			}
		}
	} else if want = intersect(sync.Want, readers); len(want) == 0 { // none streams: commits wait
		want = readers
	}
	want = uniq(want)
	if !slices.Equal(want, sync.Want) {
		if len(sync.Want) == 0 || len(want) == 0 {
			sync.Safe = false // from now on a commit may be on no reader
		}
		sync.Want, sync.Confirmed, sync.Mark = want, time.Time{}, 0
		sync.Names = uniq(append(slices.Clone(sync.Names), want...))
		s.Version++
	}

	w := t.seen[writer]
	inUse := w.Members == s.Version && slices.Equal(uniq(w.Sync), sync.Want)
	switch {
	case !inUse:
	case sync.Confirmed.IsZero():
		sync.Confirmed = t.now
	case t.now.Sub(sync.Confirmed) < settleIn: // its processes read the new list one by one
	case len(sync.Want) == 0:
		sync.Names, sync.Safe = nil, true
	case sync.Mark == 0:
		sync.Mark = w.Position
	default:
		if slices.ContainsFunc(sync.Want, func(name string) bool {
			r := t.seen[name]
			return r.Streaming && r.Upstream == writer && r.Received >= sync.Mark
		}) {
			sync.Names, sync.Safe = sync.Want, true
		}
	}
	s.Sync, s.Writer = sync, writer
	return s
}

// settled drops former members that no member counts any more.
func (s WatchState) settled(t tick) WatchState {
	s.Leaving = slices.DeleteFunc(slices.Clone(s.Leaving), func(l formerMember) bool {
		return !slices.ContainsFunc(s.Members, func(m WatchMember) bool {
			seen, ok := t.seen[m.Name]
			return !ok || seen.Members < l.Version
		})
	})
	return s
}

// unsafe returns why a failover now could lose answered rows; empty: it cannot.
func (s WatchState) unsafe(t tick, usable func(AgentStatus) bool) (missing []string, why string) {
	if s.Durability == Available {
		return nil, ""
	}
	sync := s.Sync
	if sync.Epoch != t.grant.Epoch {
		return s.all(s.Writer), "the writer of this epoch was never seen with its readers"
	}
	for _, name := range sync.Names {
		if r, ok := t.seen[name]; !ok || !usable(r) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return missing, "each of them may be the only one with a commit"
	case !sync.Safe:
		return sync.Names, "none of them had caught up with the writer yet"
	case len(sync.Names) == 0:
		return without(s.names(), s.Writer), "the writer waited for no reader"
	}
	return nil, ""
}

// ahead compares how far two readers have received.
func ahead(a, b AgentStatus) int {
	switch {
	case a.Timeline != b.Timeline:
		return int(a.Timeline - b.Timeline)
	case a.Received > b.Received:
		return 1
	case a.Received < b.Received:
		return -1
	}
	return 0
}

func uniq(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(n string) bool { return !slices.Contains(b, n) })
}
