package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestForcesRecovery: what forces a recovery, and what does not.
func TestForcesRecovery(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(f *fixture)
		want int
	}{
		{"nothing", func(*fixture) {}, 0},
		{"a storage server crashes", func(f *fixture) { f.Crash("storage-5") }, 0},
		{"a coordinator crashes", func(f *fixture) { f.Crash("storage-1") }, 0},
		{"a log crashes", func(f *fixture) { f.Crash("log-1") }, 1},
		{"a log without a role crashes", func(f *fixture) { f.Crash("log-4") }, 0},
		{"a proxy crashes", func(f *fixture) { f.Crash("stateless-1") }, 1},
		{"two crash at once", func(f *fixture) { f.Crash("log-1"); f.Crash("stateless-1") }, 1},
		{"a storage server joins", func(f *fixture) { f.add(fdb.ClassStorage, 9) }, 0},
		{"a stateless server joins", func(f *fixture) { f.add(fdb.ClassStateless, 9) }, 0},
		{"a master joins: it suits better", func(f *fixture) { f.add(fdb.ClassMaster, 9) }, 1},
		{"a cluster controller joins: it suits better", func(f *fixture) { f.add(fdb.ClassClusterController, 9) }, 1},
		{"a storage server is excluded", func(f *fixture) { f.do("exclude no_wait locality_instance_id:storage-5") }, 0},
		{"a log is excluded", func(f *fixture) { f.do("exclude no_wait locality_instance_id:log-1") }, 1},
		{"all logs but two are excluded", func(f *fixture) {
			f.do("exclude no_wait locality_instance_id:log-1 locality_instance_id:log-2")
		}, 1},
		{"other coordinators", func(f *fixture) { f.do("coordinators 10.1.0.4:4501 10.1.0.5:4501 10.1.0.6:4501") }, 1},
		{"the same coordinators", func(f *fixture) { f.do("coordinators 10.1.0.2:4501 10.1.0.3:4501 10.1.0.4:4501") }, 0},
		{"other counts", func(f *fixture) { f.do("configure logs=4") }, 1},
		{"the same counts", func(f *fixture) { f.do("configure logs=-1") }, 0},
		{"the wiggle", func(f *fixture) { f.do("configure perpetual_storage_wiggle=1") }, 0},
		{"maintenance", func(f *fixture) { f.do("maintenance on node-storage-1 60") }, 0},
		{"a second one", func(f *fixture) { f.Inject(sim.Fault{Kind: sim.FaultSecondRecovery}); f.Crash("log-1") }, 2},
		{"everything is killed", func(f *fixture) { f.do("kill; kill " + strings.Join(f.upgrade("7.3.69"), " ")) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			f.Advance(20 * time.Minute)
			before := f.Recoveries()
			tt.do(f)
			f.settle()
			f.Advance(time.Minute)
			if got := f.Recoveries() - before; got != tt.want {
				t.Errorf("%d recoveries, want %d\n%s", got, tt.want, f.lines())
			}
		})
	}
}

// TestGenerations: old logs are kept until they are drained, and as long as a storage server needs them.
func TestGenerations(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	active := func() int { return *f.status().Cluster.RecoveryState.ActiveGenerations }
	f.Stop("storage-5")
	f.Advance(5 * time.Second)
	for n, name := range []string{"log-1", "log-2", "log-3"} {
		f.Crash(name)
		f.Advance(10 * time.Second)
		if got := active(); got != n+2 {
			t.Errorf("after %s: %d generations", name, got)
		}
	}
	if s := f.status(); len(s.Cluster.Logs) != 4 || s.Cluster.RecoveryState.Name != "all_logs_recruited" || *s.Cluster.BounceImpact.CanCleanBounce {
		t.Errorf("%d logs, %s", len(s.Cluster.Logs), s.Cluster.RecoveryState.Name)
	}
	f.settle()
	if got := active(); got != 1 {
		t.Errorf("%d generations are left", got)
	}
}

// TestRecoveryWaits: what a recovery waits for, and that it goes on then.
func TestRecoveryWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cut   []string
		state string
	}{
		{"two of three logs", []string{"log-1", "log-2"}, "locking_old_transaction_servers"},
		{"all that can be a log but one", []string{"log-1", "log-4", "storage-1", "storage-2", "storage-3", "storage-4", "storage-5"}, ""},
		{"the coordinators", []string{"storage-1", "storage-2"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			for _, name := range tt.cut {
				f.Cut(name, true)
			}
			f.Advance(time.Minute)
			s := f.status()
			if f.Available() || s.Client.DatabaseStatus.Available != nil && *s.Client.DatabaseStatus.Available || s.Cluster.RecoveryState.Name != tt.state {
				t.Errorf("available, or the recovery is at %s\n%s", s.Cluster.RecoveryState.Name, f.lines())
			}
			for _, name := range tt.cut {
				f.Cut(name, false)
			}
			f.settle()
			f.clean()
		})
	}
}

// TestConfigureTexts: the rules and texts of configure that TestRefuses does not reach.
func TestConfigureTexts(t *testing.T) {
	for _, tt := range []struct {
		version, text string
		want          fdb.Reason
	}{
		{"7.3.69", "double", ""},
		{"7.3.69", "logs=5", ""},
		{"7.3.69", "logs=0", fdb.RefusedConfiguration},
		{"7.3.69", "resolvers=0", fdb.RefusedConfiguration},
		{"7.3.69", "usable_regions=3", fdb.RefusedConfiguration},
		{"7.3.69", "usable_regions=2", fdb.RefusedConfiguration},
		{"7.3.69", "triple", ""},
		{"7.3.69", "three_data_hall", ""},
		{"7.3.69", "quintuple", fdb.RefusedOptions},
		{"7.3.69", "double triple", fdb.RefusedOptions},
		{"7.3.69", "proxies=1", fdb.RefusedOptions},
		{"7.3.69", "proxies=4 grv_proxies=2", fdb.RefusedOptions},
		{"7.3.69", "perpetual_storage_wiggle=2", fdb.RefusedOptions},
		{"7.3.69", "storage_migration_type=fast", fdb.RefusedOptions},
		{"7.3.69", "ssd-rocksdb-v1", fdb.RefusedMigration},
		{"7.3.69", "ssd-rocksdb-v1 storage_migration_type=aggressive", ""},
		{"7.3.69", "regions=[]", ""},
		{"7.3.69", "regions=[", fdb.RefusedOptions},
		{"7.3.69", `regions=[{\"datacenters\":[{\"id\":\"a\",\"priority\":1}]}]`, fdb.RefusedStorage},
		{"7.1.67", "ssd-redwood-1 storage_migration_type=aggressive", fdb.RefusedOptions},
		{"7.1.67", "ssd-redwood-1-experimental storage_migration_type=aggressive", ""},
		{"7.1.67", "ssd-sharded-rocksdb storage_migration_type=aggressive", fdb.RefusedOptions},
		{"7.3.69", "ssd-redwood-1-experimental storage_migration_type=aggressive", ""},
		{"7.4.6", "ssd-redwood-1-experimental storage_migration_type=aggressive", fdb.RefusedOptions},
		{"7.4.6", "ssd-redwood-1 storage_migration_type=aggressive", ""},
		{"7.1.67", "ssd-rocksdb-v1 storage_migration_type=aggressive", ""},
		{"7.4.6", "ssd-sharded-rocksdb storage_migration_type=aggressive", ""},
	} {
		t.Run(tt.version+" "+tt.text, func(t *testing.T) {
			f := newFixture(t, shape{options: sim.Options{Seed: 1}, version: tt.version, storage: 5, log: 4, stateless: 3})
			f.do("configure new double ssd")
			f.settle()
			a := f.cli("configure "+tt.text, time.Minute)
			r := fdb.Judge(fdb.Call{Command: fdb.CommandConfigure, Configuration: tt.text}, f.version, a.Exit, a.Stdout, a.Stderr)
			if r.Reason != tt.want || (r.Outcome == fdb.Refused) != (tt.want != "") {
				t.Errorf("%s, want %s\nexit %d\n%s%s", r, tt.want, a.Exit, a.Stdout, a.Stderr)
			}
		})
	}
}

// TestTooFewZones: a redundancy needs as many zones with room for data.
func TestTooFewZones(t *testing.T) {
	for zones, want := range map[int]int{2: 1, 3: 0} {
		f := newFixture(t, shape{options: sim.Options{Seed: 1}, storage: 6, log: 6, stateless: 3, zones: zones})
		f.do("configure new double ssd")
		f.settle()
		if a := f.cli("configure triple", time.Minute); a.Exit != want {
			t.Errorf("%d zones: exit %d, want %d\n%s", zones, a.Exit, want, a.Stderr)
		}
	}
}

// TestExclude: who is excluded by which target, and what is printed.
func TestExclude(t *testing.T) {
	for _, tt := range []struct {
		command string
		exit    int
		lines   []string
	}{
		{"exclude", 0, []string{"There are currently no servers or localities excluded from the database."}},
		{"exclude 10.1.0.6", 0, []string{"  10.1.0.6(Whole machine)  ---- Successfully excluded. It is now safe to remove this machine from the cluster."}},
		{"exclude 10.1.0.6:4501", 0, []string{"  10.1.0.6:4501  ---- Successfully excluded. It is now safe to remove this process from the cluster."}},
		{"exclude 10.1.0.6:4500", 0, []string{"! 10.1.0.6:4500  ---- WARNING: Missing from cluster! Be sure that you excluded the correct processes before removing them from the cluster!"}},
		{"exclude 10.9.9.9", 0, []string{"! 10.9.9.9(Whole machine)  ---- WARNING: Missing from cluster!Be sure that you excluded the correct machines before removing them from the cluster!"}},
		{"exclude locality_instance_id:storage-5", 0, []string{"  10.1.0.6:4501  ---- Successfully excluded. It is now safe to remove this process from the cluster."}},
		{"exclude locality_instance_id:nobody", 0, []string{"! locality_instance_id:nobody  ---- WARNING: Currently no servers found with this locality match! Be sure that you excluded the correct locality."}},
		{"exclude no_wait 10.1.0.6", 0, []string{"! 10.1.0.6(Whole machine)  ---- WARNING: Exclusion in progress! It is not safe to remove this machine from the cluster"}},
		{"exclude no_wait 10.1.0.2:4501", 0, []string{"WARNING: 10.1.0.2:4501 is a coordinator!", "Type `help coordinators' for information on how to change the"}},
		{"exclude 10.1.0.6:4501:tls", 0, []string{"ERROR: '10.1.0.6:4501:tls' is neither a valid network endpoint address nor a locality", "        Do not include the `:tls' suffix when naming a process"}},
		{"exclude no_wait", 1, []string{"ERROR: At least one valid network endpoint address or a locality must be provided"}},
		{"exclude 10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 10.1.0.6", 1, []string{"ERROR: This exclude may cause the total available space in the cluster to drop below 10%."}},
		{"include 10.1.0.6", 0, nil},
		{"include", 1, []string{"Usage: include all|[<ADDRESS...>]"}},
		{"include storage-5", 1, []string{"ERROR: 'storage-5' is neither a valid network endpoint address nor a locality"}},
	} {
		t.Run(tt.command, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			a := f.cli(tt.command, 5*time.Minute)
			if a.Exit != tt.exit {
				t.Errorf("exit %d, want %d", a.Exit, tt.exit)
			}
			for _, line := range tt.lines {
				printed := a.Stdout + a.Stderr
				if text, onStderr := strings.CutPrefix(line, "! "); onStderr {
					line, printed = "  "+text, a.Stderr
				}
				if !strings.Contains(printed, line) {
					t.Errorf("no %q in\n%s%s", line, a.Stdout, a.Stderr)
				}
			}
		})
	}
}

// TestExcludeTimesOut: an exclude whose data do not move ends at its timeout, and the exclusion stays.
func TestExcludeTimesOut(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Inject(sim.Fault{Kind: sim.FaultStuckMovement})
	a := f.cli("exclude 10.1.0.6", 10*time.Second)
	if a.Exit != 1 || a.Took != 10*time.Second || !strings.HasSuffix(a.Stderr, "Specified timeout reached -- exiting...\n") {
		t.Errorf("%+v", a)
	}
	if !slices.Equal(f.Exclusions(), []string{"10.1.0.6"}) {
		t.Error(f.Exclusions())
	}
	f.Clear(sim.FaultStuckMovement)
	f.settle()
	if f.Holds("storage-5").Shards != 0 {
		t.Error("the data did not move")
	}
}

// TestIncludeRemovesPorts: a bare IP includes what is excluded with its ports too.
func TestIncludeRemovesPorts(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.do("exclude no_wait 10.1.0.6:4501 10.1.0.66:4501 locality_instance_id:storage-4")
	f.do("include 10.1.0.6")
	if want := []string{"10.1.0.66:4501", "locality_instance_id:storage-4"}; !slices.Equal(f.Exclusions(), want) {
		t.Error(f.Exclusions())
	}
	f.do("include all")
	if len(f.Exclusions()) > 0 {
		t.Error(f.Exclusions())
	}
}

// TestFaults: each fault of a call.
func TestFaults(t *testing.T) {
	status := func(f *fixture, timeout int) (sim.Answer, *fdb.Status) {
		a := f.Run(sim.Run{Argv: []string{"--exec", "status json", "--timeout", fmt.Sprint(timeout)}, Version: f.version, Connection: f.first})
		s, _ := fdb.ParseStatus([]byte(a.Stdout))
		return a, s
	}
	t.Run("late", func(t *testing.T) {
		f := sample(t, sim.Options{Seed: 1})
		f.Inject(sim.Fault{Kind: sim.FaultStatusLate, Takes: 20 * time.Second})
		if a, s := status(f, 10); a.Exit != 1 || s != nil {
			t.Errorf("%+v", a)
		}
		if a, s := status(f, 40); a.Exit != 0 || s == nil || a.Took < 20*time.Second {
			t.Errorf("%+v", a)
		}
	})
	t.Run("stale", func(t *testing.T) {
		f := sample(t, sim.Options{Seed: 1})
		f.Inject(sim.Fault{Kind: sim.FaultStatusStale, For: time.Minute})
		f.Stop("storage-5")
		f.Advance(10 * time.Second)
		if _, s := status(f, 10); len(s.Cluster.Processes) != 14 {
			t.Error("the status is not that of before")
		}
		f.Advance(time.Minute)
		if _, s := status(f, 10); len(s.Cluster.Processes) != 13 {
			t.Error("the status is still that of before")
		}
	})
	t.Run("partial", func(t *testing.T) {
		f := sample(t, sim.Options{Seed: 1})
		whole := len(f.Status(f.first, f.version))
		f.Inject(sim.Fault{Kind: sim.FaultStatusPartial})
		if got := len(f.Status(f.first, f.version)); got >= whole {
			t.Error("nothing is missing")
		}
	})
	t.Run("doubled", func(t *testing.T) {
		f := sample(t, sim.Options{Seed: 1})
		f.Inject(sim.Fault{Kind: sim.FaultStatusDoubled})
		if _, s := status(f, 10); len(s.Cluster.Processes) <= 14 {
			t.Error("nothing is there twice")
		}
	})
	for _, tt := range []struct {
		name    string
		fault   sim.Fault
		applied bool
		outcome fdb.ResultOutcome
	}{
		{"refused", sim.Fault{Kind: sim.FaultCommandRefused}, false, fdb.Refused},
		{"reply lost", sim.Fault{Kind: sim.FaultReplyLost}, true, fdb.Unknown},
		{"timed out before", sim.Fault{Kind: sim.FaultTimedOut, Before: true}, false, fdb.Unknown},
		{"timed out after", sim.Fault{Kind: sim.FaultTimedOut}, true, fdb.Unknown},
		{"another command", sim.Fault{Kind: sim.FaultTimedOut, Command: "kill"}, true, fdb.Ok},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			f.Inject(tt.fault)
			call := fdb.Exclude([]string{"10.1.0.6"}, true)
			a := f.Call(call, f.version, f.first)
			if r := fdb.Judge(call, f.version, a.Exit, a.Stdout, a.Stderr); r.Outcome != tt.outcome || (len(f.Exclusions()) == 1) != tt.applied {
				t.Errorf("%s, excluded %v", r, f.Exclusions())
			}
			again := f.Call(call, f.version, f.first)
			if r := fdb.Judge(call, f.version, again.Exit, again.Stdout, again.Stderr); r.Outcome != fdb.Ok {
				t.Errorf("it hits twice: %s", r)
			}
		})
	}
	t.Run("partition", func(t *testing.T) {
		f := sample(t, sim.Options{Seed: 1})
		f.Inject(sim.Fault{Kind: sim.FaultPartition, Address: f.first.Coordinators[0], For: time.Minute})
		if s := f.status(); *s.Client.Coordinators.Coordinators[0].Reachable || !*s.Client.Coordinators.QuorumReachable || fdb.FullFaultTolerance(s).Open {
			t.Error("the coordinator is reached")
		}
		f.Inject(sim.Fault{Kind: sim.FaultPartition, Address: f.first.Coordinators[1], For: time.Minute})
		if s := f.status(); *s.Client.Coordinators.QuorumReachable || f.Available() {
			t.Error("a quorum is reached")
		}
		f.Advance(2 * time.Minute)
		f.settle()
	})
}

// TestClients: the lists of clients by the versions of their libraries.
func TestClients(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	if s := f.status(); s.Cluster.Clients.SupportedVersions != nil {
		t.Error("versions without clients")
	}
	f.Connect(sim.Client{Address: "10.9.0.1:5000", LogGroup: "old", Versions: []fdb.Version{version("7.1.67"), version("7.3.69")}})
	f.Connect(sim.Client{Address: "10.9.0.2:5000", LogGroup: "new", Versions: []fdb.Version{version("7.3.69"), version("7.4.6")}})
	held := fdb.UnsupportedClients(f.status(), version("7.4.6"), nil, nil)
	if len(held) != 1 || held[0].Address != "10.9.0.1:5000" || held[0].LogGroup != "old" {
		t.Errorf("%v", held)
	}
	f.Disconnect("10.9.0.1:5000")
	if held := fdb.UnsupportedClients(f.status(), version("7.4.6"), nil, nil); len(held) > 0 {
		t.Errorf("%v", held)
	}
}

// TestLag: lags and queues close the gate configure.
func TestLag(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Advance(5 * time.Minute)
	for _, tt := range []struct {
		load sim.Load
		open bool
	}{
		{sim.Load{}, true}, {sim.Load{DataLag: time.Minute}, true}, {sim.Load{DataLag: 61 * time.Second}, false},
		{sim.Load{DurabilityLag: 61 * time.Second}, false}, {sim.Load{LogQueue: 250<<20 + 1}, false}, {sim.Load{StorageQueue: 250<<20 + 1}, false},
	} {
		f.SetLoad(tt.load)
		if v := fdb.Open(fdb.GateConfigure, f.status(), fdb.Limits{}, f.version); v.Open != tt.open {
			t.Errorf("%+v: %+v", tt.load, v)
		}
	}
}

// TestMaintenance: the zone, its time, and what ends it.
func TestMaintenance(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.do("maintenance on node-storage-5 600")
	if s := f.status(); s.Cluster.MaintenanceZone != "node-storage-5" || *s.Cluster.MaintenanceSeconds > 600 {
		t.Errorf("%+v", s.Cluster.MaintenanceZone)
	}
	if a := f.do("maintenance"); a.Stdout != "Maintenance for zone node-storage-5 will continue for 599 seconds.\n" {
		t.Error(a.Stdout)
	}
	f.Crash("storage-5")
	f.Advance(10 * time.Second)
	if s := f.status(); s.Cluster.MaintenanceZone == "" {
		t.Error("its own zone ended it")
	}
	f.Crash("storage-4")
	f.Advance(10 * time.Second)
	if s := f.status(); s.Cluster.MaintenanceZone != "" {
		t.Error("a failure in another zone did not end it")
	}
	f.do("maintenance on node-storage-5 600")
	f.Advance(601 * time.Second)
	if a := f.do("maintenance"); a.Stdout != "No ongoing maintenance.\n" || f.status().Cluster.MaintenanceZone != "" {
		t.Error(a.Stdout)
	}
	f.do("maintenance on node-storage-5 600; maintenance off")
	if f.status().Cluster.MaintenanceZone != "" {
		t.Error("off")
	}
}

// TestForeignCluster: a server with the cluster file of another database does not join, and one with an old
// file of this database does.
func TestForeignCluster(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.do("coordinators 10.1.0.4:4501 10.1.0.5:4501 10.1.0.6:4501")
	old := f.server(fdb.ClassStorage, 6)
	old.Connection = f.first
	f.Start(old)
	foreign := f.server(fdb.ClassStorage, 7)
	foreign.Connection = fdb.Connection{Description: "other", ID: "first", Coordinators: f.first.Coordinators}
	f.Start(foreign)
	f.Advance(time.Minute)
	var names []string
	for _, p := range f.status().Cluster.Processes {
		names = append(names, p.Locality[fdb.InstanceLocality])
	}
	if !slices.Contains(names, "storage-6") || slices.Contains(names, "storage-7") {
		t.Error(names)
	}
	if a := f.cli("exclude", 10*time.Second); a.Exit != 0 || a.Connection.ID != f.Connection().ID {
		t.Errorf("the tool keeps the old cluster file: %+v", a)
	}
}

// TestUptime: 0 after a restart, and the time since.
func TestUptime(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1})
	f.Advance(time.Hour)
	f.Crash("storage-5")
	f.Advance(10 * time.Second)
	for _, p := range f.status().Cluster.Processes {
		up := *p.UptimeSeconds
		if restarted := p.Locality[fdb.InstanceLocality] == "storage-5"; restarted && up > 10 || !restarted && up < 3600 {
			t.Errorf("%s is up for %.1f s", p.Locality[fdb.InstanceLocality], up)
		}
	}
}
