package clustertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// agreesWithMemory applies the same random operations to the store and to
// memory.Store: each result must be the same. Only the numbers that a store
// assigns may differ.
func agreesWithMemory(e suite) {
	seed := uint64(time.Now().UnixNano())
	e.Logf("seed %d", seed)
	s := randomTest{suite: e, rand: rand.New(rand.NewPCG(seed, 1)), memory: memory.New(), at: now}
	for range 400 {
		s.at = s.at.Add(time.Duration(s.rand.IntN(4)) * time.Second)
		switch s.rand.IntN(12) {
		case 0, 1:
			s.create()
		case 2, 3, 4, 5, 6:
			s.change()
		case 7:
			s.heartbeat()
		case 8:
			s.prune()
		default:
			s.compareReads()
		}
		if e.Failed() {
			e.Fatalf("seed %d", seed)
		}
	}
	s.compareReads()
}

type randomTest struct {
	suite
	rand    *rand.Rand
	memory  *memory.Store
	at      time.Time
	created int
}

var anyNumbers = []cmp.Option{secrets, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(cluster.Cluster{}, "ID"), cmpopts.IgnoreFields(cluster.Node{}, "ID", "ClusterID"),
	cmpopts.IgnoreFields(cluster.JournalRow{}, "ID", "ClusterID"), cmpopts.IgnoreFields(cluster.Job{}, "ClusterID"), cmpopts.IgnoreFields(cluster.Details{}, "ClusterID")}

func (s *randomTest) same(what string, memory, stored any, errs ...error) {
	s.Helper()
	if len(errs) == 2 && code(errs[0]) != code(errs[1]) {
		s.Errorf("%s: memory returns %v, the store %v", what, errs[0], errs[1])
	}
	if diff := cmp.Diff(memory, stored, anyNumbers...); diff != "" {
		s.Errorf("%s (-memory +store):\n%s", what, diff)
	}
}

// code returns the fault code of an error.
func code(err error) fault.Code {
	if err == nil {
		return ""
	}
	return fault.Of(err).Code
}

func (s *randomTest) pick(n int) string { return fmt.Sprint(s.rand.IntN(n)) }

func (s *randomTest) uuid() string { return "uuid-c" + s.pick(s.created+1) }

func oneOf[T any](s *randomTest, of ...T) T { return of[s.rand.IntN(len(of))] }

// commitBoth commits the same change to both stores.
func (s *randomTest) commitBoth(what string, build func(b *cluster.Record) *cluster.Change, uuid string) {
	s.Helper()
	changes := make([]*cluster.Change, 2)
	for i, records := range []cluster.Store{s.memory, s.store} {
		b, _ := records.Record(s.Context(), uuid)
		if b == nil {
			b = &cluster.Record{}
		}
		changes[i] = build(b)
	}
	memory, stored := s.memory.Commit(s.Context(), changes[0]), s.store.Commit(s.Context(), changes[1])
	s.same(what, changes[0].Events, changes[1].Events, memory, stored)
}

func (s *randomTest) create() {
	name := fmt.Sprint("c", s.created+s.rand.IntN(2)-1) // sometimes an existing name
	s.created++
	at, account, job := s.at, oneOf(s, "amy", "bob"), "j"+s.pick(s.created+5)
	s.commitBoth("create "+name, func(*cluster.Record) *cluster.Change {
		c := newCluster(name)
		c.Created, c.Owner.AccountID, c.State, c.Request = at, account, cluster.Created, &cluster.Request{Kind: cluster.RequestStart, Job: job}
		return &cluster.Change{Cluster: c, Jobs: []*cluster.Job{with(newJob(job), func(j *cluster.Job) { j.Created = at })},
			Details: &cluster.Details{Username: name, Password: "secret"}, Events: []*cluster.Event{{At: at, Type: "cluster"}}}
	}, "uuid-"+name)
}

func (s *randomTest) change() {
	uuid, at := s.uuid(), s.at
	state := oneOf(s, cluster.States...)
	desired := oneOf(s, cluster.WantRunning, cluster.WantStopped, cluster.WantDestroyed)
	key, phase := "k"+s.pick(6), oneOf(s, cluster.Intent, cluster.Present, cluster.Gone, cluster.Leaked)
	stale, touch, alarm, clear, withRequest, status := s.rand.IntN(10) == 0, s.rand.IntN(3) > 0, s.rand.IntN(4) == 0, s.rand.IntN(2) == 0, s.rand.IntN(5) == 0, s.rand.IntN(3)
	job := "j" + s.pick(s.created+5)
	kind := oneOf(s, "cluster", "drift", "leak")
	s.commitBoth("change "+uuid, func(b *cluster.Record) *cluster.Change {
		c := &cluster.Change{ClusterID: b.Cluster.ID, Events: []*cluster.Event{{At: at, Type: kind}}}
		if touch && b.Cluster.ID != 0 {
			n := &b.Cluster
			n.State, n.StateSince, n.Desired, n.Alarm, n.GCNext, n.RecoverNext, n.Removed = state, at, desired, alarm, time.Time{}, time.Time{}, time.Time{}
			if clear {
				n.Request = nil
			}
			if withRequest {
				n.Request, n.GCNext, n.RecoverNext = &cluster.Request{Kind: cluster.RequestScale}, at.Add(5*time.Second), at.Add(time.Second)
			}
			if state == cluster.Destroyed {
				n.Removed = at
			}
			if stale {
				n.Revision--
			}
			c.Cluster = n
		}
		known := false
		for i := range b.Journal {
			if r := &b.Journal[i]; r.Key == key && !stale {
				r.Phase, r.Attempts, known = phase, r.Attempts+1, true
				c.Journal = append(c.Journal, r)
			}
		}
		if !known {
			c.Journal = append(c.Journal, with(newRow(key), func(r *cluster.JournalRow) { r.IntentAt, r.Phase = at, phase }))
		}
		switch {
		case len(b.Nodes) > 3:
			c.Nodes = append(c.Nodes, with(&b.Nodes[0], func(n *cluster.Node) { n.Removed = at }))
		case len(b.Nodes) > 1 && clear:
			c.Nodes = append(c.Nodes, with(&b.Nodes[1], func(n *cluster.Node) { n.VMID = key }))
		default:
			c.Nodes = append(c.Nodes, &cluster.Node{Name: "n" + key, Role: cluster.Worker})
		}
		if withRequest || alarm {
			c.Jobs = append(c.Jobs, with(newJob(job), func(j *cluster.Job) {
				if j.Created = at; status > 0 {
					j.Status, j.Completed = cluster.JobStatus(status), at
				}
			}))
		}
		return c
	}, uuid)
}

func (s *randomTest) heartbeat() {
	uuid, at, ready := s.uuid(), s.at.Add(-time.Duration(s.rand.IntN(5))*time.Second), s.rand.IntN(2) == 0
	var errs []error
	for _, records := range []cluster.Store{s.memory, s.store} {
		var heartbeats []cluster.NodeHeartbeat
		if b, err := records.Record(s.Context(), uuid); err == nil {
			for _, n := range b.Nodes {
				heartbeats = append(heartbeats, cluster.NodeHeartbeat{NodeID: n.ID, At: at, Ready: ready})
			}
		}
		errs = append(errs, records.Heartbeats(s.Context(), heartbeats))
	}
	s.same("heartbeat", nil, nil, errs...)
}

func (s *randomTest) prune() {
	keep := cluster.Retention{Clusters: 40 * time.Second, Jobs: 60 * time.Second, Events: 90 * time.Second}
	m, merr := s.memory.Prune(s.Context(), s.at, keep)
	l, lerr := s.store.Prune(s.Context(), s.at, keep)
	s.same("prune", m, l, merr, lerr)
}

// compareReads compares the results of all read methods.
func (s *randomTest) compareReads() {
	scope := oneOf(s, everyone, cluster.Scope{AccountID: "amy"}, cluster.Scope{DomainIDs: []string{"east"}}, cluster.Scope{AccountID: "bob", DomainIDs: []string{"west"}})
	q := cluster.ClusterQuery{Scope: scope, WithDestroyed: s.rand.IntN(2) == 0, NewestFirst: s.rand.IntN(2) == 0, Limit: s.rand.IntN(5), Offset: s.rand.IntN(3)}
	switch s.rand.IntN(4) {
	case 0:
		q.State = oneOf(s, cluster.States...)
	case 1:
		q.Name = s.pick(10)
	case 2:
		q.Keyword = "C" + s.pick(3)
	}
	rows := cluster.RowQuery{Limit: s.rand.IntN(6), Offset: s.rand.IntN(3)}
	if s.rand.IntN(2) == 0 {
		rows.Phases = []cluster.Phase{cluster.Leaked, cluster.Present}
	}
	if s.rand.IntN(3) == 0 {
		rows.Cluster = s.uuid()
	}
	jobs := cluster.JobQuery{Scope: scope, OnlyOpen: s.rand.IntN(2) == 0, Limit: s.rand.IntN(6), Offset: s.rand.IntN(2)}
	events := cluster.EventQuery{Scope: scope, Limit: s.rand.IntN(8), Types: oneOf(s, nil, []string{"drift"})}
	scan := cluster.ScanQuery{States: oneOf(s, nil, []machine.State{cluster.Alert, cluster.Running, cluster.Destroyed})}
	uuid, account := s.uuid(), oneOf(s, "amy", "bob")

	answers := make([][]any, 2)
	for i, l := range []cluster.Store{s.memory, s.store} {
		add := func(what string, got any, err error) {
			answers[i] = append(answers[i], what, got, code(err))
		}
		ctx := s.Context()
		b, err := l.Record(ctx, uuid)
		add("record", b, err)
		d, err := l.Details(ctx, uuid)
		add("details", d, err)
		list, n, err := l.List(ctx, q)
		add("list", []any{list, n}, err)
		var records []cluster.Record
		err = l.Scan(ctx, scan, func(b *cluster.Record) error { records = append(records, *b); return nil })
		add("scan", records, err)
		uuids, err := l.Unsettled(ctx, s.at, 7)
		add("unsettled", uuids, err)
		some, n, err := l.Jobs(ctx, jobs)
		add("jobs", []any{some, n}, err)
		seen, err := l.Events(ctx, events)
		add("events", seen, err)
		owned, n, err := l.Rows(ctx, rows)
		add("rows", []any{owned, n}, err)
		usage, err := l.Usage(ctx, cluster.Owner{AccountID: account})
		add("usage", usage, err)
	}
	s.same("answers", answers[0], answers[1])
}
