package clustertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// createClusters stores clusters one after the other; each is created a second
// after the previous one.
func (e suite) createClusters(names ...string) map[string]*cluster.Cluster {
	e.Helper()
	all := map[string]*cluster.Cluster{}
	for i, name := range names {
		all[name] = newCluster(name)
		all[name].Created = now.Add(time.Duration(i) * time.Second)
		e.commit(&cluster.Change{Cluster: all[name]})
	}
	return all
}

func listFilters(e suite) {
	all := e.createClusters("Blue Team", "blue sky", "red", "ÄRGER", "gone")
	change := func(name string, f func(*cluster.Cluster)) {
		f(all[name])
		e.commit(&cluster.Change{Cluster: all[name]})
	}
	change("red", func(c *cluster.Cluster) {
		c.Description, c.Network.ID, c.State = "The BLUE-print", "n1", cluster.Stopped
	})
	change("gone", func(c *cluster.Cluster) { c.State, c.Removed = cluster.Destroyed, now })

	type q = cluster.ClusterQuery
	e.names("all that live", q{}, 4, "Blue Team", "blue sky", "red", "ÄRGER")
	e.names("with destroyed", q{WithDestroyed: true}, 5, "Blue Team", "blue sky", "red", "ÄRGER", "gone")
	e.names("destroyed by state", q{State: cluster.Destroyed}, 1, "gone")
	e.names("state", q{State: cluster.Stopped}, 1, "red")
	e.names("state with destroyed", q{State: cluster.Stopped, WithDestroyed: true}, 1, "red")
	e.names("no such state", q{State: cluster.Alert}, 0)
	e.names("uuid", q{UUID: "uuid-red"}, 1, "red")
	e.names("uuid of a destroyed one", q{UUID: "uuid-gone"}, 0)
	e.names("uuid with destroyed", q{UUID: "uuid-gone", WithDestroyed: true}, 1, "gone")
	e.names("name without case", q{Name: "BLUE"}, 2, "Blue Team", "blue sky")
	e.names("name beyond ASCII", q{Name: "ärg"}, 1, "ÄRGER")
	e.names("exact name", q{Name: "blue sky", ExactName: true}, 1, "blue sky")
	e.names("exact name is exact", q{Name: "Blue sky", ExactName: true}, 0)
	e.names("exact name is whole", q{Name: "blue", ExactName: true}, 0)
	e.names("keyword in name or description", q{Keyword: "blue"}, 3, "Blue Team", "blue sky", "red")
	e.names("keyword not across them", q{Keyword: "redThe"}, 0)
	e.names("keyword and name", q{Keyword: "blue", Name: "sky"}, 1, "blue sky")
	e.names("network", q{Network: "n1"}, 1, "red")
	e.names("account", q{AccountID: "amy"}, 4, "Blue Team", "blue sky", "red", "ÄRGER")
	e.names("other account", q{AccountID: "bob"}, 0)
	e.names("domain", q{DomainIDs: []string{"west", "east"}}, 4, "Blue Team", "blue sky", "red", "ÄRGER")
	e.names("other domain", q{DomainIDs: []string{"west"}}, 0)
}

func listScopes(e suite) {
	for _, o := range []cluster.Owner{{AccountID: "amy", DomainID: "east"}, {AccountID: "bob", DomainID: "east"}, {AccountID: "cid", DomainID: "west"}} {
		c := newCluster(o.AccountID)
		c.Owner = o
		e.commit(&cluster.Change{Cluster: c, Jobs: []*cluster.Job{newJob("job-" + o.AccountID)}, Events: []*cluster.Event{{At: now, Type: "cluster"}}})
	}
	for _, test := range []struct {
		name  string
		scope cluster.Scope
		want  []string
	}{
		{"zero is nothing", cluster.Scope{}, nil},
		{"all", everyone, []string{"amy", "bob", "cid"}},
		{"one account", cluster.Scope{AccountID: "bob"}, []string{"bob"}},
		{"a domain", cluster.Scope{DomainIDs: []string{"east"}}, []string{"amy", "bob"}},
		{"domains", cluster.Scope{DomainIDs: []string{"west", "east"}}, []string{"amy", "bob", "cid"}},
		{"account or domain", cluster.Scope{AccountID: "amy", DomainIDs: []string{"west"}}, []string{"amy", "cid"}},
		{"an empty id is nobody's", cluster.Scope{DomainIDs: []string{""}}, nil},
	} {
		all, n := e.list(cluster.ClusterQuery{Scope: test.scope})
		var got []string
		for _, c := range all {
			got = append(got, c.Name)
		}
		e.equal(test.name+": clusters", test.want, got)
		if n != len(test.want) {
			e.Errorf("%s: total %d, want %d", test.name, n, len(test.want))
		}
		jobs, n, err := e.store.Jobs(e.Context(), cluster.JobQuery{Scope: test.scope})
		if err != nil || n != len(test.want) || len(jobs) != n {
			e.Errorf("%s: %d jobs of %d, %v; want %d", test.name, len(jobs), n, err, len(test.want))
		}
		for _, j := range jobs {
			if !test.scope.Sees(j.Owner) {
				e.Errorf("%s: job of %s", test.name, j.Owner.AccountID)
			}
		}
		if events := e.events(cluster.EventQuery{Scope: test.scope}); len(events) != len(test.want) {
			e.Errorf("%s: %d events, want %d", test.name, len(events), len(test.want))
		}
	}
	// A filter never widens the scope.
	all, n := e.list(cluster.ClusterQuery{Scope: cluster.Scope{AccountID: "bob"}, AccountID: "amy", DomainIDs: []string{"east"}})
	if len(all) > 0 || n > 0 {
		e.Errorf("an account that asks for another's got %d of %d", len(all), n)
	}
}

func listPatterns(e suite) {
	e.createClusters("100%", "100 of them", "a_b", "axb", `back\slash`, "it's")
	type q = cluster.ClusterQuery
	e.names("percent", q{Name: "0%"}, 1, "100%")
	e.names("underscore", q{Keyword: "a_b"}, 1, "a_b")
	e.names("backslash", q{Keyword: `\`}, 1, `back\slash`)
	e.names("quote", q{Name: "'s"}, 1, "it's")
}

func recordNodes(e suite) {
	a := newCluster("a")
	nodes := []*cluster.Node{{Name: "n1", Ordinal: 1}, {Name: "n2", Ordinal: 2}, {Name: "n3", Ordinal: 3}}
	e.commit(&cluster.Change{Cluster: a, Nodes: nodes})
	nodes[1].Removed = now
	e.commit(&cluster.Change{Cluster: a, Nodes: nodes[1:2]})
	e.equal("living nodes", []cluster.Node{*nodes[0], *nodes[2]}, e.record("uuid-a").Nodes)
	a.State, a.Removed = cluster.Destroyed, now
	e.commit(&cluster.Change{Cluster: a})
	if b := e.record("uuid-a"); b.Cluster.State != cluster.Destroyed {
		e.Errorf("a removed cluster reads %s", b.Cluster.State)
	}
}

func nodesOfSeveral(e suite) {
	var ids []int64
	want := map[string][]string{}
	for i := range 600 { // more than a page
		c := newCluster(fmt.Sprint("c", i))
		nodes := []*cluster.Node{{Name: c.Name + "-n1"}, {Name: c.Name + "-n2", Removed: now}, {Name: c.Name + "-n3"}}
		e.commit(&cluster.Change{Cluster: c, Nodes: nodes})
		if i != 1 {
			ids = append(ids, c.ID)
			want[c.Name] = []string{c.Name + "-n1", c.Name + "-n3"}
		}
	}
	nodes, err := e.store.Nodes(e.Context(), ids)
	if err != nil {
		e.Fatal(err)
	}
	got := map[string][]string{}
	for id, list := range nodes {
		for _, n := range list {
			if n.ClusterID != id {
				e.Errorf("node %s of cluster %d stands under %d", n.Name, n.ClusterID, id)
			}
			name, _, _ := strings.Cut(n.Name, "-")
			got[name] = append(got[name], n.Name)
		}
	}
	e.equal("nodes", want, got)
	for _, none := range [][]int64{nil, {4711000}} {
		if nodes, err := e.store.Nodes(e.Context(), none); err != nil || len(nodes) != 0 {
			e.Errorf("nodes of %v: %v %v", none, nodes, err)
		}
	}
}

func reachOfSeveral(e suite) {
	address := func(key, id string, phase cluster.Phase) *cluster.JournalRow {
		row := newRow(key)
		row.Kind, row.ProviderID, row.Phase = cluster.Address, id, phase
		return row
	}
	want := map[int64]cluster.Reach{}
	var ids []int64
	for name, c := range map[string]struct {
		rows []*cluster.JournalRow
		user string
		want cluster.Reach
	}{
		"both":    {[]*cluster.JournalRow{newRow("vm"), address("a", "ip-1", cluster.Present)}, "admin", cluster.Reach{Username: "admin", AddressID: "ip-1"}},
		"user":    {nil, "other", cluster.Reach{Username: "other"}},
		"address": {[]*cluster.JournalRow{address("a", "ip-2", cluster.Closing)}, "", cluster.Reach{AddressID: "ip-2"}},
		"first":   {[]*cluster.JournalRow{address("a", "", cluster.Intent), address("b", "ip-3", cluster.Present), address("c", "ip-4", cluster.Present)}, "", cluster.Reach{AddressID: "ip-3"}},
		"gone":    {[]*cluster.JournalRow{address("a", "ip-5", cluster.Gone), address("b", "ip-6", cluster.Forgotten)}, "", cluster.Reach{}},
		"nothing": {nil, "", cluster.Reach{}},
	} {
		one := newCluster(name)
		change := &cluster.Change{Cluster: one, Journal: c.rows}
		if c.user != "" {
			change.Details = &cluster.Details{Username: c.user, Password: "secret"}
		}
		e.commit(change)
		ids = append(ids, one.ID)
		if c.want != (cluster.Reach{}) {
			want[one.ID] = c.want
		}
	}
	left := newCluster("not-in-query")
	e.commit(&cluster.Change{Cluster: left, Details: &cluster.Details{Username: "admin"}})
	got, err := e.store.Reach(e.Context(), ids)
	if err != nil {
		e.Fatal(err)
	}
	e.equal("reach", want, got)
	if got, err := e.store.Reach(e.Context(), nil); err != nil || len(got) != 0 {
		e.Errorf("reach of none: %v %v", got, err)
	}
}

func scanWhileWriting(e suite) {
	const n = 260 // more than any page
	var ids []int64
	for i := range n {
		c := newCluster(fmt.Sprint("c", i))
		e.commit(&cluster.Change{Cluster: c, Nodes: []*cluster.Node{{Name: "n"}}, Journal: []*cluster.JournalRow{newRow("k1"), newRow("k2")}})
		ids = append(ids, c.ID)
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := e.store.Commit(e.Context(), &cluster.Change{Events: []*cluster.Event{{At: now}}}); err != nil {
				e.Errorf("a write beside the scan: %v", err)
				return
			}
		}
	})
	var seen []int64
	err := e.store.Scan(e.Context(), cluster.ScanQuery{}, func(b *cluster.Record) error {
		seen = append(seen, b.Cluster.ID)
		if len(b.Nodes) != 1 || len(b.Journal) != 2 {
			return fmt.Errorf("cluster %s has %d nodes and %d rows", b.Cluster.Name, len(b.Nodes), len(b.Journal))
		}
		if len(seen)%50 == 0 { // the visitor writes while the scan runs
			b.Cluster.Description = "seen"
			return e.store.Commit(e.Context(), &cluster.Change{Cluster: &b.Cluster})
		}
		return nil
	})
	close(stop)
	all.Wait()
	if err != nil {
		e.Fatal(err)
	}
	if !slices.Equal(seen, ids) {
		e.Errorf("the scan gave %d clusters, want all %d in the order of ids", len(seen), n)
	}
	enough := errors.New("enough")
	if err := e.store.Scan(e.Context(), cluster.ScanQuery{}, func(*cluster.Record) error { return enough }); !errors.Is(err, enough) {
		e.Errorf("the visitor's error became %v", err)
	}
}

func scanSelects(e suite) {
	all := e.createClusters("a", "b", "c", "d", "e")
	change := func(name string, f func(*cluster.Cluster)) {
		f(all[name])
		e.commit(&cluster.Change{Cluster: all[name]})
	}
	change("b", func(c *cluster.Cluster) { c.Provider = "local" })
	change("c", func(c *cluster.Cluster) { c.Zone.ID = "z2" })
	change("d", func(c *cluster.Cluster) { c.State = cluster.Expunge })
	change("e", func(c *cluster.Cluster) { c.State = cluster.Destroyed })
	for _, test := range []struct {
		name string
		q    cluster.ScanQuery
		want []string
	}{
		{"all but destroyed", cluster.ScanQuery{}, []string{"a", "b", "c", "d"}},
		{"provider", cluster.ScanQuery{Provider: "sim"}, []string{"a", "c", "d"}},
		{"zone", cluster.ScanQuery{Zone: "z1"}, []string{"a", "b", "d"}},
		{"provider and zone", cluster.ScanQuery{Provider: "sim", Zone: "z1"}, []string{"a", "d"}},
		{"states", cluster.ScanQuery{States: []machine.State{cluster.Expunge, cluster.Destroyed}}, []string{"d", "e"}},
		{"ids", cluster.ScanQuery{IDs: []int64{all["c"].ID, 99_999, all["a"].ID, all["e"].ID}}, []string{"a", "c"}},
		{"after", cluster.ScanQuery{AfterID: all["b"].ID}, []string{"c", "d"}},
	} {
		var got []string
		if err := e.store.Scan(e.Context(), test.q, func(b *cluster.Record) error { got = append(got, b.Cluster.Name); return nil }); err != nil {
			e.Fatal(err)
		}
		e.equal(test.name, test.want, got)
	}
}

func unsettledExact(e suite) {
	var want []string
	for i, test := range []struct {
		name string
		set  func(*cluster.Cluster)
		in   bool
	}{
		{"at rest", func(*cluster.Cluster) {}, false},
		{"transient", func(c *cluster.Cluster) { c.State = cluster.Scaling }, true},
		{"requested", func(c *cluster.Cluster) { c.Request = &cluster.Request{Kind: cluster.RequestUpgrade} }, true},
		{"alarm", func(c *cluster.Cluster) { c.Alarm = true }, true},
		{"stopped as desired", func(c *cluster.Cluster) { c.State, c.Desired = cluster.Stopped, cluster.WantStopped }, false},
		{"to be stopped", func(c *cluster.Cluster) { c.Desired = cluster.WantStopped }, true},
		{"new", func(c *cluster.Cluster) { c.State = cluster.Created }, true},
		{"alert", func(c *cluster.Cluster) { c.State = cluster.Alert }, true},
		{"destroyed", func(c *cluster.Cluster) { c.State, c.Desired = cluster.Destroyed, cluster.WantDestroyed }, false},
		{"destroyed with rests", func(c *cluster.Cluster) {
			c.State, c.Desired, c.Alarm, c.GCNext, c.Request = cluster.Destroyed, cluster.WantDestroyed, true, now, &cluster.Request{}
		}, false},
		{"collector now", func(c *cluster.Cluster) { c.GCNext = now }, true},
		{"collector before", func(c *cluster.Cluster) { c.GCNext = now.Add(-time.Hour) }, true},
		{"collector later", func(c *cluster.Cluster) { c.GCNext = now.Add(time.Nanosecond) }, false},
		{"recovery before", func(c *cluster.Cluster) { c.RecoverNext = now.Add(-time.Nanosecond) }, true},
		{"recovery later", func(c *cluster.Cluster) { c.RecoverNext = now.Add(time.Hour) }, false},
		{"findings within tolerance", func(c *cluster.Cluster) {
			c.Findings, c.SuspectSince = []cluster.Finding{{Type: cluster.NotReady}}, now
		}, false},
	} {
		c := newCluster(fmt.Sprintf("%02d %s", i, test.name))
		test.set(c)
		e.commit(&cluster.Change{Cluster: c})
		if test.in {
			want = append(want, c.UUID)
		}
	}
	got, err := e.store.Unsettled(e.Context(), now, 100)
	if err != nil {
		e.Fatal(err)
	}
	e.equal("unsettled", want, got)
	if got, err = e.store.Unsettled(e.Context(), now, 2); err != nil {
		e.Fatal(err)
	}
	e.equal("limit", want[:2], got)
	if got, err = e.store.Unsettled(e.Context(), now.Add(2*time.Hour), -1); err != nil || len(got) != len(want)+2 {
		e.Errorf("two hours later %d are unsettled, %v; want %d", len(got), err, len(want)+2)
	}
	// A cluster that comes to rest is no longer in the list.
	b := e.record(want[0])
	b.Cluster.State = cluster.Running
	e.commit(&cluster.Change{Cluster: &b.Cluster})
	if got, err = e.store.Unsettled(e.Context(), now, 100); err != nil {
		e.Fatal(err)
	}
	e.equal("after one came to rest", want[1:], got)
}

func jobsNewest(e suite) {
	a, b := newCluster("a"), newCluster("b")
	e.commit(&cluster.Change{Cluster: a})
	e.commit(&cluster.Change{Cluster: b})
	for i, id := range []string{"j1", "j3", "j2", "j2b"} { // j2 and j2b were created at the same time
		job := newJob(id)
		job.Created = now.Add([]time.Duration{time.Second, 3 * time.Second, 2 * time.Second, 2 * time.Second}[i])
		clusterID := a.ID
		if id == "j1" || id == "j2" {
			job.Command = "upgradeContainerCluster"
		}
		if id == "j3" {
			clusterID, job.Status, job.Completed = b.ID, cluster.JobDone, now
		}
		e.commit(&cluster.Change{ClusterID: clusterID, Jobs: []*cluster.Job{job}})
	}
	for _, test := range []struct {
		name  string
		q     cluster.JobQuery
		total int
		want  []string
	}{
		{"all", cluster.JobQuery{}, 4, []string{"j3", "j2b", "j2", "j1"}},
		{"page", cluster.JobQuery{Offset: 1, Limit: 2}, 4, []string{"j2b", "j2"}},
		{"past the end", cluster.JobQuery{Offset: 9}, 4, nil},
		{"cluster", cluster.JobQuery{Cluster: "uuid-a"}, 3, []string{"j2b", "j2", "j1"}},
		{"open", cluster.JobQuery{OnlyOpen: true}, 3, []string{"j2b", "j2", "j1"}},
		{"keyword", cluster.JobQuery{Keyword: "UPGRADE", Limit: 1}, 2, []string{"j2"}},
		{"page of a keyword", cluster.JobQuery{Keyword: "upgrade", Offset: 1, Limit: 1}, 2, []string{"j1"}},
		{"a keyword is no pattern", cluster.JobQuery{Keyword: "%"}, 0, nil},
		{"open of a cluster", cluster.JobQuery{OnlyOpen: true, Cluster: "uuid-b"}, 0, nil},
	} {
		test.q.Scope = everyone
		jobs, n, err := e.store.Jobs(e.Context(), test.q)
		if err != nil {
			e.Fatal(err)
		}
		var got []string
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		e.equal(test.name, test.want, got)
		if n != test.total {
			e.Errorf("%s: total %d, want %d", test.name, n, test.total)
		}
	}
}

func eventsInOrder(e suite) {
	a, b := newCluster("a"), newCluster("b")
	b.Owner.AccountID = "bob"
	e.commit(&cluster.Change{Cluster: a, Events: []*cluster.Event{{At: now, Type: "cluster", Event: "1"}, {At: now, Type: "drift", Event: "2"}}})
	e.commit(&cluster.Change{Cluster: b, Events: []*cluster.Event{{At: now.Add(-time.Hour), Type: "cluster", Event: "3"}}})
	e.commit(&cluster.Change{ClusterID: a.ID, Events: []*cluster.Event{{At: now, Type: "leak", Event: "4"}}})
	first := e.events(cluster.EventQuery{Scope: everyone})[0].Seq
	for _, test := range []struct {
		name string
		q    cluster.EventQuery
		want []string
	}{
		{"all", cluster.EventQuery{Scope: everyone}, []string{"1", "2", "3", "4"}},
		{"after", cluster.EventQuery{Scope: everyone, After: first}, []string{"2", "3", "4"}},
		{"limit", cluster.EventQuery{Scope: everyone, After: first, Limit: 2}, []string{"2", "3"}},
		{"types", cluster.EventQuery{Scope: everyone, Types: []string{"leak", "drift"}}, []string{"2", "4"}},
		{"cluster", cluster.EventQuery{Scope: everyone, Cluster: "uuid-a"}, []string{"1", "2", "4"}},
		{"scope", cluster.EventQuery{Scope: cluster.Scope{AccountID: "bob"}}, []string{"3"}},
		{"scope and cluster", cluster.EventQuery{Scope: cluster.Scope{AccountID: "bob"}, Cluster: "uuid-a"}, nil},
		{"behind the last", cluster.EventQuery{Scope: everyone, After: first + 3}, nil},
	} {
		var got []string
		for _, event := range e.events(test.q) {
			got = append(got, event.Event)
		}
		e.equal(test.name, test.want, got)
	}
}

// eventsVisible: a reader that continues after the newest number it has seen misses
// eventsVisible, although several writers are active.
func eventsVisible(e suite) {
	const writers, each = 4, 40
	var all sync.WaitGroup
	for w := range writers {
		c := newCluster(fmt.Sprint(w))
		e.commit(&cluster.Change{Cluster: c})
		all.Go(func() {
			for range each {
				if err := e.store.Commit(e.Context(), &cluster.Change{ClusterID: c.ID, Events: []*cluster.Event{{At: now}, {At: now}}}); err != nil {
					e.Error(err)
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { all.Wait(); close(written) }()
	var last int64
	seen := 0
	for finished := false; ; {
		events := e.events(cluster.EventQuery{Scope: everyone, After: last, Limit: 7})
		for _, event := range events {
			if event.Seq <= last {
				e.Fatalf("number %d comes behind %d", event.Seq, last)
			}
			last = event.Seq
			seen++
		}
		if len(events) > 0 {
			continue
		}
		if finished {
			break
		}
		select {
		case <-written:
			finished = true
		default:
		}
	}
	if seen != 2*writers*each {
		e.Errorf("a reader that follows saw %d of %d events", seen, 2*writers*each)
	}
}
