package fdb_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
)

// TestText reads pairs of a configuration in JSON and its text.
func TestText(t *testing.T) {
	golden, err := os.ReadFile("testdata/configure.txt")
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for pair := range strings.SplitSeq(strings.TrimSpace(string(golden)), "\n\n") {
		lines := strings.Split(pair, "\n")
		if strings.HasPrefix(lines[0], "#") {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			continue
		}
		var c fdb.Configuration
		if err := json.Unmarshal([]byte(lines[0]), &c); err != nil || len(lines) != 2 {
			t.Fatalf("%q: %v", pair, err)
		}
		if diff := cmp.Diff(lines[1], c.Text()); diff != "" {
			t.Errorf("%s:\n%s", lines[0], diff)
		}
		if written, err := json.Marshal(c); err != nil || string(written) != lines[0] {
			t.Errorf("%s is written as %s, with %v", lines[0], written, err)
		}
		pairs++
	}
	if pairs < 8 {
		t.Errorf("only %d pairs were read", pairs)
	}
}

func TestCounts(t *testing.T) {
	for _, test := range []struct {
		name string
		c    fdb.Configuration
		want fdb.RoleCounts
	}{
		{"double by default", fdb.Configuration{}, fdb.RoleCounts{Storage: 3, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"single", fdb.Configuration{RedundancyMode: fdb.Single}, fdb.RoleCounts{Storage: 1, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"triple", fdb.Configuration{RedundancyMode: fdb.Triple}, fdb.RoleCounts{Storage: 5, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"three halls", fdb.Configuration{RedundancyMode: fdb.ThreeDataHall}, fdb.RoleCounts{Storage: 5, Logs: 4, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"one usable region", fdb.Configuration{UsableRegions: 1}, fdb.RoleCounts{Storage: 3, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"two usable regions", fdb.Configuration{UsableRegions: 2, RoleCounts: fdb.RoleCounts{Logs: 5}}, fdb.RoleCounts{Storage: 3, Logs: 5, Proxies: 3, Resolvers: 1, LogRouters: 5, RemoteLogs: 5}},
		{"GRV proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{GRVProxies: 4, Proxies: 9}}, fdb.RoleCounts{Storage: 3, Logs: 3, CommitProxies: 2, GRVProxies: 4, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"commit proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{CommitProxies: 4}}, fdb.RoleCounts{Storage: 3, Logs: 3, CommitProxies: 4, GRVProxies: 1, Resolvers: 1, LogRouters: -1, RemoteLogs: -1}},
		{"all given", fdb.Configuration{UsableRegions: 2, RoleCounts: fdb.RoleCounts{Storage: 9, Logs: 8, Proxies: 7, Resolvers: 6, LogRouters: 5, RemoteLogs: 4}}, fdb.RoleCounts{Storage: 9, Logs: 8, Proxies: 7, Resolvers: 6, LogRouters: 5, RemoteLogs: 4}},
		{"all of FoundationDB", fdb.Configuration{RoleCounts: fdb.RoleCounts{Logs: -1, Proxies: -1, Resolvers: -1, LogRouters: -1, RemoteLogs: -1}}, fdb.RoleCounts{Storage: 3, Logs: -1, Proxies: -1, Resolvers: -1, LogRouters: -1, RemoteLogs: -1}},
	} {
		if diff := cmp.Diff(test.want, test.c.Counts()); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

func TestNormalized(t *testing.T) {
	speed := 1
	c := fdb.Configuration{
		StorageEngine:   "ssd",
		ExcludedServers: []fdb.ExcludedServer{{Address: "10.1.2.3"}},
		RoleCounts:      fdb.RoleCounts{Storage: 9, Proxies: 9, LogRouters: -1, RemoteLogs: -1},
		Regions: []fdb.Region{
			{Datacenters: []fdb.Datacenter{{ID: "s2", Priority: 1, Satellite: 1}, {ID: "s1", Priority: 1, Satellite: 1}, {ID: "s3", Priority: 2, Satellite: 1}, {ID: "b", Priority: 0}}, SatelliteLogs: -1},
			{Datacenters: []fdb.Datacenter{{ID: "a", Priority: 1}}},
		},
		PerpetualStorageWiggle: &speed, PerpetualStorageWiggleEngine: "memory",
	}
	before, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := fdb.Configuration{
		RedundancyMode: fdb.Double, StorageEngine: "ssd-2", UsableRegions: 1,
		RoleCounts: fdb.RoleCounts{Logs: 3, CommitProxies: 7, GRVProxies: 2, Resolvers: 1},
		Regions: []fdb.Region{
			{Datacenters: []fdb.Datacenter{{ID: "a", Priority: 1}}},
			{Datacenters: []fdb.Datacenter{{ID: "b", Priority: 0}, {ID: "s3", Priority: 2, Satellite: 1}, {ID: "s1", Priority: 1, Satellite: 1}, {ID: "s2", Priority: 1, Satellite: 1}}},
		},
		PerpetualStorageWiggle: &speed, PerpetualStorageWiggleEngine: "memory-2",
	}
	if diff := cmp.Diff(want, c.Normalized()); diff != "" {
		t.Error(diff)
	}
	if after, err := json.Marshal(c); err != nil || string(after) != string(before) {
		t.Errorf("it was changed to %s, with %v", after, err)
	}
}

// live is a configuration as the status of a new database shows it, by version.
func live(t testing.TB, document string) fdb.Configuration {
	t.Helper()
	var c fdb.Configuration
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The documents follow foundationdb 7.3.69 and 7.4.6, fdbclient/DatabaseConfiguration.cpp, toJSON.
const (
	live73 = `{"backup_worker_enabled":0,"blob_granules_enabled":0,"commit_proxies":2,"excluded_servers":[{"address":"10.1.2.3"}],"grv_proxies":1,` +
		`"log_engine":"ssd-2","log_routers":-1,"log_spill":2,"logs":3,"perpetual_storage_wiggle":0,"perpetual_storage_wiggle_engine":"none",` +
		`"perpetual_storage_wiggle_locality":"0","proxies":3,"redundancy_mode":"double","remote_logs":-1,"resolvers":1,"storage_engine":"ssd-2",` +
		`"storage_migration_type":"disabled","usable_regions":1}`
	live74 = `{"log_spill":2,"perpetual_storage_wiggle":0,"perpetual_storage_wiggle_locality":"0","redundancy_mode":"double","storage_engine":"memory","storage_migration_type":"disabled","usable_regions":1}`
)

func TestDiffers(t *testing.T) {
	on, off := 1, 0
	for _, test := range []struct {
		name    string
		wanted  fdb.Configuration
		live    string
		differs bool
	}{
		{"the default", fdb.Configuration{}, live73, false},
		{"an alias", fdb.Configuration{StorageEngine: "ssd"}, live73, false},
		{"another engine", fdb.Configuration{StorageEngine: "ssd-1"}, live73, true},
		{"memory has one name in the status", fdb.Configuration{StorageEngine: "memory-1"}, live74, false},
		{"counts that 7.4 does not report", fdb.Configuration{StorageEngine: "memory-2", RoleCounts: fdb.RoleCounts{Logs: -1, Resolvers: -1}}, live74, false},
		{"the storage count is ours", fdb.Configuration{RoleCounts: fdb.RoleCounts{Storage: 7}}, live73, false},
		{"the same proxies, split", fdb.Configuration{RoleCounts: fdb.RoleCounts{CommitProxies: 2, GRVProxies: 1}}, live73, false},
		{"as many proxies, split otherwise", fdb.Configuration{RoleCounts: fdb.RoleCounts{CommitProxies: 1, GRVProxies: 2}}, live73, true},
		{"more proxies", fdb.Configuration{RoleCounts: fdb.RoleCounts{Proxies: 4}}, live73, true},
		{"more logs", fdb.Configuration{RoleCounts: fdb.RoleCounts{Logs: 4}}, live73, true},
		{"another mode", fdb.Configuration{RedundancyMode: fdb.Triple}, live73, true},
		{"log_spill as it is", fdb.Configuration{LogSpill: 2}, live73, false},
		{"another log_spill", fdb.Configuration{LogSpill: 1}, live73, true},
		{"log_version and all else that is open", fdb.Configuration{}, `{"log_version":6,"log_spill":1,"storage_migration_type":"gradual","perpetual_storage_wiggle":1,"perpetual_storage_wiggle_locality":"a:b","perpetual_storage_wiggle_engine":"ssd"}`, false},
		{"a log_version", fdb.Configuration{LogVersion: 6}, live73, true},
		{"no wiggle, as it is", fdb.Configuration{PerpetualStorageWiggle: &off}, live73, false},
		{"a wiggle", fdb.Configuration{PerpetualStorageWiggle: &on}, live73, true},
		{"the wiggle's locality as it is", fdb.Configuration{PerpetualStorageWiggleLocality: "0"}, live73, false},
		{"another locality", fdb.Configuration{PerpetualStorageWiggleLocality: "dcid:a"}, live73, true},
		{"another migration", fdb.Configuration{StorageMigrationType: "gradual"}, live73, true},
		{"regions", fdb.Configuration{Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{{ID: "a"}}}}}, live73, true},
		{"excluded servers do not count", fdb.Configuration{ExcludedServers: []fdb.ExcludedServer{{Locality: "a:b"}}}, live73, false},
	} {
		if got := test.wanted.Differs(live(t, test.live)); got != test.differs {
			t.Errorf("%s: it differs: %t", test.name, got)
		}
	}
}

func TestConfigurationRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, other := drawConfiguration(t, "c"), drawConfiguration(t, "other")
		normal := c.Normalized()
		if diff := cmp.Diff(normal, normal.Normalized()); diff != "" {
			t.Fatalf("normalized again: %s", diff)
		}
		if c.Differs(c) || c.Differs(normal) || normal.Differs(c) {
			t.Fatal("it differs from itself")
		}
		if c.Differs(other) {
			// What differs is in the text: a configure of it has an effect (flaw 13).
			if wanted := c.Text(); wanted == other.Text() {
				t.Fatalf("two that differ have the text %s", wanted)
			}
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var read fdb.Configuration
		if err := json.Unmarshal(written, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, read); diff != "" {
			t.Fatalf("read again: %s", diff)
		}
		if text := c.Text(); strings.ContainsAny(text, ";'\n\t\x00") || strings.Contains(text, "=0 ") {
			t.Fatalf("the text is %q", text)
		}
		if err := fdb.Configure(c, true).Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// Flaw 21: a configuration without problems is one command of fdbcli, whatever its values are.
func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(live73))
	f.Add([]byte(`{"regions":[{"datacenters":[{"id":"a;kill","priority":1}],"satellite_redundancy_mode":"x"}]}`))
	f.Add([]byte(`{"regions":[{"datacenters":[{"id":"a"},{"id":"b","satellite":1}]},{}],"usable_regions":2,"logs":-5,"perpetual_storage_wiggle":7}`))
	f.Add([]byte(`{"storage_engine":"ssd new","redundancy_mode":"double; kill","perpetual_storage_wiggle_locality":"a:b;c"}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		var c fdb.Configuration
		if json.Unmarshal(document, &c) != nil {
			return
		}
		text := c.Text()
		c.Normalized()
		stages := fdb.Stages(fdb.Configuration{}, c)
		if c.Differs(fdb.Configuration{}) == (len(stages) == 0) {
			t.Fatalf("%s has %d stages", text, len(stages))
		}
		if back := fdb.Stages(c, fdb.Configuration{}); len(back) > 30 {
			t.Fatalf("%s has %d stages back", text, len(back))
		}
		if len(c.Problems()) > 0 {
			if fdb.Refuses(fdb.Configuration{}, c, fdb.Placement{}).Reason != fdb.RefusedConfiguration {
				t.Fatalf("%s is not refused", text)
			}
			return
		}
		commands, err := fdb.ParseCommands("configure " + text)
		if err != nil || len(commands) != 1 {
			t.Fatalf("%q is %q, with %v", text, commands, err)
		}
		for i, word := range commands[0] {
			var regions []fdb.Region
			document, ok := strings.CutPrefix(word, "regions=")
			switch {
			case ok && json.Unmarshal([]byte(document), &regions) == nil && cmp.Equal(regions, c.Regions, cmpopts.EquateEmpty()):
			case ok || strings.ContainsAny(word, ";\"'\\ "):
				t.Fatalf("the word %d of %q is %q", i, text, word)
			}
		}
		if err := fdb.Configure(c, false).Check(); err != nil {
			t.Fatal(err)
		}
	})
}
