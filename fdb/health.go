package fdb

// DataStatus is the state of the data and of its distribution.
type DataStatus struct {
	State            DataState     `json:"state"`
	TeamTrackers     []TeamTracker `json:"team_trackers,omitzero"`
	MovingData       MovingData    `json:"moving_data"`
	TotalKVSizeBytes *int64        `json:"total_kv_size_bytes,omitempty"`
}

// DataState is the state of one copy of the data.
type DataState struct {
	Healthy              *bool  `json:"healthy,omitempty"`
	Name                 string `json:"name,omitempty"`
	MinReplicasRemaining *int   `json:"min_replicas_remaining,omitempty"`
}

// TeamTracker is the state of the worst team of one region.
type TeamTracker struct {
	Primary          *bool     `json:"primary,omitempty"`
	State            DataState `json:"state"`
	UnhealthyServers *int      `json:"unhealthy_servers,omitempty"`
}

// MovingData is how much data moves.
type MovingData struct {
	HighestPriority *int   `json:"highest_priority,omitempty"`
	InFlightBytes   *int64 `json:"in_flight_bytes,omitempty"`
	InQueueBytes    *int64 `json:"in_queue_bytes,omitempty"`
}

// LogStatus is one generation of logs. A factor and its tolerance are absent for sets that the
// generation does not have (fdbserver/Status.actor.cpp, tlogFetcher, 7.3.69).
type LogStatus struct {
	Current                 *bool `json:"current,omitempty"`
	LogFactor               *int  `json:"log_replication_factor,omitempty"`
	LogFaultTolerance       *int  `json:"log_fault_tolerance,omitempty"`
	RemoteFactor            *int  `json:"remote_log_replication_factor,omitempty"`
	RemoteFaultTolerance    *int  `json:"remote_log_fault_tolerance,omitempty"`
	SatelliteFactor         *int  `json:"satellite_log_replication_factor,omitempty"`
	SatelliteFaultTolerance *int  `json:"satellite_log_fault_tolerance,omitempty"`
}

// QoS are the lags and queues.
type QoS struct {
	WorstDataLag       Lag    `json:"worst_data_lag_storage_server"`
	WorstDurabilityLag Lag    `json:"worst_durability_lag_storage_server"`
	WorstLogQueue      *int64 `json:"worst_queue_bytes_log_server,omitempty"`
	WorstStorageQueue  *int64 `json:"worst_queue_bytes_storage_server,omitempty"`
}

// Lag is how far a storage server is behind.
type Lag struct {
	Seconds *float64 `json:"seconds,omitempty"`
}

// RecoveryState is the state of the last recovery. SecondsSinceLastRecovered is -1 while the database
// has not been available since (fdbserver/Status.actor.cpp, recoveryStateStatusFetcher, 7.3.69).
type RecoveryState struct {
	Name                      string   `json:"name,omitempty"`
	ActiveGenerations         *int     `json:"active_generations,omitempty"`
	SecondsSinceLastRecovered *float64 `json:"seconds_since_last_recovered,omitempty"`
}

func (s *DataStatus) read(d *document) {
	d.members(func(name string) {
		switch name {
		case "state":
			s.State.read(d)
		case "team_trackers":
			s.TeamTrackers = list(d, func(t *TeamTracker, name string) {
				switch name {
				case "primary":
					t.Primary = d.boolean()
				case "state":
					t.State.read(d)
				case "unhealthy_servers":
					t.UnhealthyServers = d.integer()
				default:
					d.skip()
				}
			})
		case "moving_data":
			d.members(func(name string) {
				switch name {
				case "highest_priority":
					s.MovingData.HighestPriority = d.integer()
				case "in_flight_bytes":
					s.MovingData.InFlightBytes = d.whole()
				case "in_queue_bytes":
					s.MovingData.InQueueBytes = d.whole()
				default:
					d.skip()
				}
			})
		case "total_kv_size_bytes":
			s.TotalKVSizeBytes = d.whole()
		default:
			d.skip()
		}
	})
}

func (s *DataState) read(d *document) {
	d.members(func(name string) {
		switch name {
		case "healthy":
			s.Healthy = d.boolean()
		case "name":
			s.Name = d.str()
		case "min_replicas_remaining":
			s.MinReplicasRemaining = d.integer()
		default:
			d.skip()
		}
	})
}

func readLogs(d *document) []LogStatus {
	return list(d, func(l *LogStatus, name string) {
		switch name {
		case "current":
			l.Current = d.boolean()
		case "log_replication_factor":
			l.LogFactor = d.integer()
		case "log_fault_tolerance":
			l.LogFaultTolerance = d.integer()
		case "remote_log_replication_factor":
			l.RemoteFactor = d.integer()
		case "remote_log_fault_tolerance":
			l.RemoteFaultTolerance = d.integer()
		case "satellite_log_replication_factor":
			l.SatelliteFactor = d.integer()
		case "satellite_log_fault_tolerance":
			l.SatelliteFaultTolerance = d.integer()
		default:
			d.skip()
		}
	})
}

func (s *QoS) read(d *document) {
	d.members(func(name string) {
		switch name {
		case "worst_data_lag_storage_server":
			s.WorstDataLag.read(d)
		case "worst_durability_lag_storage_server":
			s.WorstDurabilityLag.read(d)
		case "worst_queue_bytes_log_server":
			s.WorstLogQueue = d.whole()
		case "worst_queue_bytes_storage_server":
			s.WorstStorageQueue = d.whole()
		default:
			d.skip()
		}
	})
}

func (l *Lag) read(d *document) {
	d.members(func(name string) {
		if name != "seconds" {
			d.skip()
			return
		}
		l.Seconds = d.number()
	})
}

func (s *RecoveryState) read(d *document) {
	d.members(func(name string) {
		switch name {
		case "name":
			s.Name = d.str()
		case "active_generations":
			s.ActiveGenerations = d.integer()
		case "seconds_since_last_recovered":
			s.SecondsSinceLastRecovered = d.number()
		default:
			d.skip()
		}
	})
}
