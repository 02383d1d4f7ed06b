package fdb

import "time"

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
