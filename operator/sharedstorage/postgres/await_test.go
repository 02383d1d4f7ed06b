package postgres

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// A caller that waits at the manager hears of a change in the round that sees it, and within
// awaitFor that there is none. What always changes is no change.
func TestAwaitAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watcher{changed: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
		round := func(change func(writer, reader *AgentStatus)) {
			writer := AgentStatus{Name: "a", Status: port.Status{Ready: true, Role: port.Primary, Followers: []string{"b"}}}
			reader := AgentStatus{Name: "b", Status: port.Status{Ready: true, Role: port.Follower, Streaming: true}}
			change(&writer, &reader)
			w.setView(view{at: time.Now(), grant: lease.Grant{Writer: "a", Epoch: 1}, seen: map[string]AgentStatus{"a": writer, "b": reader}})
		}
		ask := func(seen string) (string, time.Duration) {
			began := time.Now()
			out, err := w.callAwait(t.Context(), awaitCall{seen})
			if err != nil {
				t.Fatal(err)
			}
			return out.Seen, time.Since(began)
		}
		round(func(_, _ *AgentStatus) {})
		first, waited := ask("")
		if first == "" || waited != 0 {
			t.Fatalf("the first call: %q after %s", first, waited)
		}
		for what, change := range map[string]func(writer, reader *AgentStatus){
			"nothing":       func(_, _ *AgentStatus) {},
			"the log grows": func(w, r *AgentStatus) { w.Position, r.Position, r.Lag = 100, 90, 10 },
		} {
			time.AfterFunc(time.Second, func() { round(change) })
			if seen, waited := ask(first); seen != first || waited != awaitFor {
				t.Errorf("%s: %q after %s", what, seen, waited)
			}
		}
		for what, change := range map[string]func(writer, reader *AgentStatus){
			"the writer does not answer":         func(w, _ *AgentStatus) { w.Ready = false },
			"the reader does not stream":         func(_, r *AgentStatus) { r.Streaming = false },
			"the writer streams to nobody":       func(w, _ *AgentStatus) { w.Followers = []string{} },
			"no commit is answered":              func(w, _ *AgentStatus) { w.Stalled = true },
			"a reader has an engine that failed": func(_, r *AgentStatus) { r.Code = "DB_START_FAIL" },
		} {
			round(func(_, _ *AgentStatus) {})
			time.AfterFunc(time.Second, func() { round(change) })
			if seen, waited := ask(first); seen == first || waited != time.Second {
				t.Errorf("%s: %q after %s", what, seen, waited)
			}
		}
	})
}

// Only a reader on another node than the writer's takes over, unless the spec lets one on the same
// node do it where there is no other.
func TestElectOnTheWritersNode(t *testing.T) {
	member := func(name, node string) WatchMember { return WatchMember{Member: port.Member{Name: name, Node: node}} }
	at := func(received uint64) AgentStatus { return AgentStatus{Status: port.Status{Received: received}} }
	w := &Watcher{}
	for name, c := range map[string]struct {
		same bool
		node string // of reader c
		want string
	}{
		"one node":                  {false, "node-1", ""},
		"one node, asked for":       {true, "node-1", "b"},
		"another node":              {false, "node-2", "c"},
		"another node is preferred": {true, "node-2", "c"},
	} {
		s := WatchState{SameNode: c.same, Members: []WatchMember{member("a", "node-1"), member("b", "node-1"), member("c", c.node)}}
		got, err := w.elect(s, "a", []string{"b", "c"}, map[string]AgentStatus{"b": at(20), "c": at(10)})
		if got != c.want || (c.want == "") != (fault.Of(err) == port.FailoverUnsafe) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
