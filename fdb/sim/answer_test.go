package sim_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestJudge: what fdb.Judge makes of the texts that the model prints is what has happened in it.
func TestJudge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := version(rapid.SampledFrom([]string{"7.1.67", "7.3.69", "7.4.6"}).Draw(rt, "version"))
		f := newFixture(t, shape{options: sim.Options{Seed: rapid.Uint64().Draw(rt, "seed"), Shards: 12, DiskBytes: 2400 << 20}, version: v.String(), storage: 5, log: 4, stateless: 4})
		if rapid.Bool().Draw(rt, "made") {
			f.do("configure new double ssd")
			f.settle()
		}
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			if rapid.IntRange(0, 3).Draw(rt, "accident") == 0 {
				f.Crash(fmt.Sprintf("log-%d", rapid.IntRange(1, 4).Draw(rt, "crash")))
			}
			call := drawCall(rt)
			call.Timeout = 20 * time.Second
			before := f.picture()
			f.SetAgents(rapid.IntRange(0, 1).Draw(rt, "agents"))
			a := f.Call(call, v, f.Connection())
			result := fdb.Judge(call, v, a.Exit, a.Stdout, a.Stderr)
			if result.Reason == fdb.UnknownText || result.Reason == fdb.UnknownExit {
				rt.Fatalf("%s is not understood: %v\nexit %d\n%s\n%s", call.Text(), result, a.Exit, a.Stdout, a.Stderr)
			}
			if problem := f.happened(call, result, before); problem != "" {
				rt.Fatalf("%s %v: %s: %s\nexit %d\n%s\n%s", call.Command, call.Targets, result, problem, a.Exit, a.Stdout, a.Stderr)
			}
			f.Advance(time.Duration(rapid.IntRange(0, 120).Draw(rt, "wait")) * time.Second)
		}
	})
}

func drawCall(rt *rapid.T) fdb.Call {
	targets := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"locality_instance_id:storage-1", "locality_instance_id:storage-5", "locality_instance_id:log-1", "locality_instance_id:nobody",
		"10.1.0.2", "10.1.0.6:4501", "10.1.0.7:4501", "10.7.7.7", "10.7.7.7:4501", "10.1.0.3",
	}), 1, 3, rapid.ID[string]).Draw(rt, "targets")
	addresses := rapid.SampledFrom([][]string{{"10.1.0.7:4501"}, {"10.1.0.11:4501", "10.1.0.12:4501"}, {"10.7.7.7:4501"}}).Draw(rt, "addresses")
	wiggle := 1
	switch rapid.IntRange(0, 17).Draw(rt, "call") {
	case 0:
		return fdb.Exclude(targets, true)
	case 1, 2:
		return fdb.Exclude(targets, false)
	case 3:
		return fdb.Include(targets)
	case 4:
		return fdb.Kill(addresses, false)
	case 5:
		return fdb.Kill(addresses, true)
	case 6:
		return fdb.MaintenanceOn("node-storage-1", 10*time.Minute)
	case 7:
		return fdb.MaintenanceOff()
	case 8:
		return fdb.Coordinators(rapid.SampledFrom([][]string{
			{"10.1.0.2:4501", "10.1.0.3:4501", "10.1.0.4:4501"}, {"10.1.0.5:4501", "10.1.0.6:4501", "10.1.0.7:4501"}, {"10.7.7.7:4501"},
		}).Draw(rt, "coordinators"))
	case 9, 10:
		return fdb.Configure(rapid.SampledFrom([]fdb.Configuration{
			{}, {RedundancyMode: fdb.Triple}, {RedundancyMode: fdb.ThreeDataHall}, {StorageEngine: "ssd-rocksdb-v1"},
			{StorageEngine: "ssd-rocksdb-v1", StorageMigrationType: "gradual"}, {StorageEngine: "memory", StorageMigrationType: "gradual", PerpetualStorageWiggle: &wiggle},
			{RoleCounts: fdb.RoleCounts{Logs: 4, CommitProxies: 3, GRVProxies: 1}}, {UsableRegions: 2, Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{{ID: "a", Priority: 1}}}, {Datacenters: []fdb.Datacenter{{ID: "b", Priority: 0}}}}},
		}).Draw(rt, "configuration"), rapid.IntRange(0, 4).Draw(rt, "new") == 0)
	case 11:
		return fdb.ReadStatus()
	case 12:
		return fdb.ReadConnection()
	case 13:
		return fdb.StartBackup(fdb.Backup{Tag: "default", URL: backupURL})
	case 14:
		return rapid.SampledFrom([]fdb.Call{
			fdb.DiscontinueBackup("default"), fdb.AbortBackup("default"), fdb.PauseBackups(), fdb.ResumeBackups(),
			fdb.ModifyBackup(fdb.Backup{Tag: "default", URL: backupURL, SnapshotPeriodSeconds: 3600}), fdb.DeleteBackup(backupURL),
		}).Draw(rt, "backup")
	case 15:
		return fdb.ReadBackupStatus("default")
	case 16:
		return fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL})
	default:
		return rapid.SampledFrom([]fdb.Call{fdb.ReadRestoreStatus("r1"), fdb.AbortRestore("r1"), fdb.ReadVersion()}).Draw(rt, "restore")
	}
}

const backupURL = "blobstore://minio@minio:9000/b?bucket=fdb-backups"

// picture is what calls change.
type picture struct {
	exclusions    []string
	configuration string
	coordinators  fdb.Connection
	backups       string
}

func (f *fixture) picture() picture {
	p := picture{exclusions: f.Exclusions(), coordinators: f.Connection()}
	if c := f.status().Cluster.Configuration; c != nil {
		text, err := json.Marshal(c.Normalized())
		if err != nil {
			f.t.Fatal(err)
		}
		p.configuration = string(text)
	}
	p.backups = f.backupStatus()
	return p
}

// backupStatus returns the states of the tags of TestJudge.
func (f *fixture) backupStatus() string {
	if !f.Available() {
		return "unknown"
	}
	a := f.Call(fdb.ReadBackupStatus("default"), f.Protocol(), f.Connection())
	s, err := fdb.ParseBackupStatus([]byte(a.Stdout))
	if err != nil {
		return "unknown"
	}
	return string(s.State)
}

// happened compares a result with the model: Ok has happened, Refused has not.
func (f *fixture) happened(call fdb.Call, result fdb.Result, before picture) (problem string) {
	now := f.picture()
	switch {
	case result.Outcome == fdb.Refused && call.Command == fdb.CommandExclude && (result.Reason == fdb.ExclusionInProgress || result.Reason == fdb.StillCoordinator):
		return "" // the exclusion has begun
	case result.Outcome == fdb.Refused:
		if !slices.Equal(before.exclusions, now.exclusions) || before.coordinators.String() != now.coordinators.String() ||
			call.Command == fdb.CommandConfigure && before.configuration != now.configuration {
			return "it has changed something"
		}
		return ""
	case result.Outcome != fdb.Ok:
		return ""
	}
	switch call.Command {
	case fdb.CommandExclude:
		for _, target := range call.Targets {
			if !slices.Contains(now.exclusions, target) {
				return target + " is not excluded"
			}
		}
		if call.NoWait {
			return ""
		}
		for _, p := range f.status().Cluster.Processes {
			id := p.Locality[fdb.InstanceLocality]
			if slices.Contains(call.Targets, "locality_instance_id:"+id) && f.Holds(id).Shards > 0 {
				return id + " holds shards"
			}
		}
	case fdb.CommandInclude:
		for _, target := range call.Targets {
			if slices.Contains(now.exclusions, target) {
				return target + " is still excluded"
			}
		}
	case fdb.CommandConfigure:
		if now.configuration == "" {
			return "there is no configuration"
		}
	case fdb.CommandCoordinators:
		if len(now.coordinators.Coordinators) != len(call.Targets) {
			return "other coordinators"
		}
	case fdb.CommandStartBackup:
		if !fdb.BackupState(now.backups).Running() && now.backups != "unknown" {
			return "no backup runs: " + now.backups
		}
	case fdb.CommandAbortBackup:
		if fdb.BackupState(now.backups).Running() {
			return "it runs"
		}
	}
	return ""
}

// TestConnectionAndVersion: what only reads can be read.
func TestConnectionAndVersion(t *testing.T) {
	for _, text := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		f := newFixture(t, shape{version: text, storage: 3, log: 3, stateless: 2})
		f.do("configure new single memory")
		f.settle()
		a := f.Call(fdb.ReadConnection(), f.version, f.first)
		if !strings.Contains(a.Stdout, f.Connection().String()) {
			t.Error(a.Stdout)
		}
		a = f.Call(fdb.ReadVersion(), f.version, f.first)
		protocol, err := fdb.Protocol(a.Stdout)
		if err != nil || !strings.HasPrefix(protocol, "fdb00b07"+strings.Split(text, ".")[1]) {
			t.Error(protocol, err)
		}
	}
}
