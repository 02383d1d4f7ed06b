package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/lock"
)

// TestInvariants breaks each invariant on purpose: one that was never seen to fire is not believed.
func TestInvariants(t *testing.T) {
	quiet := 20 * time.Minute
	for _, tt := range []struct {
		invariant int
		name      string
		options   sim.Options
		breaks    func(f *fixture)
		text      string
	}{
		{1, "a claim with shards is deleted", sim.Options{}, func(f *fixture) {
			f.Stop("storage-5")
			f.By("operator", func() { f.Erase("storage-5") })
		}, "24 shards"},
		{1, "a claim with logs is deleted", sim.Options{}, func(f *fixture) {
			f.Stop("log-1")
			f.By("operator", func() { f.Erase("log-1") })
		}, "logs"},
		{1, "the claim of a coordinator is deleted", sim.Options{}, func(f *fixture) {
			f.do("exclude locality_instance_id:storage-1")
			f.By("operator", func() { f.Erase("storage-1") })
		}, "the state of a coordinator"},
		{1, "a pod that is excluded and has roles is deleted", sim.Options{}, func(f *fixture) {
			f.do("exclude no_wait locality_instance_id:log-1")
			f.By("operator", func() { f.Stop("log-1") })
		}, "log-1 is removed while it holds 1 logs, log"},
		{1, "two logs are away at once", sim.Options{}, func(f *fixture) {
			f.By("operator", func() { f.Stop("log-1") })
			f.Cut("log-2", true)
			f.Advance(15 * time.Second)
			f.By("operator", func() { f.Stop("log-3") })
		}, "other logs of generation"},
		{2, "the last copy is erased", sim.Options{}, func(f *fixture) {
			for n := 1; n <= 5; n++ {
				f.Stop(fmt.Sprintf("storage-%d", n))
				f.Erase(fmt.Sprintf("storage-%d", n))
			}
		}, "the last copy of shard"},
		{2, "pods of two zones are deleted", sim.Options{}, func(f *fixture) {
			f.By("operator", func() { f.Stop("storage-4") })
			f.Advance(15 * time.Second)
			f.By("operator", func() { f.Stop("storage-5") })
		}, "storage-5 is deleted, and some shard has 0 readable copies"},
		{3, "a majority of coordinators is deleted", sim.Options{}, func(f *fixture) {
			f.By("operator", func() { f.Stop("storage-1") })
			f.Advance(5 * time.Minute)
			f.By("operator", func() { f.Stop("storage-2") })
		}, "of 3 coordinators 1 are left"},
		{4, "two recoveries within a window", sim.Options{}, func(f *fixture) {
			f.do("kill; kill 10.1.0.7:4501")
			f.Advance(40 * time.Second)
			f.do("kill; kill 10.1.0.8:4501")
			f.Advance(5 * time.Second)
		}, "after another one"},
		{4, "a recovery with many generations", sim.Options{Rules: sim.Rules{Generations: 1}, Times: sim.Times{Drain: 10 * time.Minute}}, func(f *fixture) {
			f.do("kill; kill 10.1.0.7:4501")
			f.Advance(2 * time.Minute)
			f.do("kill; kill 10.1.0.8:4501")
			f.Advance(5 * time.Second)
		}, "while 2 generations are active"},
		{5, "the database is made twice", sim.Options{}, func(f *fixture) {
			f.cli("configure new double ssd", time.Minute)
		}, "although the database is there"},
		{5, "a configuration is refused", sim.Options{}, func(f *fixture) {
			f.cli("configure ssd-rocksdb-v1", time.Minute)
		}, "refused: configure ssd-rocksdb-v1"},
		{6, "without a lock", sim.Options{Rules: sim.Rules{Locks: true}}, func(f *fixture) {
			f.do("exclude no_wait 10.1.0.6")
		}, "acts without the lock"},
		{6, "with the lock of another", sim.Options{Rules: sim.Rules{Locks: true}}, func(f *fixture) {
			f.lock("other", f.Now().Add(time.Hour))
			f.do("exclude no_wait 10.1.0.6")
		}, "acts while other has the lock"},
		{6, "with a lock that has expired", sim.Options{Rules: sim.Rules{Locks: true}}, func(f *fixture) {
			f.lock("operator", f.Now())
			f.do("maintenance on node-storage-1 60")
		}, "a lock that has expired"},
		{6, "denied", sim.Options{Rules: sim.Rules{Locks: true}}, func(f *fixture) {
			f.lock("operator", f.Now().Add(time.Hour))
			f.write(fdb.Keys("").Denied("operator"), []byte("operator"))
			f.do("kill; kill 10.1.0.6:4501")
		}, "although it is denied"},
		{7, "two protocols for long", sim.Options{}, func(f *fixture) {
			server := f.server(fdb.ClassStateless, 2)
			server.Version = version("7.4.6")
			server.Connection = f.Connection()
			f.By("operator", func() { f.Start(server) })
			f.Advance(5 * time.Minute)
		}, "processes of two protocols"},
		{8, "included while its pod is there", sim.Options{}, func(f *fixture) {
			f.do("exclude locality_instance_id:storage-5")
			f.do("include locality_instance_id:storage-5")
		}, "is included while storage-5 is there"},
		{8, "an exclusion is left over", sim.Options{}, func(f *fixture) {
			f.do("exclude 10.9.9.9")
			f.JudgeSettled(f.Mark())
		}, "10.9.9.9 is excluded, and nothing of it is there"},
		{9, "more than the budget", sim.Options{Rules: sim.Rules{Excluded: 1}}, func(f *fixture) {
			f.do("exclude no_wait locality_instance_id:storage-4 locality_instance_id:storage-5")
		}, "2 servers of class storage"},
		{9, "while the database is unavailable", sim.Options{}, func(f *fixture) {
			for n := 1; n <= 4; n++ {
				f.Stop(fmt.Sprintf("log-%d", n))
			}
			f.Advance(10 * time.Second)
			f.cli("exclude no_wait locality_instance_id:storage-5", 10*time.Second)
		}, "while the database is unavailable"},
		{10, "nobody mends it", sim.Options{Rules: sim.Rules{Bound: time.Hour}}, func(f *fixture) {
			f.Stop("log-1")
			f.Stop("log-2")
			f.Stop("log-3")
			f.Advance(2 * time.Hour)
			f.Crash("stateless-1")
			f.Advance(2 * time.Hour)
		}, "the database is unavailable"},
		{11, "something is done to a settled database", sim.Options{}, func(f *fixture) {
			mark := f.Mark()
			f.do("maintenance off")
			f.JudgeSettled(mark)
		}, "1 acts on a settled database"},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.invariant, tt.name), func(t *testing.T) {
			tt.options.Seed = 1
			locks := tt.options.Rules.Locks
			f := newFixture(t, shape{options: tt.options, storage: 5, log: 4, stateless: 5})
			f.Run(sim.Run{Argv: []string{"--exec", "configure new double ssd"}, Version: f.version, Connection: f.first})
			f.settle()
			f.Advance(quiet)
			if got := f.Violations(); len(got) > 0 && !locks {
				t.Fatalf("violated before: %v", got)
			}
			tt.breaks(f)
			f.broken(tt.invariant, tt.text)
		})
	}
}

// write sets a key, as some other program.
func (f *fixture) write(key string, value []byte) {
	f.t.Helper()
	tr := f.Transaction()
	tr.Write(fdb.Set(key, value))
	if err := tr.Commit(); err != nil {
		f.t.Fatal(err)
	}
}

// lock gives the lock to an owner.
func (f *fixture) lock(owner string, end time.Time) {
	f.t.Helper()
	f.write(fdb.Keys("").Global(), fdb.EncodeLock(lock.Record{Owner: owner, Start: f.Now(), End: end}))
}

// TestNothingViolated: what an operator does as it should breaks nothing.
func TestNothingViolated(t *testing.T) {
	f := sample(t, sim.Options{Seed: 1, Rules: sim.Rules{Locks: false, Excluded: 1, Bound: time.Hour}})
	f.Advance(20 * time.Minute)
	f.add(fdb.ClassStorage, 6)
	f.Advance(10 * time.Second)
	f.do("exclude no_wait locality_instance_id:storage-5")
	f.do("exclude locality_instance_id:storage-5")
	f.By("operator", func() {
		f.Stop("storage-5")
		f.Erase("storage-5")
	})
	f.Advance(10 * time.Minute)
	f.do("include locality_instance_id:storage-5")
	f.settle()
	f.Advance(10 * time.Minute)
	f.By("operator", func() { f.Stop("storage-4") })
	f.Advance(time.Minute)
	server := f.server(fdb.ClassStorage, 4)
	server.Connection = f.first
	f.By("operator", func() { f.Start(server) })
	f.settle()
	f.Advance(3 * time.Hour)
	f.JudgeSettled(f.Mark())
	f.clean()
	if got := f.CausedRecoveries(); got != 0 {
		t.Errorf("%d recoveries were caused\n%s", got, f.lines())
	}
}
