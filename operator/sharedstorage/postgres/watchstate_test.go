package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

func TestFailoverIsOnOffAndBack(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		s    WatchState
		want bool
	}{
		"not asked for":      {WatchState{}, false},
		"asked for":          {WatchState{HADesired: true}, true},
		"off without an end": {WatchState{HADesired: true, Off: true}, false},
		"off for a while":    {WatchState{HADesired: true, Off: true, Until: now.Add(1)}, false},
		"the while is over":  {WatchState{HADesired: true, Off: true, Until: now}, true},
		"over, not asked":    {WatchState{Off: true, Until: now}, false},
	} {
		if got := c.s.HA(now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTooManyWriters(t *testing.T) {
	writer := func(epoch int64) AgentStatus {
		return AgentStatus{Status: port.Status{Role: port.Primary, Epoch: epoch}}
	}
	for name, c := range map[string]struct {
		seen map[string]AgentStatus
		want []string
	}{
		"one":                     {map[string]AgentStatus{"a": writer(2), "b": {Status: port.Status{Role: port.Follower}}}, nil},
		"the lower epoch":         {map[string]AgentStatus{"a": writer(1), "b": writer(2)}, []string{"a"}},
		"one without the grant":   {map[string]AgentStatus{"a": writer(2), "b": writer(2)}, []string{"b"}},
		"one that nobody allowed": {map[string]AgentStatus{"a": writer(2), "b": writer(0)}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (tick{grant: lease.Grant{Writer: "a", Epoch: 2}, seen: c.seen}).tooMany(); !slices.Equal(got, c.want) {
				t.Errorf("fenced are %v, want %v", got, c.want)
			}
		})
	}
}

// A model of a strict cluster: the writer answers a commit when one reader of its list has it.
// Whenever a failover is called safe, one of the readers that it asks has every answered commit.
func TestASafeFailoverHasEveryAnsweredCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		readers := []string{"b", "c", "d"}
		now := time.Unix(1_000_000, 0)
		s := WatchState{Created: true, HADesired: true, Durability: Strict, Version: 1}
		for _, name := range append([]string{"a"}, readers...) {
			s.add(WatchMember{Member: port.Member{Name: name}})
		}
		grant := lease.Grant{Writer: "a", Epoch: 1}
		log, acked := uint64(100), uint64(0)                      // of the writer; answered
		has := map[string]uint64{"b": 50, "c": 50, "d": 50}       // of the readers
		alive := map[string]bool{"b": true, "c": true, "d": true} // and streaming
		var known Membership                                      // of the writer
		record := record{Epoch: 1}
		answer := func() {
			list := record.sync("a", Strict, nil)
			if len(list) == 0 {
				acked = log
				return
			}
			for _, name := range list {
				acked = max(acked, has[name]) // a commit that one of them has is answered
			}
		}
		seen := func() map[string]AgentStatus {
			all := map[string]AgentStatus{"a": {
				Status:  port.Status{Ready: true, Running: true, Installed: true, Role: port.Primary, Epoch: 1, Position: log, Timeline: 1},
				Members: known.Version, Sync: record.sync("a", Strict, nil),
			}}
			for _, name := range readers {
				if alive[name] {
					all[name] = AgentStatus{
						Status:  port.Status{Ready: true, Running: true, Installed: true, Role: port.Follower, Streaming: true, Upstream: "a", Received: has[name], Timeline: 1},
						Members: s.Version,
					}
				}
			}
			return all
		}
		look := func(after time.Duration) {
			now = now.Add(after)
			tk := tick{now: now, grant: grant, seen: seen()}
			s = s.synced(tk).settled(tk)
		}
		push := func() { known = s.membership(); record.Members = known }
		reader := rapid.SampledFrom(readers)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) { log += rapid.Uint64Range(1, 50).Draw(t, "bytes") },
			"receive": func(t *rapid.T) {
				if name := reader.Draw(t, "reader"); alive[name] {
					has[name] = max(has[name], rapid.Uint64Range(has[name], log).Draw(t, "up to"))
				}
			},
			"fall": func(t *rapid.T) { alive[reader.Draw(t, "reader")] = false },
			"rise": func(t *rapid.T) { alive[reader.Draw(t, "reader")] = true },
			"leave": func(t *rapid.T) {
				name := reader.Draw(t, "reader")
				if _, ok := s.member(name); ok {
					s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m WatchMember) bool { return m.Name == name })
					s.Version++
					s.Leaving = append(slices.Clone(s.Leaving), formerMember{name, s.Version})
				}
			},
			"join": func(t *rapid.T) { s.add(WatchMember{Member: port.Member{Name: reader.Draw(t, "reader")}}) },
			"look": func(t *rapid.T) { look(time.Duration(rapid.Int64Range(1, 6000).Draw(t, "ms")) * time.Millisecond) },
			"push": func(*rapid.T) { push() },
			"rest": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "looks") {
					look(time.Second)
					push()
					answer()
				}
			},
			"": func(t *rapid.T) {
				answer()
				all := seen()
				delete(all, "a")
				if _, why := s.unsafe(tick{now: now, grant: grant, seen: all}, func(AgentStatus) bool { return true }); why != "" {
					return
				}
				best := uint64(0)
				for name := range all {
					if _, ok := s.member(name); ok || slices.Contains(s.Sync.Names, name) {
						best = max(best, has[name])
					}
				}
				if best < acked {
					t.Fatalf("a failover is called safe, and up to %d was answered while the best has %d: %+v", acked, best, s.Sync)
				}
			},
		})
	})
}

// When the last readers leave, the writer answers alone as soon as it knows that. No failover is
// called safe from before that moment on.
func TestNoFailoverIsSafeWhenAllReadersLeave(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := WatchState{Durability: Strict, Sync: SyncState{Epoch: 1, Names: []string{"b"}, Want: []string{"b"}, Confirmed: now, Mark: 1, Safe: true}}
	s.add(WatchMember{Member: port.Member{Name: "a"}})
	at := tick{now: now, grant: lease.Grant{Writer: "a", Epoch: 1}, seen: map[string]AgentStatus{
		"b": {Status: port.Status{Ready: true, Installed: true, Role: port.Follower, Received: 100}},
	}}
	usable := func(AgentStatus) bool { return true }
	if _, why := s.unsafe(at, usable); why != "" {
		t.Fatalf("before: %s", why)
	}
	s = s.synced(at)
	if _, why := s.unsafe(at, usable); why == "" {
		t.Errorf("a failover to one that left is called safe: %+v", s.Sync)
	}
}

// A writer of an epoch that is unknown to the manager waits for all others.
func TestSyncListOfAnAgent(t *testing.T) {
	m := Membership{Version: 4, Durability: Strict, Names: []string{"a", "b", "c"}, Epoch: 2, Sync: []string{"b"}}
	for name, c := range map[string]struct {
		r         record
		receiving []string
		want      []string
	}{
		"as the manager said":    {record{Epoch: 2, Members: m}, nil, []string{"b"}},
		"promoted a moment ago":  {record{Epoch: 3, Members: m}, nil, []string{"b", "c"}},
		"no manager yet":         {record{Epoch: 1}, nil, nil},
		"available, none":        {record{Epoch: 2, Members: Membership{Durability: Available, Names: m.Names}}, nil, nil},
		"available, one streams": {record{Epoch: 2, Members: Membership{Durability: Available, Names: m.Names}}, []string{"c", "stranger"}, []string{"c"}},
	} {
		if got := c.r.sync("a", Strict, c.receiving); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The manager sends the nodes that the agents have reported.
func TestNodesOfMembers(t *testing.T) {
	s := WatchState{Version: 4, Members: []WatchMember{{Member: port.Member{Name: "a", Node: "node-1"}, Agent: "http://a"}, {Member: port.Member{Name: "b", Node: "node-2"}}}}
	at := tick{seen: map[string]AgentStatus{"a": {Node: "node-3"}, "b": {}}}
	next := s.located(at)
	if p := next.membership().Peers[0]; next.Version != 5 || p != (lease.Peer{Name: "a", Node: "node-3", Agent: "http://a"}) || next.Members[1].Node != "node-2" {
		t.Errorf("%+v of version %d", next.Members, next.Version)
	}
	if s.Members[0].Node != "node-1" || next.located(at).Version != 5 {
		t.Error("it changes the old state, or changes again")
	}
}
