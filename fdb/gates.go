package fdb

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Gate is what must be true of the database before an act that disturbs it.
type Gate string

// The gates. Remove is Exclude under the name of the act that needs it: the two open together.
const (
	GateBounce         Gate = "Bounce"
	GateExclude        Gate = "Exclude"
	GateRemove         Gate = "Remove"
	GateInclude        Gate = "Include"
	GateConfigure      Gate = "Configure"
	GateCoordinators   Gate = "Coordinators"
	GateMaintenanceOff Gate = "MaintenanceOff"
)

// The reasons of verdicts.
const (
	DatabaseSilent          = "DatabaseSilent"          // there is no status
	StatusIncomplete        = "StatusIncomplete"        // the status lacks what decides, or says that it is incomplete
	DatabaseUnavailable     = "DatabaseUnavailable"     //
	TooManyGenerations      = "TooManyGenerations"      // of logs
	RecoveredRecently       = "RecoveredRecently"       // the last recovery or restart is too short ago; In says how long it takes at least
	NoCleanBounce           = "NoCleanBounce"           // a restart would not be clean
	NotRecovered            = "NotRecovered"            // the recovery is not far enough
	DataUnhealthy           = "DataUnhealthy"           // data distribution repairs replicas
	ConfigurationUnreadable = "ConfigurationUnreadable" //
	StorageLags             = "StorageLags"             // a storage server is far behind
	QueuesFull              = "QueuesFull"              // a log or storage server has a long queue
	FaultToleranceReduced   = "FaultToleranceReduced"   // replicas, logs or coordinators are missing
	GateUnknown             = "GateUnknown"             // no gate has this name
)

// Verdict says whether a gate is open, and if not, why.
type Verdict struct {
	Open    bool   `json:"open"`
	Reason  string `json:"reason,omitempty"`  // in CamelCase; empty when open
	Message string `json:"message,omitempty"` // for people
	// In is how long the gate stays closed at least; 0: that cannot be known.
	In time.Duration `json:"in,omitempty"`
}

// bar collects what closes a gate: the first reason, and the longest of the known waits.
type bar struct {
	s       *Status
	limits  Limits
	running Version
	verdict Verdict
}

func (b *bar) close(reason, format string, args ...any) {
	if b.verdict.Open {
		b.verdict = Verdict{Reason: reason, Message: fmt.Sprintf(format, args...), In: b.verdict.In}
	}
}

// Open judges a gate, whose name is read without regard to case. Only what the status says opens it:
// a field that is missing or of another type closes it.
//
//	gate            available    generations  since recovery               also
//	Bounce          yes          <= 10        uptime >= 600 s              can_clean_bounce
//	Exclude, Remove yes          <= 10        120 s
//	Include         yes          <= 10        600 s                        fully_recovered or all_logs_recruited
//	Configure       yes          <= 10        60 s                         data healthy, configuration readable, lags and queues
//	Coordinators    unless gone  unless gone  120 s if one is gone, else 300 s
//	MaintenanceOff  yes          <= 10        -                            lags and queues
//
// A coordinator is gone when the client does not reach it. That processes are missing from the
// document does not count: a document with less in it must not open a gate.
func Open(g Gate, s *Status, l Limits, running Version) Verdict {
	if s == nil {
		return Verdict{Reason: DatabaseSilent, Message: "the database gave no status"}
	}
	b := &bar{s: s, limits: l.WithDefaults(), running: running, verdict: Verdict{Open: true}}
	b.complete()
	switch Gate(strings.ToLower(string(g))) {
	case "bounce":
		b.available()
		b.generations(b.limits.MaxGenerations)
		b.uptime()
		b.cleanBounce()
	case "exclude", "remove":
		b.available()
		b.generations(b.limits.MaxGenerations)
		b.recovered(b.limits.Exclusion)
	case "include":
		b.available()
		b.generations(b.limits.MaxGenerations)
		b.recovered(b.limits.Inclusion)
		b.inclusionState()
	case "configure":
		b.available()
		b.generations(b.limits.MaxGenerations)
		b.recovered(b.limits.Configuration)
		b.dataHealthy()
		b.configurationReadable()
		b.lags()
	case "coordinators":
		b.coordinators()
	case "maintenanceoff":
		b.available()
		b.generations(b.limits.MaxGenerations)
		b.lags()
	default:
		b.close(GateUnknown, "there is no gate %q", g)
	}
	return b.verdict
}

// complete closes when the status is incomplete, which either list of messages can say: a time-out is
// seen by the client, a failed part by the cluster controller (fdbclient/StatusClient.actor.cpp,
// fdbserver/Status.actor.cpp, 7.3.69). Both lists are always written, so one that is missing may have
// said so.
func (b *bar) complete() {
	for _, list := range []struct {
		name     string
		messages []Message
	}{{"client.messages", b.s.Client.Messages}, {"cluster.messages", b.s.Cluster.Messages}} {
		if list.messages == nil {
			b.close(StatusIncomplete, "the status has no %s", list.name)
		}
		for _, m := range list.messages {
			if m.Name == "" || strings.HasPrefix(m.Name, "status_incomplete") {
				b.close(StatusIncomplete, "the status is incomplete: %s in %s", cmp.Or(m.Name, "a message without name"), list.name)
			}
		}
	}
}

func (b *bar) available() {
	if a := b.s.Client.DatabaseStatus.Available; a == nil || !*a {
		b.close(DatabaseUnavailable, "the database is not available")
	}
}

func (b *bar) generations(most int) {
	switch n := b.s.Cluster.RecoveryState.ActiveGenerations; {
	case n == nil || *n < 0:
		b.close(StatusIncomplete, "the status does not say how many generations of logs are active")
	case *n > most:
		b.close(TooManyGenerations, "%d generations of logs are active, at most %d may be", *n, most)
	}
}

// uptime closes while the database is up for too short a time.
func (b *bar) uptime() {
	up, unknown := minimumUptime(b.s, b.running)
	b.wait(up, unknown, b.limits.MinimumUptime, "up for")
}

// recovered closes while the last recovery is too short ago.
func (b *bar) recovered(least time.Duration) {
	since, unknown := sinceRecovery(b.s, b.running)
	b.wait(since, unknown, least, "recovered for")
}

func (b *bar) wait(have time.Duration, unknown *doubt, least time.Duration, what string) {
	if unknown != nil {
		b.close(unknown.reason, "%s", unknown.message)
		return
	}
	if have < least {
		b.close(RecoveredRecently, "the database must be %s %s", what, least) // how long it is would be another text each time
		b.verdict.In = max(b.verdict.In, least-have)
	}
}

// cleanBounce: the field is false until the cluster is fully recovered (fdbserver/Status.actor.cpp,
// getBounceImpactInfo, 7.3.69).
func (b *bar) cleanBounce() {
	switch can := b.s.Cluster.BounceImpact.CanCleanBounce; {
	case can == nil:
		b.close(StatusIncomplete, "the status does not say whether a restart would be clean")
	case !*can:
		b.close(NoCleanBounce, "a restart would not be clean: the recovery is at %s", cmp.Or(b.s.Cluster.RecoveryState.Name, "an unknown state"))
	}
}

// inclusionState: in other states a change of the list of excluded servers can end the cluster
// controller (fdbserver/ClusterRecovery.actor.cpp, 7.1.67).
func (b *bar) inclusionState() {
	switch name := b.s.Cluster.RecoveryState.Name; name {
	case "fully_recovered", "all_logs_recruited":
	case "":
		b.close(StatusIncomplete, "the status does not say where the recovery is")
	default:
		b.close(NotRecovered, "the recovery is at %s, it must be at fully_recovered or all_logs_recruited", name)
	}
}

func (b *bar) dataHealthy() {
	switch state := b.s.Cluster.Data.State; {
	case state.Healthy == nil:
		b.close(StatusIncomplete, "the status does not say whether the data is healthy")
	case !*state.Healthy:
		b.close(DataUnhealthy, "the data is not healthy: %s", cmp.Or(state.Name, "no state is given"))
	}
}

func (b *bar) configurationReadable() {
	for _, m := range b.s.Cluster.Messages {
		if m.Name == "unreadable_configuration" {
			b.close(ConfigurationUnreadable, "the configuration of the database cannot be read")
		}
	}
}

func (b *bar) lags() {
	q := b.s.Cluster.QoS
	for _, lag := range []struct {
		what    string
		seconds *float64
	}{{"data", q.WorstDataLag.Seconds}, {"durability", q.WorstDurabilityLag.Seconds}} {
		switch {
		case lag.seconds == nil:
			b.close(StatusIncomplete, "the status does not say how large the %s lag of storage servers is", lag.what)
		case *lag.seconds > b.limits.MaxLag.Seconds():
			b.close(StorageLags, "the %s lag of a storage server is %.1f s, at most %s may be", lag.what, *lag.seconds, b.limits.MaxLag)
		}
	}
	for _, queue := range []struct {
		what  string
		bytes *int64
	}{{"log", q.WorstLogQueue}, {"storage", q.WorstStorageQueue}} {
		switch {
		case queue.bytes == nil:
			b.close(StatusIncomplete, "the status does not say how long the queues of %s servers are", queue.what)
		case *queue.bytes > b.limits.MaxQueue:
			b.close(QueuesFull, "the queue of a %s server has %d bytes, at most %d may be", queue.what, *queue.bytes, b.limits.MaxQueue)
		}
	}
}

func (b *bar) coordinators() {
	if len(b.s.Client.Coordinators.Coordinators) == 0 {
		b.close(StatusIncomplete, "the status shows no coordinators")
	}
	for _, c := range b.s.Client.Coordinators.Coordinators {
		if c.Reachable != nil && !*c.Reachable {
			b.recovered(b.limits.CoordinatorMissing)
			return
		}
	}
	b.available()
	b.generations(b.limits.MaxGenerations)
	b.recovered(b.limits.CoordinatorUndesired)
}

// FullFaultTolerance judges whether a zone more could be lost: the database is available, each team
// has all its replicas, each set of logs all its members, and all coordinators are reachable. In a
// cluster of several usable regions the status must show the remote teams and logs.
func FullFaultTolerance(s *Status) Verdict {
	if s == nil {
		return Verdict{Reason: DatabaseSilent, Message: "the database gave no status"}
	}
	b := &bar{s: s, verdict: Verdict{Open: true}}
	b.complete()
	b.available()
	b.teams()
	b.logSets()
	b.quorum()
	return b.verdict
}

func (b *bar) teams() {
	c := b.s.Cluster.Configuration
	if c == nil || c.RedundancyMode == "" {
		b.close(StatusIncomplete, "the status does not say what the redundancy of the database is")
		return
	}
	if !c.RedundancyMode.Known() {
		b.close(StatusIncomplete, "how many replicas redundancy %q needs is not known", c.RedundancyMode)
	}
	least := c.RedundancyMode.FaultDomains()
	trackers := b.s.Cluster.Data.TeamTrackers
	if len(trackers) == 0 {
		b.close(StatusIncomplete, "the status shows no teams")
	}
	remote := false
	for _, t := range trackers {
		where := "the primary region"
		if t.Primary == nil || !*t.Primary {
			where, remote = "the remote region", remote || t.Primary != nil
		}
		switch left := t.State.MinReplicasRemaining; {
		case left == nil:
			b.close(StatusIncomplete, "the status does not say how many replicas are left in %s", where)
		case *left < least:
			b.close(FaultToleranceReduced, "some data has %d replicas in %s, it should have %d", *left, where, least)
		}
	}
	switch {
	case c.UsableRegions > 1 && !remote:
		b.close(StatusIncomplete, "the status shows no teams of the remote region")
	case c.UsableRegions == 0 && len(c.Regions) > 1:
		b.close(StatusIncomplete, "the status does not say how many regions are used")
	}
}

func (b *bar) logSets() {
	logs := b.s.Cluster.Logs
	if len(logs) == 0 {
		b.close(StatusIncomplete, "the status shows no logs")
	}
	remote := false
	for _, l := range logs {
		remote = remote || l.RemoteFactor != nil
		if l.LogFactor == nil && (l.Current == nil || *l.Current || l.RemoteFactor == nil && l.SatelliteFactor == nil) {
			b.close(StatusIncomplete, "the status does not show the logs of a generation")
		}
		for _, set := range []struct {
			what           string
			factor, losses *int
		}{
			{"logs", l.LogFactor, l.LogFaultTolerance},
			{"remote logs", l.RemoteFactor, l.RemoteFaultTolerance},
			{"satellite logs", l.SatelliteFactor, l.SatelliteFaultTolerance},
		} {
			switch {
			case set.factor == nil && set.losses == nil, set.factor != nil && *set.factor == 0:
			case set.factor == nil || set.losses == nil:
				b.close(StatusIncomplete, "the status does not say how many %s are left", set.what)
			case *set.losses+1 != *set.factor:
				b.close(FaultToleranceReduced, "a generation of %s tolerates %d losses, it should tolerate %d", set.what, *set.losses, *set.factor-1)
			}
		}
	}
	if c := b.s.Cluster.Configuration; c != nil && c.UsableRegions > 1 && !remote {
		b.close(StatusIncomplete, "the status shows no remote logs")
	}
}

func (b *bar) quorum() {
	c := b.s.Client.Coordinators
	if len(c.Coordinators) == 0 {
		b.close(StatusIncomplete, "the status shows no coordinators")
	}
	for _, one := range c.Coordinators {
		if one.Reachable == nil || !*one.Reachable {
			b.close(FaultToleranceReduced, "coordinator %s is not reachable", one.Address)
		}
	}
	if c.QuorumReachable == nil || !*c.QuorumReachable {
		b.close(FaultToleranceReduced, "no quorum of coordinators is reachable")
	}
}

// Limits are the numbers that gates and judgements compare with. A zero field has its default, a
// negative one means none: no wait, no bound.
type Limits struct {
	// MinimumUptime is how long the database must be up before processes are restarted: 600 s. It
	// is spec.minimumUptimeSecondsForBounce of a cluster.
	MinimumUptime time.Duration `json:"minimumUptimeSecondsForBounce,omitempty"`

	// Exclusion, Inclusion and Configuration are how long ago the last recovery must be: 120 s, 600 s,
	// 60 s.
	Exclusion     time.Duration `json:"minimumRecoveryTimeForExclusion,omitempty"`
	Inclusion     time.Duration `json:"minimumRecoveryTimeForInclusion,omitempty"`
	Configuration time.Duration `json:"minimumRecoveryTimeForConfiguration,omitempty"`

	// CoordinatorMissing and CoordinatorUndesired are how long ago the last recovery must be before
	// coordinators are changed because one is gone, or because another one is better: 120 s, 300 s.
	CoordinatorMissing   time.Duration `json:"coordinatorMissingWait,omitempty"`
	CoordinatorUndesired time.Duration `json:"coordinatorUndesiredWait,omitempty"`

	// ControllerUptime is how long the database must be up before the cluster controller is restarted
	// because of dead testers: 1 h.
	ControllerUptime time.Duration `json:"minimumRequiredUptimeForCCBounce,omitempty"`

	MaxGenerations int           `json:"maxGenerations,omitempty"` // active generations of logs: 10
	MaxLag         time.Duration `json:"maxLag,omitempty"`         // data and durability lag: 60 s
	MaxQueue       int64         `json:"maxQueueBytes,omitempty"`  // log and storage queues: 250 MiB

	// MaintenanceStale is the age at which an entry of the maintenance list is dropped: 4 h.
	// MaintenanceWait is how long an entry of another zone is waited for: 5 min.
	MaintenanceStale time.Duration `json:"maintenanceListStale,omitempty"`
	MaintenanceWait  time.Duration `json:"maintenanceListWait,omitempty"`

	GlobalSynchronizationWait time.Duration `json:"globalSynchronizationWait,omitempty"` // 30 s
	TerminalPodAge            time.Duration `json:"terminalPodAge,omitempty"`            // 30 s
	BounceSyncWait            time.Duration `json:"bounceSyncWait,omitempty"`            // 600 s

	// RunLoopBusy is the load of the run loop, 0 to 1, from which a process is shown as busy; 0: never.
	RunLoopBusy float64 `json:"runLoopBusyThreshold,omitempty"`
	// NoExclusionSpare leaves the fault tolerance out of the budget of exclusions.
	NoExclusionSpare bool `json:"noExclusionSpare,omitempty"`
}

// WithDefaults returns the limits with each zero field replaced by its default and each negative one
// by zero, or by the largest number for a maximum.
func (l Limits) WithDefaults() Limits {
	fill(&l.MinimumUptime, 600*time.Second, 0)
	fill(&l.Exclusion, 120*time.Second, 0)
	fill(&l.Inclusion, 600*time.Second, 0)
	fill(&l.Configuration, 60*time.Second, 0)
	fill(&l.CoordinatorMissing, 120*time.Second, 0)
	fill(&l.CoordinatorUndesired, 300*time.Second, 0)
	fill(&l.ControllerUptime, time.Hour, 0)
	fill(&l.MaintenanceWait, 5*time.Minute, 0)
	fill(&l.GlobalSynchronizationWait, 30*time.Second, 0)
	fill(&l.TerminalPodAge, 30*time.Second, 0)
	fill(&l.BounceSyncWait, 600*time.Second, 0)
	fill(&l.MaxLag, 60*time.Second, 1<<63-1)
	fill(&l.MaintenanceStale, 4*time.Hour, 1<<63-1)
	fill(&l.MaxGenerations, 10, 1<<31-1)
	fill(&l.MaxQueue, 250<<20, 1<<63-1)
	return l
}

func fill[T ~int | ~int64](field *T, value, none T) {
	switch {
	case *field == 0:
		*field = value
	case *field < 0:
		*field = none
	}
}
