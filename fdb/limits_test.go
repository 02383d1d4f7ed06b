package fdb_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/fdb"
)

func TestLimitsDefaults(t *testing.T) {
	want := fdb.Limits{
		MinimumUptime: 600 * time.Second, Exclusion: 120 * time.Second, Inclusion: 600 * time.Second, Configuration: 60 * time.Second,
		CoordinatorMissing: 120 * time.Second, CoordinatorUndesired: 300 * time.Second, ControllerUptime: time.Hour,
		MaxGenerations: 10, MaxLag: 60 * time.Second, MaxQueue: 250 * 1024 * 1024,
		MaintenanceStale: 4 * time.Hour, MaintenanceWait: 5 * time.Minute,
		GlobalSynchronizationWait: 30 * time.Second, TerminalPodAge: 30 * time.Second, BounceSyncWait: 600 * time.Second,
	}
	if d := cmp.Diff(want, fdb.Limits{}.WithDefaults()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, want.WithDefaults()); d != "" {
		t.Errorf("filled in twice: %s", d)
	}
	none := fdb.Limits{
		MinimumUptime: -1, Exclusion: -1, Inclusion: -1, Configuration: -1, CoordinatorMissing: -1, CoordinatorUndesired: -1, ControllerUptime: -1, MaxGenerations: -1, MaxLag: -1,
		MaxQueue: -1, MaintenanceStale: -1, MaintenanceWait: -1, GlobalSynchronizationWait: -1, TerminalPodAge: -1, BounceSyncWait: -1, RunLoopBusy: 0.5, NoExclusionSpare: true,
	}
	if d := cmp.Diff(fdb.Limits{MaxGenerations: math.MaxInt32, MaxLag: math.MaxInt64, MaxQueue: math.MaxInt64, MaintenanceStale: math.MaxInt64, RunLoopBusy: 0.5, NoExclusionSpare: true}, none.WithDefaults()); d != "" {
		t.Errorf("none: %s", d)
	}
	text, err := json.Marshal(fdb.Limits{})
	if err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}
