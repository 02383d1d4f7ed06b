package fdb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func TestExclusionBudget(t *testing.T) {
	for _, c := range []struct{ valid, desired, ongoing, tolerance, want int }{
		{5, 5, 0, 0, 0}, {5, 5, 0, 1, 1}, {5, 5, 1, 1, 0}, {5, 5, 2, 1, 0}, {6, 5, 0, 1, 2}, {4, 5, 0, 1, 0}, {4, 5, 0, 2, 1}, {0, 0, 0, 0, 0}, {0, 5, 3, 2, 0}, {10, 5, 1, 2, 6},
	} {
		if got := fdb.ExclusionBudget(c.valid, c.desired, c.ongoing, c.tolerance); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// tool stands for the blocking exclude: it records what it is given.
type tool struct {
	calls   []string
	results map[string]fdb.Result // by what it is given; others are Ok
}

func (e *tool) exclude(targets []string) fdb.Result {
	call := strings.Join(targets, " ")
	e.calls = append(e.calls, call)
	if r, known := e.results[call]; known {
		return r
	}
	return fdb.Result{Outcome: fdb.Ok}
}

// leaving is the sample with storage-1 and storage-2 excluded and without roles.
func leaving(change func([]server)) []server {
	servers := sample()
	for i := range 2 {
		servers[i].excluded, servers[i].roles = true, nil
	}
	if change != nil {
		change(servers)
	}
	return servers
}

const (
	storage1 = "locality_instance_id:storage-1,10.0.0.1:4501"
	storage2 = "locality_instance_id:storage-2,10.0.0.2:4501"
)

func TestRemovable(t *testing.T) {
	both := []string{storage1, storage2}
	for _, c := range []struct {
		name    string
		servers func([]server)
		doc     func(tree)
		targets []string
		results map[string]fdb.Result
		limits  fdb.Limits
		notSafe []string
		calls   []string
	}{
		{name: "both", targets: both, calls: []string{"locality_instance_id:storage-1", "locality_instance_id:storage-2"}},
		{name: "none", targets: nil},
		{name: "one not excluded", servers: func(s []server) { s[0].excluded = false }, targets: both, notSafe: both[:1], calls: []string{"locality_instance_id:storage-2"}},
		{name: "one with a role", servers: func(s []server) { s[0].roles = []string{"storage"} }, targets: both, notSafe: both[:1], calls: []string{"locality_instance_id:storage-2"}},
		{name: "one of which the roles are not known", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-1/roles") }, targets: both, notSafe: both[:1], calls: []string{"locality_instance_id:storage-2"}},
		{name: "the tool refuses", results: map[string]fdb.Result{"locality_instance_id:storage-1": {Outcome: fdb.Refused, Reason: "ExclusionInProgress"}}, targets: both, notSafe: both[:1],
			calls: []string{"locality_instance_id:storage-1", "locality_instance_id:storage-2"}},
		// Only this target is held back (flaw 5).
		{name: "the tool times out", results: map[string]fdb.Result{"locality_instance_id:storage-1": {}}, targets: both, notSafe: both[:1], calls: []string{"locality_instance_id:storage-1", "locality_instance_id:storage-2"}},
		{name: "one generation", doc: setting(generations, 1), targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "two generations", doc: setting(generations, 2), targets: both, notSafe: both},
		{name: "119.9 s after a recovery", doc: setting(since, 119.9), targets: both, notSafe: both},
		{name: "119.9 s are enough", doc: setting(since, 119.9), limits: fdb.Limits{Exclusion: 119e9}, targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "not available", doc: setting("client/database_status/available", false), targets: both, notSafe: both},
		{name: "incomplete", doc: setting("cluster/messages", message("status_incomplete")), targets: both, notSafe: both},
		{name: "configuration unreadable", doc: setting("cluster/messages", message("unreadable_configuration")), targets: both, notSafe: both},
		{name: "replication unknown", doc: setting("cluster/messages", message("full_replication_timeout")), targets: both, notSafe: both},
		{name: "storage servers unknown", doc: setting("cluster/messages", message("storage_servers_error")), targets: both, notSafe: both},
		{name: "logs unknown", doc: setting("cluster/messages", message("log_servers_error")), targets: both, notSafe: both},
		{name: "clients with issues", doc: setting("cluster/messages", message("client_issues")), targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "a coordinator", doc: setting("client/coordinators/coordinators/0/address", "10.0.0.1:4501"), targets: both, notSafe: both[:1], calls: []string{"locality_instance_id:storage-2"}},
		{name: "a coordinator with TLS", doc: setting("client/coordinators/coordinators/0/address", "10.0.0.1:4501:tls"), targets: both[:1], notSafe: both[:1]},
		{name: "a coordinator at an address it had", doc: setting("client/coordinators/coordinators/0/address", "10.0.9.9:4501"), targets: []string{storage1 + ",10.0.9.9"}, notSafe: []string{storage1 + ",10.0.9.9"}},
		{name: "a coordinator by name", doc: setting("client/coordinators/coordinators/0/address", "storage-1.local:4501"), servers: func(s []server) { s[0].name = "storage-1.local" }, targets: both[:1], notSafe: both[:1]},
		{name: "a coordinator by a name nobody has", doc: setting("client/coordinators/coordinators/0/address", "gone.local:4501"), targets: both[:1], notSafe: both[:1]},
		{name: "a coordinator by a name that is another's", doc: setting("client/coordinators/coordinators/0/address", "gone.local:4501"), targets: []string{storage1 + ",storage-1.local:4501"}, calls: []string{"locality_instance_id:storage-1"}},
		{name: "a coordinator by a name that it had", doc: setting("client/coordinators/coordinators/0/address", "storage-1.local:4501"), targets: []string{storage1 + ",storage-1.local:4501"}, notSafe: []string{storage1 + ",storage-1.local:4501"}},
		{name: "a coordinator by a name that it had, any port", doc: setting("client/coordinators/coordinators/0/address", "storage-1.local:4501"), targets: []string{storage1 + ",Storage-1.local"}, notSafe: []string{storage1 + ",Storage-1.local"}},
		{name: "a coordinator of the connection string", doc: setting("cluster/connection_string", "a:b@10.0.0.1:4501"), targets: both[:1], notSafe: both[:1]},
		{name: "a coordinator without address", doc: setting("client/coordinators/coordinators/0", tree{"reachable": true}), targets: both, notSafe: both},
		{name: "no coordinators", doc: setting("client/coordinators/coordinators", []any{}), targets: both, notSafe: both},

		{name: "gone", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-1") }, targets: both[:1], calls: []string{"locality_instance_id:storage-1 10.0.0.1:4501"}},
		{name: "gone, with TLS", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-1") }, targets: []string{"locality_instance_id:storage-1,10.0.0.1:4500:tls"}, calls: []string{"locality_instance_id:storage-1 10.0.0.1:4500"}},
		{name: "gone, not moved", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-1") }, targets: both[:1], notSafe: both[:1],
			results: map[string]fdb.Result{"locality_instance_id:storage-1 10.0.0.1:4501": {Outcome: fdb.Refused}}, calls: []string{"locality_instance_id:storage-1 10.0.0.1:4501"}},
		// An IP is no name of a group (flaw 11).
		{name: "gone, its address is another's", servers: func(s []server) { s[0].id = "storage-9" }, targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "gone, without address", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-1") }, targets: []string{"locality_instance_id:storage-1"}, calls: []string{"locality_instance_id:storage-1"}},
		{name: "gone, without address, a coordinator too", doc: func(doc tree) {
			take(doc, "cluster/processes/p-storage-1")
			take(doc, "cluster/processes/p-log-1")
		}, targets: []string{"locality_instance_id:storage-1"}, notSafe: []string{"locality_instance_id:storage-1"}},
		{name: "gone, and a coordinator elsewhere too", doc: func(doc tree) {
			take(doc, "cluster/processes/p-storage-1")
			take(doc, "cluster/processes/p-log-1")
		}, targets: both[:1], calls: []string{"locality_instance_id:storage-1 10.0.0.1:4501"}},
		{name: "without address, and a coordinator is gone", doc: func(doc tree) { take(doc, "cluster/processes/p-log-1") }, targets: []string{"locality_instance_id:storage-1"}, calls: []string{"locality_instance_id:storage-1"}},
		{name: "moved", servers: func(s []server) { s[0].address = "10.0.7.7:4501" }, targets: both[:1], calls: []string{"locality_instance_id:storage-1 10.0.0.1:4501"}},

		{name: "without localities", targets: []string{"10.0.0.1"}, calls: []string{"10.0.0.1"}},
		{name: "without localities, by port", targets: []string{"10.0.0.1:4501"}, calls: []string{"10.0.0.1:4501"}},
		{name: "without localities, another port", servers: func(s []server) { s[2].address = "10.0.0.1:4503" }, targets: []string{"10.0.0.1:4501"}, calls: []string{"10.0.0.1:4501"}},
		{name: "without localities, all ports", servers: func(s []server) { s[2].address = "10.0.0.1:4503" }, targets: []string{"10.0.0.1"}, notSafe: []string{"10.0.0.1"}},
		{name: "IPv6", servers: func(s []server) { s[0].address = "[fd00::1]:4501" }, targets: []string{"fd00:0::1", "locality_instance_id:storage-1,[fd00::1]:4501"}, calls: []string{"fd00::1", "locality_instance_id:storage-1"}},
		{name: "another locality", targets: []string{"locality_zoneid:zone-1"}, calls: []string{"locality_zoneid:zone-1"}},

		// One server does not stand for the others of its pod (flaw 17).
		{name: "two servers, one with a role", servers: func(s []server) { s[2].id = "storage-1" }, targets: both[:1], notSafe: both[:1]},
		{name: "two servers, one not excluded", servers: func(s []server) { s[2].id, s[2].roles = "storage-1", nil }, targets: both[:1], notSafe: both[:1]},
		{name: "two servers", servers: func(s []server) { s[2].id, s[2].roles, s[2].excluded = "storage-1", nil, true }, targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "two servers, one does not report", targets: []string{storage1 + ",10.0.0.1:4503"}, calls: []string{"locality_instance_id:storage-1 10.0.0.1:4503"}},

		{name: "one without localities at its address", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-3/locality") }, targets: []string{"locality_instance_id:storage-3,10.0.0.3:4501"}, notSafe: []string{"locality_instance_id:storage-3,10.0.0.3:4501"}},
		{name: "one without localities at another's", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-3/locality") }, targets: both[:1], calls: []string{"locality_instance_id:storage-1"}},
		{name: "one without localities, no address known", doc: func(doc tree) { take(doc, "cluster/processes/p-storage-3/locality") }, targets: []string{"locality_instance_id:storage-1"}, notSafe: []string{"locality_instance_id:storage-1"}},

		{name: "what ends a command", targets: []string{"locality_instance_id:a;b", "locality_instance_id:a b", "locality_instance_id:a\"", "10.0.0.1;kill"},
			notSafe: []string{"locality_instance_id:a;b", "locality_instance_id:a b", "locality_instance_id:a\"", "10.0.0.1;kill"}},
		{name: "what is no target", targets: []string{"", "storage-1", "locality_instance_id", "locality_:x", "locality_instance_id:", ",", storage1 + ",", "10.0.0.1 10.0.0.2", "log-1.local"},
			notSafe: []string{"", "storage-1", "locality_instance_id", "locality_:x", "locality_instance_id:", ",", storage1 + ",", "10.0.0.1 10.0.0.2", "log-1.local"}},
		{name: "no processes", doc: setting("cluster/processes", tree{}), targets: both, notSafe: both},
	} {
		doc := document(leaving(c.servers))
		if c.doc != nil {
			c.doc(doc)
		}
		e := &tool{results: c.results}
		if d := cmp.Diff(c.notSafe, fdb.Removable(parse(t, doc), c.targets, c.limits, e.exclude)); d != "" {
			t.Errorf("%s: not safe: %s", c.name, d)
		}
		if d := cmp.Diff(c.calls, e.calls); d != "" {
			t.Errorf("%s: calls: %s", c.name, d)
		}
	}
}

func TestRemovableWithoutStatus(t *testing.T) {
	e := &tool{}
	if got := fdb.Removable(nil, []string{storage1}, fdb.Limits{}, e.exclude); !slices.Equal(got, []string{storage1}) || e.calls != nil {
		t.Errorf("%v after %v", got, e.calls)
	}
	if got := fdb.Removable(parse(t, document(leaving(nil))), []string{storage1}, fdb.Limits{}, nil); !slices.Equal(got, []string{storage1}) {
		t.Errorf("without a tool: %v", got)
	}
}

// TestRemovableNeedsWhatItReads takes each member away of documents in which a target is not safe: it
// does not become so. That a whole process, or the connection string beside the coordinators, is
// missing cannot be seen.
func TestRemovableNeedsWhatItReads(t *testing.T) {
	target := storage1 + ",10.0.9.9:4501"
	for name, change := range map[string]func(tree){
		"a role":        setting("cluster/processes/p-storage-1/roles", []any{tree{"role": "storage"}}),
		"not excluded":  setting("cluster/processes/p-storage-1/excluded", false),
		"generations":   setting(generations, 2),
		"recent":        setting(since, 10),
		"unsure":        setting("cluster/messages", message("log_servers_error")),
		"a coordinator": setting("client/coordinators/coordinators/0/address", "10.0.9.9:4501"),
	} {
		servers := lean()
		servers[0].excluded, servers[0].roles = true, nil
		doc := document(servers)
		change(doc)
		ok := func([]string) fdb.Result { return fdb.Result{Outcome: fdb.Ok} }
		for _, path := range append([]string{""}, members(doc, "")...) {
			if parent, _ := split(path); parent == "cluster/processes" {
				continue
			}
			back := func() {}
			if path != "" {
				back = take(doc, path)
			}
			if got := fdb.Removable(parse(t, doc), []string{target}, fdb.Limits{}, ok); len(got) != 1 {
				t.Errorf("%s: safe without %q", name, path)
			}
			back()
		}
	}
}

// TestRemovableProperties: whatever the status, a target with a server that has a role, is not
// excluded or coordinates is never safe; the tool is never given an address of another group, nor
// asked for a target that the status speaks against; and the answer names targets in their order.
func TestRemovableProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		servers := lean()
		busy := map[string]bool{}
		for i := range rapid.IntRange(1, 8).Draw(t, "servers") {
			p := server{
				lean: true, class: "storage", id: fmt.Sprintf("storage-%d", rapid.IntRange(10, 14).Draw(t, "id")), zone: fmt.Sprint(i),
				address: fmt.Sprintf("10.0.1.%d:%d", rapid.IntRange(1, 4).Draw(t, "ip"), 4501+2*i), excluded: rapid.IntRange(0, 3).Draw(t, "excluded") > 0,
			}
			if rapid.IntRange(0, 3).Draw(t, "role") == 0 {
				p.roles = []string{rapid.SampledFrom([]string{"storage", "log", "coordinator"}).Draw(t, "which")}
			}
			busy[p.id] = busy[p.id] || !p.excluded || p.roles != nil
			servers = append(servers, p)
		}
		doc := document(servers)
		processes := tree{}
		for i, p := range servers { // several servers of a group
			processes[fmt.Sprint(i)] = p.tree()
		}
		set(doc, "cluster/processes", processes)
		var targets []string
		for i := 10; i < 16; i++ {
			id := fmt.Sprintf("storage-%d", i)
			target := "locality_instance_id:" + id
			for _, p := range servers {
				if p.id == id && rapid.Bool().Draw(t, "address known") {
					target += "," + p.address
				}
			}
			targets = append(targets, target+",10.0.5.5")
		}
		e := &tool{results: map[string]fdb.Result{}}
		s := parse(t, doc)
		notSafe := fdb.Removable(s, targets, fdb.Limits{}, func(names []string) fdb.Result {
			id := strings.TrimPrefix(names[0], "locality_instance_id:")
			if busy[id] {
				t.Fatalf("the tool is asked for %v", names)
			}
			for _, p := range servers {
				for _, name := range names[1:] {
					if name == p.address && p.id != id {
						t.Fatalf("%v names %s of %s", names, p.address, p.id)
					}
				}
			}
			return e.exclude(names)
		})
		var want []string
		for i, target := range targets {
			if busy[fmt.Sprintf("storage-%d", i+10)] {
				want = append(want, target)
			}
		}
		if d := cmp.Diff(want, notSafe); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzRemovableTargets: a target is either refused or becomes words that no command text is split at.
func FuzzRemovableTargets(f *testing.F) {
	for _, text := range []string{storage1, "10.0.0.1", "[fd00::1]:4501:tls", "fd00::1,a.local", "locality_zoneid:a,locality_b:c", "locality_instance_id:a;b", ",", "locality_:"} {
		f.Add(text)
	}
	s := parse(f, document(leaving(nil)))
	f.Fuzz(func(t *testing.T, text string) {
		asked := 0
		notSafe := fdb.Removable(s, []string{text}, fdb.Limits{}, func(names []string) fdb.Result {
			asked++
			for _, name := range names {
				if name == "" || strings.ContainsAny(name, " \t\r\n;\"'\\\x00") {
					t.Fatalf("%q becomes %q", text, names)
				}
			}
			return fdb.Result{Outcome: fdb.Ok}
		})
		if safe := len(notSafe) == 0; safe != (asked == 1) || asked > 1 {
			t.Fatalf("%q is safe: %t, after %d calls", text, safe, asked)
		}
	})
}
