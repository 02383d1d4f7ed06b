package sim

import "time"

// load is what the database has to do, and how far servers are behind.
type load struct {
	dataLag       time.Duration
	durabilityLag time.Duration
	logQueue      int64
	storageQueue  int64
}

// Load sets how far the worst storage server is behind, and how long the longest queues are.
type Load struct {
	DataLag, DurabilityLag time.Duration
	LogQueue, StorageQueue int64 // bytes
}

// SetLoad sets lags and queues; the zero value is an idle database.
func (c *Cluster) SetLoad(l Load) {
	c.load = load{dataLag: l.DataLag, durabilityLag: l.DurabilityLag, logQueue: l.LogQueue, storageQueue: l.StorageQueue}
}

// idle is how long an idle database is behind: the durability lag of about 5 s that it always has.
const idle = 5 * time.Second

func (l load) seconds() (data, durability float64) {
	return l.dataLag.Seconds(), max(l.durabilityLag, idle).Seconds()
}
