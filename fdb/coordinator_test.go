package fdb_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func TestCoordinatorLimits(t *testing.T) {
	region := func(ids ...string) fdb.Region {
		var r fdb.Region
		for i, id := range ids {
			r.Datacenters = append(r.Datacenters, fdb.Datacenter{ID: id, Priority: 1, Satellite: min(i, 1)})
		}
		return r
	}
	for _, c := range []struct {
		name string
		c    fdb.Configuration
		want map[string]int
	}{
		{"defaults", fdb.Configuration{}, map[string]int{"zoneid": 1}},
		{"triple", fdb.Configuration{RedundancyMode: fdb.Triple, UsableRegions: 1}, map[string]int{"zoneid": 1}},
		{"three data halls", fdb.Configuration{RedundancyMode: fdb.ThreeDataHall}, map[string]int{"zoneid": 1, "data_hall": 3}},
		{"one usable region of two", fdb.Configuration{UsableRegions: 1, Regions: []fdb.Region{region("a"), region("b")}}, map[string]int{"zoneid": 1}},
		{"two data centers", fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("a"), region("b")}}, map[string]int{"zoneid": 1, "dcid": 5}},
		{"three, one a satellite of both", fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("a", "s"), region("b", "s")}}, map[string]int{"zoneid": 1, "dcid": 3}},
		{"four", fdb.Configuration{UsableRegions: 2, Regions: []fdb.Region{region("a", "s"), region("b", "u")}}, map[string]int{"zoneid": 1, "dcid": 3}},
	} {
		if d := cmp.Diff(c.want, fdb.CoordinatorLimits(c.c)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// text joins addresses.
func text(addresses []fdb.Address) string {
	var found []string
	for _, a := range addresses {
		found = append(found, a.String())
	}
	return strings.Join(found, " ")
}

func TestSelectCoordinators(t *testing.T) {
	double := fdb.CoordinatorWish{Configuration: fdb.Configuration{RedundancyMode: fdb.Double, UsableRegions: 1}, Version: now73}
	wish := func(change func(*fdb.CoordinatorWish)) fdb.CoordinatorWish {
		w := double
		change(&w)
		return w
	}
	for _, c := range []struct {
		name    string
		servers func([]server)
		doc     func(tree)
		wish    fdb.CoordinatorWish
		want    string // the last numbers of the IPs
	}{
		{"logs first", nil, nil, double, "5 6 7"},
		{"an excluded one", func(s []server) { s[4].excluded = true }, nil, double, "6 7 1"},
		{"one that may be excluded", nil, func(doc tree) { take(doc, "cluster/processes/p-log-1/excluded") }, double, "6 7 1"},
		// flaw 12
		{"one that leaves", nil, nil, wish(func(w *fdb.CoordinatorWish) { w.Leaving = []string{"log-2"} }), "5 7 1"},
		{"one under maintenance", nil, setting("cluster/processes/p-log-1/under_maintenance", true), double, "6 7 1"},
		{"a zone under maintenance", nil, setting("cluster/maintenance_zone", "zone-5"), double, "6 7 1"},
		{"one that cannot be reached", nil, setting("cluster/messages", []any{tree{"name": "unreachable_processes", "unreachable_processes": []any{tree{"address": "10.0.0.5:4501"}}}}), double, "6 7 1"},
		{"one of another version", func(s []server) { s[4].version = "7.3.68" }, nil, double, "6 7 1"},
		{"one from the shared volume", func(s []server) { s[4].binary = "/var/fdb/shared-binaries/bin/7.3.69/fdbserver" }, nil, double, "6 7 1"},
		{"any version", func(s []server) { s[4].version = "7.3.68" }, nil, wish(func(w *fdb.CoordinatorWish) { w.Version = fdb.Version{} }), "5 6 7"},
		{"any version, one from the shared volume", func(s []server) { s[4].binary = "/var/fdb/shared-binaries/bin/7.3.69/fdbserver" }, nil, wish(func(w *fdb.CoordinatorWish) { w.Version = fdb.Version{} }), "6 7 1"},
		{"data centers without limit", func(s []server) {
			for i := range s {
				s[i].dc = map[bool]string{true: "a", false: "b"}[s[i].class == "log"]
			}
		}, nil, double, "5 1 6"},
		{"late ones rather than none", func(s []server) {
			for i := range s {
				s[i].version = "7.3.68"
			}
		}, nil, double, "5 6 7"},
		{"two in a zone", func(s []server) { s[5].zone = "zone-5" }, nil, double, "5 7 1"},
		{"without a zone", nil, func(doc tree) { take(doc, "cluster/processes/p-log-1/locality/zoneid") }, double, "6 7 1"},
		{"without localities", nil, func(doc tree) { take(doc, "cluster/processes/p-log-1/locality") }, double, "6 7 1"},
		{"a selection", nil, nil, wish(func(w *fdb.CoordinatorWish) { w.Selection = []fdb.ClassPriority{{"storage", 1}} }), "1 2 3"},
		{"a selection with priorities", func(s []server) { s[0].class = "coordinator" }, nil, wish(func(w *fdb.CoordinatorWish) {
			w.Selection = []fdb.ClassPriority{{"log", 0}, {"coordinator", 1 << 40}, {"storage", -5}}
		}), "1 5 6"},
		{"a selection of equal priority", nil, nil, wish(func(w *fdb.CoordinatorWish) {
			w.Selection = []fdb.ClassPriority{{"storage", 0}, {"log", 0}}
		}), "5 6 7"},
		{"five", nil, nil, wish(func(w *fdb.CoordinatorWish) { w.Configuration.RedundancyMode = fdb.Triple }), "5 6 7 1 2"},
		{"one", nil, nil, wish(func(w *fdb.CoordinatorWish) { w.Configuration.RedundancyMode = fdb.Single }), "5"},
	} {
		servers := sample()
		if c.servers != nil {
			c.servers(servers)
		}
		doc := document(servers)
		if c.doc != nil {
			c.doc(doc)
		}
		got, err := fdb.SelectCoordinators(parse(t, doc), c.wish)
		var numbers []string
		for _, a := range got {
			numbers = append(numbers, strings.TrimPrefix(a.Host, "10.0.0."))
		}
		if err != nil || strings.Join(numbers, " ") != c.want {
			t.Errorf("%s: %s, %v instead of %s", c.name, numbers, err, c.want)
		}
	}
}

func TestSelectCoordinatorsTooFew(t *testing.T) {
	servers := sample()
	for i := range servers {
		servers[i].zone = fmt.Sprint("zone-", i%2)
	}
	w := fdb.CoordinatorWish{Configuration: fdb.Configuration{RedundancyMode: fdb.Double}}
	got, err := fdb.SelectCoordinators(parse(t, document(servers)), w)
	if !errors.Is(err, fdb.TooFewCandidates) || got != nil || !strings.Contains(err.Error(), "only 2 of 3") {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []*fdb.Status{nil, {}, parse(t, document(nil))} {
		if got, err := fdb.SelectCoordinators(s, w); !errors.Is(err, fdb.CoordinatorsUnknown) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestCoordinatorForms: with TLS, both, IPv6, names.
func TestCoordinatorForms(t *testing.T) {
	single := fdb.Configuration{RedundancyMode: fdb.Single}
	for _, c := range []struct {
		address, name string
		tls, dns      bool
		want          string // empty: none fits
	}{
		{"10.0.0.1:4501", "", false, false, "10.0.0.1:4501"},
		{"10.0.0.1:4501", "", true, false, ""},
		{"10.0.0.1:4500:tls", "", true, false, "10.0.0.1:4500:tls"},
		{"10.0.0.1:4500:tls", "", false, false, ""},
		{"10.0.0.1:4500:tls,10.0.0.1:4501", "", true, false, "10.0.0.1:4500:tls"},
		{"10.0.0.1:4500:tls,10.0.0.1:4501", "", false, false, "10.0.0.1:4501"},
		{"[fd00::1]:4501", "", false, false, "[fd00::1]:4501"},
		{"[fd00::1]:4500:tls", "s.local", true, true, "s.local:4500:tls"},
		{"10.0.0.1:4501", "s.local", false, true, "s.local:4501"},
		{"10.0.0.1:4501", "s.local", false, false, "10.0.0.1:4501"},
		{"10.0.0.1:4501", "", false, true, "10.0.0.1:4501"}, // it has no name yet
	} {
		p := server{id: "storage-1", class: "storage", zone: "z", address: c.address, name: c.name, roles: []string{"storage"}}
		doc := document([]server{p})
		first, _, _ := strings.Cut(c.address, ",")
		set(doc, "cluster/processes/p-storage-1/address", first)
		w := fdb.CoordinatorWish{Configuration: single, TLS: c.tls, DNS: c.dns}
		got, err := fdb.SelectCoordinators(parse(t, doc), w)
		if text(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %s, TLS %t, DNS %t: %s, %v instead of %s", c.address, c.name, c.tls, c.dns, text(got), err, c.want)
		}
		if err != nil {
			continue
		}
		set(doc, "client/coordinators/coordinators", []any{tree{"address": c.want, "reachable": true}})
		if v, err := fdb.JudgeCoordinators(parse(t, doc), w); err != nil || !v.Valid || !v.AddressesValid {
			t.Errorf("%s: %+v, %v", c.want, v, err)
		}
	}
	named := sample()
	for i := range named {
		if i != 5 {
			named[i].name = named[i].id + ".local"
		}
	}
	got, err := fdb.SelectCoordinators(parse(t, document(named)), fdb.CoordinatorWish{DNS: true})
	if err != nil || text(got) != "log-1.local:4501 log-3.local:4501 storage-1.local:4501" {
		t.Errorf("with one that has no name: %s, %v", text(got), err)
	}
}

// halls is a database in several data centers or halls, five storage and two log groups in each.
func halls(places int, set func(p *server, place int)) []server {
	var servers []server
	for place := range places {
		for i := range 7 {
			class, n := "storage", place*7+i+1
			if i > 4 {
				class = "log"
			}
			p := server{id: fmt.Sprintf("%s-%d", class, n), class: class, zone: fmt.Sprint("zone-", n), address: fmt.Sprintf("10.0.%d.%d:4501", place, i), roles: []string{class}}
			set(&p, place)
			servers = append(servers, p)
		}
	}
	return servers
}

func TestCoordinatorsOverPlaces(t *testing.T) {
	dc := func(p *server, place int) { p.dc = fmt.Sprint("dc", place) }
	hall := func(p *server, place int) { p.hall = fmt.Sprint("hall", place) }
	region := func(main, satellite string, priority int) fdb.Region {
		r := fdb.Region{Datacenters: []fdb.Datacenter{{ID: main, Priority: priority}}}
		if satellite != "" {
			r.Datacenters = append(r.Datacenters, fdb.Datacenter{ID: satellite, Priority: 9, Satellite: 1})
		}
		return r
	}
	for _, c := range []struct {
		name    string
		servers []server
		c       fdb.Configuration
		want    map[string]int
		first   string
	}{
		{"three halls", halls(3, hall), fdb.Configuration{RedundancyMode: fdb.ThreeDataHall, UsableRegions: 1}, map[string]int{"0": 3, "1": 3, "2": 3}, "10.0.1.5"},
		{"two data centers", halls(2, dc), fdb.Configuration{RedundancyMode: fdb.Double, UsableRegions: 2, Regions: []fdb.Region{region("dc0", "", 0), region("dc1", "", 1)}}, map[string]int{"0": 4, "1": 5}, "10.0.1.5"},
		{"four, the second leads", halls(4, dc), fdb.Configuration{RedundancyMode: fdb.Triple, UsableRegions: 2, Regions: []fdb.Region{region("dc0", "dc2", 0), region("dc1", "dc3", 1)}},
			map[string]int{"0": 2, "1": 3, "2": 2, "3": 2}, "10.0.1.5"},
	} {
		w := fdb.CoordinatorWish{Configuration: c.c}
		doc := document(c.servers)
		got, err := fdb.SelectCoordinators(parse(t, doc), w)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		places := map[string]int{}
		list := []any{}
		for _, a := range got {
			places[strings.Split(a.Host, ".")[2]]++
			list = append(list, tree{"address": a.String(), "reachable": true})
		}
		if d := cmp.Diff(c.want, places); d != "" || got[0].Host != c.first {
			t.Errorf("%s: %s, the first is %s", c.name, d, got[0].Host)
		}
		set(doc, "client/coordinators/coordinators", list)
		if v, err := fdb.JudgeCoordinators(parse(t, doc), w); err != nil || !v.Valid {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
		for place := range maps.Keys(places) { // all nine in one place, as far as there are so many
			many := []any{}
			for _, p := range append(append([]server{}, c.servers...), c.servers...) {
				if strings.Split(p.address, ".")[2] == place && len(many) < 6 {
					many = append(many, tree{"address": p.address, "reachable": true})
				}
			}
			set(doc, "client/coordinators/coordinators", append(many, list[:3]...))
			if v, err := fdb.JudgeCoordinators(parse(t, doc), w); err != nil || v.Valid || !strings.Contains(strings.Join(v.Why, "\n"), "at most") {
				t.Errorf("%s, a many in %s: %+v, %v", c.name, place, v, err)
			}
		}
	}
}

func TestJudgeCoordinators(t *testing.T) {
	double := fdb.CoordinatorWish{Configuration: fdb.Configuration{RedundancyMode: fdb.Double, UsableRegions: 1}}
	const first = "client/coordinators/coordinators/0/"
	for _, c := range []struct {
		name    string
		servers func([]server)
		doc     func(tree)
		wish    func(*fdb.CoordinatorWish)
		why     string // empty: valid
		unfit   bool   // not all addresses fit
	}{
		{name: "as they should be"},
		{name: "not reachable", doc: setting(first+"reachable", false), why: "10.0.0.5:4501 is not reachable"},
		{name: "no process", doc: func(doc tree) { take(doc, "cluster/processes/p-log-1") }, why: "no process reports at 10.0.0.5:4501"},
		{name: "another port", doc: setting(first+"address", "10.0.0.5:4503"), why: "no process reports at 10.0.0.5:4503"},
		{name: "excluded", servers: func(s []server) { s[4].excluded = true }, why: "10.0.0.5:4501 (log-1) is excluded"},
		{name: "under maintenance", doc: setting("cluster/processes/p-log-1/under_maintenance", true)},
		{name: "leaving", wish: func(w *fdb.CoordinatorWish) { w.Leaving = []string{"log-1"} }},
		{name: "a class that may not", servers: func(s []server) { s[4].class = "stateless" }, why: "has class stateless"},
		{name: "a class that is not selected", wish: func(w *fdb.CoordinatorWish) { w.Selection = []fdb.ClassPriority{{"storage", 1}} }, why: "has class log"},
		{name: "two in a zone", servers: func(s []server) { s[5].zone = "zone-5" }, why: "2 coordinators have the zoneid zone-5, at most 1 may"},
		{name: "too few", servers: func(s []server) { s[5].roles = []string{"log"} }, why: "there are 2 coordinators, there should be 3"},
		{name: "too many", servers: func(s []server) { s[0].roles = []string{"coordinator"} }, why: "there are 4 coordinators, there should be 3"},
		{name: "five wanted", wish: func(w *fdb.CoordinatorWish) { w.Configuration.RedundancyMode = fdb.Triple }, why: "there should be 5"},
		{name: "TLS wanted", wish: func(w *fdb.CoordinatorWish) { w.TLS = true }, why: "10.0.0.5:4501 has TLS false, it should have true", unfit: true},
		{name: "TLS wanted, both there", wish: func(w *fdb.CoordinatorWish) { w.TLS = true }, servers: func(s []server) {
			for i := range s {
				s[i].address = strings.Replace(s[i].address, "4501", "4500:tls", 1) + "," + s[i].address
			}
		}, doc: func(doc tree) {
			for i := range 3 {
				set(doc, fmt.Sprintf("client/coordinators/coordinators/%d/address", i), fmt.Sprintf("10.0.0.%d:4501", i+5))
			}
		}, why: "10.0.0.5:4501 has TLS false, it should have true"},
		{name: "TLS still there", servers: func(s []server) { s[9].address = "10.0.0.10:4500:tls" }, unfit: true},
		{name: "TLS still there on what leaves", servers: func(s []server) { s[9].address = "10.0.0.10:4500:tls" },
			wish: func(w *fdb.CoordinatorWish) { w.Leaving = []string{sample()[9].id} }},
		{name: "TLS still there, of a tester", servers: func(s []server) { s[9].address, s[9].class = "10.0.0.10:4500:tls", "test" }},
		{name: "by name", servers: func(s []server) { s[4].name = "log-1.local" }, why: "log-1.local:4501 (log-1) is given by name, it should be by IP"},
		{name: "by name, wanted", servers: func(s []server) { s[4].name = "log-1.local" }, wish: func(w *fdb.CoordinatorWish) { w.DNS = true }},
		{name: "by IP, names wanted", servers: func(s []server) { s[4].name = "log-1.local" }, doc: setting(first+"address", "10.0.0.5:4501"), wish: func(w *fdb.CoordinatorWish) { w.DNS = true },
			why: "10.0.0.5:4501 (log-1) is given by IP, it should be by name"},
		{name: "by an IP found by name, wanted", servers: func(s []server) { s[4].name = "log-1.local" }, doc: setting(first+"address", "10.0.0.5:4501(fromHostname)"), wish: func(w *fdb.CoordinatorWish) { w.DNS = true }},
		{name: "names wanted, none has one", wish: func(w *fdb.CoordinatorWish) { w.DNS = true }},
	} {
		servers := sample()
		if c.servers != nil {
			c.servers(servers)
		}
		doc := document(servers)
		if c.doc != nil {
			c.doc(doc)
		}
		w := double
		if c.wish != nil {
			c.wish(&w)
		}
		v, err := fdb.JudgeCoordinators(parse(t, doc), w)
		if err != nil || v.Valid != (c.why == "") || !strings.Contains(strings.Join(v.Why, "\n"), c.why) || v.AddressesValid == c.unfit {
			t.Errorf("%s: %+v, %v instead of %q", c.name, v, err, c.why)
		}
	}
}

// TestJudgeCoordinatorsUnknown: what the status does not say is an error, and no verdict.
func TestJudgeCoordinatorsUnknown(t *testing.T) {
	for _, path := range []string{
		"client", "cluster", "client/coordinators", "client/coordinators/coordinators", "client/coordinators/coordinators/1/address", "client/coordinators/coordinators/1/reachable",
		"cluster/processes", "cluster/processes/p-log-2/excluded", "cluster/processes/p-log-2/class_type", "cluster/processes/p-log-2/locality", "cluster/processes/p-log-2/locality/zoneid",
	} {
		if v, err := fdb.JudgeCoordinators(parse(t, without(t, document(sample()), path)), fdb.CoordinatorWish{}); !errors.Is(err, fdb.CoordinatorsUnknown) {
			t.Errorf("without %s: %+v, %v", path, v, err)
		}
	}
	if _, err := fdb.JudgeCoordinators(nil, fdb.CoordinatorWish{}); !errors.Is(err, fdb.CoordinatorsUnknown) {
		t.Errorf("without a status: %v", err)
	}
	set := document(nil)
	if _, err := fdb.JudgeCoordinators(parse(t, set), fdb.CoordinatorWish{}); !errors.Is(err, fdb.CoordinatorsUnknown) {
		t.Errorf("with no coordinators: %v", err)
	}
}

// TestSelectedCoordinatorsAreValid: whatever runs, what is selected is valid, keeps the limits, and
// leaves out what is excluded, leaves or is under maintenance.
func TestSelectedCoordinatorsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fdb.CoordinatorWish{
			Configuration: fdb.Configuration{RedundancyMode: rapid.SampledFrom([]fdb.Redundancy{fdb.Single, fdb.Double, fdb.Triple, fdb.ThreeDataHall}).Draw(t, "mode"), UsableRegions: rapid.IntRange(1, 2).Draw(t, "regions")},
			DNS:           rapid.Bool().Draw(t, "dns"), Version: now73,
		}
		if w.Configuration.UsableRegions > 1 {
			w.Configuration.Regions = []fdb.Region{{Datacenters: []fdb.Datacenter{{ID: "dc0", Priority: 1}, {ID: "dc2", Satellite: 1}}}, {Datacenters: []fdb.Datacenter{{ID: "dc1"}}}}
		}
		var servers []server
		bad := map[string]bool{}
		for i := range rapid.IntRange(1, 24).Draw(t, "servers") {
			class := rapid.SampledFrom([]string{"storage", "log", "transaction", "coordinator", "stateless"}).Draw(t, "class")
			p := server{
				lean: true, id: fmt.Sprintf("%s-%d", class, i), class: class, zone: fmt.Sprint("zone-", rapid.IntRange(0, 15).Draw(t, "zone")), dc: fmt.Sprint("dc", i%3), hall: fmt.Sprint("hall", i%3),
				address: fmt.Sprintf("10.0.0.%d:4501", i), version: rapid.SampledFrom([]string{"7.3.69", "7.3.68"}).Draw(t, "version"), excluded: rapid.IntRange(0, 5).Draw(t, "excluded") == 0,
			}
			if rapid.Bool().Draw(t, "named") {
				p.name = fmt.Sprintf("n%d.local", i)
			}
			if rapid.IntRange(0, 5).Draw(t, "leaving") == 0 {
				w.Leaving = append(w.Leaving, p.id)
			}
			bad[p.address] = p.excluded || class == "stateless"
			servers = append(servers, p)
		}
		doc := document(servers)
		got, err := fdb.SelectCoordinators(parse(t, doc), w)
		if err != nil {
			if !errors.Is(err, fdb.TooFewCandidates) {
				t.Fatal(err)
			}
			return
		}
		list := []any{}
		for _, a := range got {
			if bad[a.String()] {
				t.Fatalf("%s is selected", a)
			}
			list = append(list, tree{"address": a.String(), "reachable": true})
		}
		set(doc, "client/coordinators/coordinators", list)
		if v, err := fdb.JudgeCoordinators(parse(t, doc), w); err != nil || !v.Valid || !v.AddressesValid {
			t.Fatalf("%s: %+v, %v", text(got), v, err)
		}
	})
}
