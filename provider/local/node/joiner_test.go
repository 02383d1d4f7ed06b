package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// joinerTest runs a joiner with fake control nodes.
type joinerTest struct {
	mu     sync.Mutex
	began  time.Time
	accept map[string]bool // "control token" that is accepted
	down   map[string]bool // controls that do not answer
	lines  []string        // events with their times
	kept   string
	where  joinTarget
	turn   chan struct{}
}

type fakeControl struct {
	s       *joinerTest
	control string
}

func (s *joinerTest) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%s ", time.Since(s.began))+fmt.Sprintf(format, args...))
}

func (d fakeControl) join(_ context.Context, token string, _ Member) (joinAnswer, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	switch {
	case d.s.down[d.control]:
		d.s.note("%s is down", d.control)
		return joinAnswer{}, errors.New("connection refused")
	case !d.s.accept[d.control+" "+token]:
		d.s.note("%s refuses %s", d.control, token)
		return joinAnswer{}, errStrict
	}
	d.s.note("%s takes %s", d.control, token)
	d.s.accept[d.control+" lease@"+d.control] = true
	return joinAnswer{Lease: "lease@" + d.control}, nil
}

func (d fakeControl) leave(ctx context.Context, token string, _ Member) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.note("%s is left by %s", d.control, token)
	return ctx.Err()
}

func (d fakeControl) close() {}

// unseen makes a change without waking the joiner; set also wakes it.
func (s *joinerTest) unseen(change func()) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		change()
	}
}

func (s *joinerTest) set(change func()) func() {
	return func() {
		s.unseen(change)()
		notify(s.turn)
	}
}

// A worker joins with the token, renews every 10 s with its lease, is not ready after 30 s
// of silence, and rejoins after each change.
func TestJoiner(t *testing.T) {
	for name, c := range map[string]struct {
		lease  string
		plan   func(s *joinerTest) map[time.Duration]func()
		length time.Duration
		want   string
	}{
		"joins, renews and leaves": {
			plan:   func(*joinerTest) map[time.Duration]func() { return nil },
			length: 25 * time.Second,
			want: `0s c1 takes token
0s ready
10s c1 takes lease@c1
20s c1 takes lease@c1
25s c1 is left by lease@c1`,
		},
		"its lease outlives a restart": {
			lease: "lease@c1",
			plan: func(s *joinerTest) map[time.Duration]func() {
				s.accept = map[string]bool{"c1 lease@c1": true}
				return nil
			},
			length: 5 * time.Second,
			want:   "0s c1 takes lease@c1\n0s ready\n5s c1 is left by lease@c1",
		},
		"the token is used up: the token derived from the credential": {
			lease: "lease@c0",
			plan: func(s *joinerTest) map[time.Duration]func() {
				s.accept = map[string]bool{"c1 hash": true}
				return nil
			},
			length: 5 * time.Second,
			want:   "0s c1 refuses lease@c0\n0s c1 refuses token\n0s c1 takes hash\n0s ready\n5s c1 is left by lease@c1",
		},
		"no control node is known": {
			plan: func(s *joinerTest) map[time.Duration]func() {
				s.where = joinTarget{}
				return map[time.Duration]func(){4 * time.Second: s.set(func() { s.where = joinTarget{control: "c1", caHash: "x"} })}
			},
			length: 5 * time.Second,
			want:   "0s WaitsForControl\n4s c1 takes token\n4s ready\n5s c1 is left by lease@c1",
		},
		"silence of the control node": {
			plan: func(s *joinerTest) map[time.Duration]func() {
				return map[time.Duration]func(){15 * time.Second: s.unseen(func() { s.down["c1"] = true }), 70 * time.Second: s.unseen(func() { s.down["c1"] = false })}
			},
			length: 85 * time.Second,
			// the newest renewal was at 10 s: ready until 40 s, and the next check is at 50 s
			want: `0s c1 takes token
0s ready
10s c1 takes lease@c1
20s c1 is down
21s c1 is down
23s c1 is down
27s c1 is down
35s c1 is down
50s c1 is down
50s NotJoined: connection refused
1m5s c1 is down
1m20s c1 takes lease@c1
1m20s ready
1m25s c1 is left by lease@c1`,
		},
		"drain, and its end": {
			plan: func(s *joinerTest) map[time.Duration]func() {
				return map[time.Duration]func(){
					3 * time.Second: s.set(func() { s.where.drain = true }), 7 * time.Second: s.set(func() { s.where.drain = false }),
				}
			},
			length: 8 * time.Second,
			want:   "0s c1 takes token\n0s ready\n3s c1 is left by lease@c1\n3s Draining\n7s c1 takes lease@c1\n7s ready\n8s c1 is left by lease@c1",
		},
		"a new control node": {
			plan: func(s *joinerTest) map[time.Duration]func() {
				s.accept["c2 hash"] = true
				return map[time.Duration]func(){3 * time.Second: s.set(func() { s.where = joinTarget{control: "c2", caHash: "y"} })}
			},
			length: 4 * time.Second,
			want:   "0s c1 takes token\n0s ready\n3s c2 refuses lease@c1\n3s c2 refuses token\n3s c2 takes hash\n4s c2 is left by lease@c2",
		},
		"removed": {
			plan: func(s *joinerTest) map[time.Duration]func() {
				return map[time.Duration]func(){3 * time.Second: s.unseen(func() { clear(s.accept) })}
			},
			length: 10500 * time.Millisecond,
			want:   "0s c1 takes token\n0s ready\n10s c1 refuses lease@c1\n10s c1 refuses token\n10s c1 refuses hash\n10s NotJoined: the token is refused: 401",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &joinerTest{began: time.Now(), accept: map[string]bool{"c1 token": true}, down: map[string]bool{}, where: joinTarget{control: "c1", caHash: "x"}, turn: make(chan struct{}, 1), kept: c.lease}
				for at, do := range c.plan(s) {
					time.AfterFunc(at, do)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.length)
				defer cancel()
				var last string
				j := &joiner{
					times: Times{}.filled(), lease: c.lease, tokens: func() []string { return []string{"token", "hash"} },
					target:    func() joinTarget { s.mu.Lock(); defer s.mu.Unlock(); return s.where },
					dial:      func(p joinTarget) (controlClient, error) { return fakeControl{s, p.control}, nil },
					saveLease: func(lease string) error { s.kept = lease; return nil },
					setReady: func(ready bool, reason string) {
						s.mu.Lock()
						defer s.mu.Unlock()
						if ready {
							reason = "ready"
						}
						if reason != last {
							s.note("%s", reason)
						}
						last = reason
					},
					wake: s.turn, now: time.Now, log: quiet,
				}
				j.run(ctx)
				want := strings.Split(c.want, "\n")
				if !slices.Equal(s.lines, want) {
					t.Errorf("what happened:\n%s\nwant:\n%s", strings.Join(s.lines, "\n"), c.want)
				}
				if s.kept != j.lease {
					t.Errorf("it has the lease %q and has kept %q", j.lease, s.kept)
				}
			})
		})
	}
}
