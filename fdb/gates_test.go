package fdb_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

var (
	gates = []fdb.Gate{fdb.GateBounce, fdb.GateExclude, fdb.GateRemove, fdb.GateInclude, fdb.GateConfigure, fdb.GateCoordinators, fdb.GateMaintenanceOff}
	now73 = fdb.Version{Major: 7, Minor: 3, Patch: 69}
	old71 = fdb.Version{Major: 7, Minor: 1, Patch: 21} // no time of the last recovery in the status
)

// change is one change of a healthy document, with the reason for which each gate that it closes is
// closed.
type change struct {
	name   string
	doc    func(tree)
	closed map[fdb.Gate]string
}

func all(reason string) map[fdb.Gate]string {
	closed := map[fdb.Gate]string{}
	for _, g := range gates {
		closed[g] = reason
	}
	return closed
}

func but(closed map[fdb.Gate]string, open ...fdb.Gate) map[fdb.Gate]string {
	closed = maps.Clone(closed)
	for _, g := range open {
		delete(closed, g)
	}
	return closed
}

func setting(path string, value any) func(tree) { return func(doc tree) { set(doc, path, value) } }

func setAll(values map[string]any) func(tree) {
	return func(doc tree) {
		for path, value := range values {
			set(doc, path, value)
		}
	}
}

func message(name string) []any { return []any{tree{"name": name, "description": "x"}} }

const (
	since       = "cluster/recovery_state/seconds_since_last_recovered"
	generations = "cluster/recovery_state/active_generations"
	mebibyte    = 1 << 20
)

// gateChanges has both sides of each boundary.
func gateChanges() []change {
	lagging := map[fdb.Gate]string{fdb.GateConfigure: fdb.StorageLags, fdb.GateMaintenanceOff: fdb.StorageLags}
	full := map[fdb.Gate]string{fdb.GateConfigure: fdb.QueuesFull, fdb.GateMaintenanceOff: fdb.QueuesFull}
	recent := func(gates ...fdb.Gate) map[fdb.Gate]string {
		closed := map[fdb.Gate]string{}
		for _, g := range gates {
			closed[g] = fdb.RecoveredRecently
		}
		return closed
	}
	return []change{
		{"healthy", func(tree) {}, nil},
		{"unavailable", setting("client/database_status/available", false), all(fdb.DatabaseUnavailable)},
		{"unhealthy", setting("client/database_status/healthy", false), nil},
		{"no generations", setting(generations, 0), nil},
		{"less than none", setting(generations, -1), all(fdb.StatusIncomplete)},
		{"10 generations", setting(generations, 10), nil},
		{"11 generations", setting(generations, 11), all(fdb.TooManyGenerations)},
		{"not recovered", setting(since, -1), but(all(fdb.NotRecovered), fdb.GateMaintenanceOff)},
		{"600 s", setting(since, 600), nil},
		{"599.9 s", setting(since, 599.9), recent(fdb.GateBounce, fdb.GateInclude)},
		{"300 s", setting(since, 300), recent(fdb.GateBounce, fdb.GateInclude)},
		{"299.9 s", setting(since, 299.9), recent(fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators)},
		{"120 s", setting(since, 120), recent(fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators)},
		{"119.9 s", setting(since, 119.9), recent(fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators, fdb.GateExclude, fdb.GateRemove)},
		{"60 s", setting(since, 60), recent(fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators, fdb.GateExclude, fdb.GateRemove)},
		{"59.9 s", setting(since, 59.9), but(all(fdb.RecoveredRecently), fdb.GateMaintenanceOff)},
		{"a young process", setting("cluster/processes/p-storage-1/uptime_seconds", 599.9), recent(fdb.GateBounce)},
		{"a process of 600 s", setting("cluster/processes/p-storage-1/uptime_seconds", 600), nil},
		{"no clean bounce", setting("cluster/bounce_impact/can_clean_bounce", false), map[fdb.Gate]string{fdb.GateBounce: fdb.NoCleanBounce}},
		{"all logs recruited", setting("cluster/recovery_state/name", "all_logs_recruited"), nil},
		{"storage recovered", setting("cluster/recovery_state/name", "storage_recovered"), map[fdb.Gate]string{fdb.GateInclude: fdb.NotRecovered}},
		{"data unhealthy", setting("cluster/data/state/healthy", false), map[fdb.Gate]string{fdb.GateConfigure: fdb.DataUnhealthy}},
		{"configuration unreadable", setting("cluster/messages", message("unreadable_configuration")), map[fdb.Gate]string{fdb.GateConfigure: fdb.ConfigurationUnreadable}},
		{"clients with issues", setting("cluster/messages", message("client_issues")), nil},
		// Either list of messages can say so (flaw 3).
		{"incomplete by the cluster", setting("cluster/messages", message("status_incomplete")), all(fdb.StatusIncomplete)},
		{"incomplete by the client", setting("client/messages", message("status_incomplete")), all(fdb.StatusIncomplete)},
		{"timed out by the cluster", setting("cluster/messages", message("status_incomplete_timeout")), all(fdb.StatusIncomplete)},
		{"timed out by the client", setting("client/messages", message("status_incomplete_timeout")), all(fdb.StatusIncomplete)},
		{"layers incomplete", setting("cluster/messages", message("layer_status_incomplete")), nil},
		{"data lag 60 s", setting("cluster/qos/worst_data_lag_storage_server/seconds", 60), nil},
		{"data lag 60.1 s", setting("cluster/qos/worst_data_lag_storage_server/seconds", 60.1), lagging},
		{"durability lag 60 s", setting("cluster/qos/worst_durability_lag_storage_server/seconds", 60), nil},
		{"durability lag 60.1 s", setting("cluster/qos/worst_durability_lag_storage_server/seconds", 60.1), lagging},
		{"log queue 250 MiB", setting("cluster/qos/worst_queue_bytes_log_server", 250*mebibyte), nil},
		{"log queue over 250 MiB", setting("cluster/qos/worst_queue_bytes_log_server", 250*mebibyte+1), full},
		{"storage queue 250 MiB", setting("cluster/qos/worst_queue_bytes_storage_server", 250*mebibyte), nil},
		{"storage queue over 250 MiB", setting("cluster/qos/worst_queue_bytes_storage_server", 250*mebibyte+1), full},
		{"a coordinator gone, 120 s", func(doc tree) {
			set(doc, "client/coordinators/coordinators/0/reachable", false)
			set(doc, since, 120)
		}, recent(fdb.GateBounce, fdb.GateInclude)},
		{"a coordinator gone, 119.9 s", func(doc tree) {
			set(doc, "client/coordinators/coordinators/0/reachable", false)
			set(doc, since, 119.9)
		}, recent(fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators, fdb.GateExclude, fdb.GateRemove)},
		{"a coordinator gone, unavailable, 11 generations", func(doc tree) {
			set(doc, "client/coordinators/coordinators/0/reachable", false)
			set(doc, "client/database_status/available", false)
			set(doc, generations, 11)
		}, but(all(fdb.DatabaseUnavailable), fdb.GateCoordinators)},
	}
}

func TestGates(t *testing.T) {
	for _, c := range gateChanges() {
		t.Run(c.name, func(t *testing.T) {
			doc := document(sample())
			c.doc(doc)
			s := parse(t, doc)
			for _, g := range gates {
				v := fdb.Open(g, s, fdb.Limits{}, now73)
				if v.Reason != c.closed[g] || v.Open != (c.closed[g] == "") || v.Open != (v.Message == "") {
					t.Errorf("%s: %+v instead of %q", g, v, c.closed[g])
				}
			}
		})
	}
}

func TestGateWithoutStatus(t *testing.T) {
	for _, g := range gates {
		if v := fdb.Open(g, nil, fdb.Limits{}, now73); v.Open || v.Reason != fdb.DatabaseSilent {
			t.Errorf("%s without a status: %+v", g, v)
		}
		if v := fdb.Open(g, &fdb.Status{}, fdb.Limits{}, now73); v.Open || v.Reason != fdb.StatusIncomplete {
			t.Errorf("%s with an empty status: %+v", g, v)
		}
	}
	if v := fdb.FullFaultTolerance(nil); v.Open || v.Reason != fdb.DatabaseSilent {
		t.Errorf("full fault tolerance without a status: %+v", v)
	}
}

func TestGateNames(t *testing.T) {
	s := parse(t, document(sample()))
	for _, g := range gates {
		for _, name := range []string{strings.ToLower(string(g)), strings.ToUpper(string(g))} {
			if v := fdb.Open(fdb.Gate(name), s, fdb.Limits{}, now73); !v.Open {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
	for _, name := range []fdb.Gate{"", "Bounces", "Exclude "} {
		if v := fdb.Open(name, s, fdb.Limits{}, now73); v.Open || v.Reason != fdb.GateUnknown {
			t.Errorf("%q: %+v", name, v)
		}
	}
}

func TestGateWait(t *testing.T) {
	for _, c := range []struct {
		gate    fdb.Gate
		doc     func(tree)
		want    time.Duration
		running fdb.Version
	}{
		{fdb.GateBounce, setting(since, 130), 470 * time.Second, now73},
		{fdb.GateBounce, setting("cluster/processes/p-log-1/uptime_seconds", 10.5), 589500 * time.Millisecond, now73},
		{fdb.GateExclude, setting(since, 100), 20 * time.Second, now73},
		{fdb.GateInclude, setting(since, 100), 500 * time.Second, now73},
		{fdb.GateConfigure, setting(since, 0), 60 * time.Second, now73},
		{fdb.GateCoordinators, setting(since, 100), 200 * time.Second, now73},
		{fdb.GateExclude, setting(since, -1), 0, now73},                                 // it cannot be known
		{fdb.GateExclude, setting("client/database_status/available", false), 0, now73}, // nor here
		{fdb.GateExclude, setting("cluster/processes/p-log-1/uptime_seconds", 100), 20 * time.Second, old71},
		{fdb.GateExclude, setAll(map[string]any{"client/database_status/available": false, since: 100}), 20 * time.Second, now73}, // at least
	} {
		doc := document(sample())
		c.doc(doc)
		if v := fdb.Open(c.gate, parse(t, doc), fdb.Limits{}, c.running); v.Open || v.In != c.want {
			t.Errorf("%s: %+v instead of in %s", c.gate, v, c.want)
		}
	}
}

// TestGatesBeforeRecoveryState: uptimes stand in where the status does not tell the last recovery.
func TestGatesBeforeRecoveryState(t *testing.T) {
	for _, uptime := range []struct {
		seconds float64
		closed  []fdb.Gate
	}{
		{600, nil},
		{599, []fdb.Gate{fdb.GateBounce, fdb.GateInclude}},
		{299, []fdb.Gate{fdb.GateBounce, fdb.GateInclude, fdb.GateCoordinators}},
		{119, []fdb.Gate{fdb.GateBounce, fdb.GateExclude, fdb.GateRemove, fdb.GateInclude, fdb.GateCoordinators}},
		{59, []fdb.Gate{fdb.GateBounce, fdb.GateExclude, fdb.GateRemove, fdb.GateInclude, fdb.GateConfigure, fdb.GateCoordinators}},
	} {
		doc := without(t, document(sample()), since)
		set(doc, "cluster/processes/p-storage-2/uptime_seconds", uptime.seconds)
		for _, g := range gates {
			if v := fdb.Open(g, parse(t, doc), fdb.Limits{}, old71); v.Open == slices.Contains(uptime.closed, g) {
				t.Errorf("%s at %g s: %+v", g, uptime.seconds, v)
			}
			if v := fdb.Open(g, parse(t, doc), fdb.Limits{}, now73); v.Open != (g == fdb.GateMaintenanceOff) {
				t.Errorf("%s of 7.3.69 without the time of recovery: %+v", g, v)
			}
		}
	}
}

func TestLimitsOfGates(t *testing.T) {
	doc := document(sample())
	set(doc, since, 5)
	for path, value := range map[string]any{"cluster/qos/worst_data_lag_storage_server/seconds": 90, "cluster/qos/worst_queue_bytes_log_server": 300 * mebibyte, generations: 12} {
		set(doc, path, value)
	}
	s := parse(t, doc)
	for name, l := range map[string]fdb.Limits{
		"none": {MinimumUptime: -1, Exclusion: -1, Inclusion: -1, Configuration: -1, CoordinatorMissing: -1, CoordinatorUndesired: -1, MaxGenerations: -1, MaxLag: -1, MaxQueue: -1},
		"own": {MinimumUptime: 5 * time.Second, Exclusion: 5 * time.Second, Inclusion: 5 * time.Second, Configuration: 5 * time.Second, CoordinatorUndesired: 5 * time.Second,
			MaxGenerations: 12, MaxLag: 90 * time.Second, MaxQueue: 300 * mebibyte},
	} {
		for _, g := range gates {
			if v := fdb.Open(g, s, l, now73); !v.Open {
				t.Errorf("%s with limits %s: %+v", g, name, v)
			}
		}
	}
}

// TestGateNeverOpensWithLess takes each member of each document of the table away, one at a time.
func TestGateNeverOpensWithLess(t *testing.T) {
	for _, c := range append(gateChanges(), toleranceChanges()...) {
		doc := document(lean())
		c.doc(doc)
		before := verdicts(parse(t, doc))
		for _, path := range members(doc, "") {
			back := take(doc, path)
			for name, v := range verdicts(parse(t, doc)) {
				if v.Open && !before[name].Open && !dropsYoung(name, path) {
					t.Errorf("%s: %s opens without %s", c.name, name, path)
				}
			}
			back()
		}
	}
}

// TestGatesNeedWhatTheyRead: each of these members closes, when it is missing, the gates that it decides.
func TestGatesNeedWhatTheyRead(t *testing.T) {
	for path, closed := range map[string][]fdb.Gate{
		"client":                                 gates,
		"cluster":                                gates,
		"client/messages":                        gates,
		"cluster/messages":                       gates,
		"client/database_status/available":       gates,
		generations:                              gates,
		since:                                    {fdb.GateBounce, fdb.GateExclude, fdb.GateRemove, fdb.GateInclude, fdb.GateConfigure, fdb.GateCoordinators},
		"cluster/processes":                      {fdb.GateBounce},
		"cluster/bounce_impact/can_clean_bounce": {fdb.GateBounce},
		"cluster/processes/p-log-2/uptime_seconds":                {fdb.GateBounce},
		"cluster/recovery_state/name":                             {fdb.GateInclude},
		"cluster/data/state/healthy":                              {fdb.GateConfigure},
		"cluster/qos":                                             {fdb.GateConfigure, fdb.GateMaintenanceOff},
		"cluster/qos/worst_data_lag_storage_server/seconds":       {fdb.GateConfigure, fdb.GateMaintenanceOff},
		"cluster/qos/worst_durability_lag_storage_server/seconds": {fdb.GateConfigure, fdb.GateMaintenanceOff},
		"cluster/qos/worst_queue_bytes_log_server":                {fdb.GateConfigure, fdb.GateMaintenanceOff},
		"cluster/qos/worst_queue_bytes_storage_server":            {fdb.GateConfigure, fdb.GateMaintenanceOff},
		"client/coordinators/coordinators":                        {fdb.GateCoordinators},
	} {
		s := parse(t, without(t, document(sample()), path))
		for _, g := range gates {
			if v := fdb.Open(g, s, fdb.Limits{}, now73); v.Open == slices.Contains(closed, g) {
				t.Errorf("%s without %s: %+v", g, path, v)
			}
		}
	}
}

// verdicts are those of all gates for both lines of versions, and of full fault tolerance.
func verdicts(s *fdb.Status) map[string]fdb.Verdict {
	found := map[string]fdb.Verdict{"FullFaultTolerance": fdb.FullFaultTolerance(s)}
	for _, g := range gates {
		found[string(g)] = fdb.Open(g, s, fdb.Limits{}, now73)
		found[string(g)+" of 7.1.21"] = fdb.Open(g, s, fdb.Limits{}, old71)
	}
	return found
}

// dropsYoung: that a whole process is missing cannot be seen, and its uptime is missing with it.
func dropsYoung(gate, path string) bool {
	parent, _ := split(path)
	return parent == "cluster/processes" && (gate == string(fdb.GateBounce) || strings.HasSuffix(gate, "7.1.21"))
}

// attempt makes a change, unless an earlier one has taken away what it changes.
func attempt(c change, doc tree) {
	defer func() { _ = recover() }()
	c.doc(doc)
}

// TestGateNeverOpensWithLessAtRandom draws documents with several troubles, values of wrong types, and
// takes several members away.
func TestGateNeverOpensWithLessAtRandom(t *testing.T) {
	changes := append(gateChanges(), toleranceChanges()...)
	rapid.Check(t, func(t *rapid.T) {
		doc := document(lean())
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			attempt(rapid.SampledFrom(changes).Draw(t, "change"), doc)
		}
		doc = clone(t, doc)
		before := verdicts(parse(t, doc))
		for i := range rapid.IntRange(1, 2).Draw(t, "removals") {
			paths := slices.DeleteFunc(members(doc, ""), func(path string) bool {
				parent, _ := split(path)
				return parent == "cluster/processes"
			})
			path := rapid.SampledFrom(paths).Draw(t, fmt.Sprint("path ", i))
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				set(doc, path, nil)
			case 1:
				set(doc, path, tree{})
			default:
				take(doc, path)
			}
			for gate, v := range verdicts(parse(t, doc)) {
				if v.Open && !before[gate].Open {
					t.Fatalf("%s opens without %s", gate, path)
				}
			}
		}
	})
}
