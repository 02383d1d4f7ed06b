package fdb

import "github.com/pawl-dev/pawl/fdb/internal/document"

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

func (s *DataStatus) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "state":
			s.State.read(d)
		case "team_trackers":
			s.TeamTrackers = document.List(d, func(t *TeamTracker, name string) {
				switch name {
				case "primary":
					t.Primary = d.Boolean()
				case "state":
					t.State.read(d)
				case "unhealthy_servers":
					t.UnhealthyServers = d.Integer()
				default:
					d.Skip()
				}
			})
		case "moving_data":
			d.Members(func(name string) {
				switch name {
				case "highest_priority":
					s.MovingData.HighestPriority = d.Integer()
				case "in_flight_bytes":
					s.MovingData.InFlightBytes = d.Whole()
				case "in_queue_bytes":
					s.MovingData.InQueueBytes = d.Whole()
				default:
					d.Skip()
				}
			})
		case "total_kv_size_bytes":
			s.TotalKVSizeBytes = d.Whole()
		default:
			d.Skip()
		}
	})
}

func (s *DataState) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "healthy":
			s.Healthy = d.Boolean()
		case "name":
			s.Name = d.Str()
		case "min_replicas_remaining":
			s.MinReplicasRemaining = d.Integer()
		default:
			d.Skip()
		}
	})
}

func readLogs(d *document.Document) []LogStatus {
	return document.List(d, func(l *LogStatus, name string) {
		switch name {
		case "current":
			l.Current = d.Boolean()
		case "log_replication_factor":
			l.LogFactor = d.Integer()
		case "log_fault_tolerance":
			l.LogFaultTolerance = d.Integer()
		case "remote_log_replication_factor":
			l.RemoteFactor = d.Integer()
		case "remote_log_fault_tolerance":
			l.RemoteFaultTolerance = d.Integer()
		case "satellite_log_replication_factor":
			l.SatelliteFactor = d.Integer()
		case "satellite_log_fault_tolerance":
			l.SatelliteFaultTolerance = d.Integer()
		default:
			d.Skip()
		}
	})
}

func (s *QoS) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "worst_data_lag_storage_server":
			s.WorstDataLag.read(d)
		case "worst_durability_lag_storage_server":
			s.WorstDurabilityLag.read(d)
		case "worst_queue_bytes_log_server":
			s.WorstLogQueue = d.Whole()
		case "worst_queue_bytes_storage_server":
			s.WorstStorageQueue = d.Whole()
		default:
			d.Skip()
		}
	})
}

func (l *Lag) read(d *document.Document) {
	d.Members(func(name string) {
		if name != "seconds" {
			d.Skip()
			return
		}
		l.Seconds = d.Number()
	})
}

func (s *RecoveryState) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "name":
			s.Name = d.Str()
		case "active_generations":
			s.ActiveGenerations = d.Integer()
		case "seconds_since_last_recovered":
			s.SecondsSinceLastRecovered = d.Number()
		default:
			d.Skip()
		}
	})
}
