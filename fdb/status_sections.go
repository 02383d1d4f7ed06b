package fdb

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
