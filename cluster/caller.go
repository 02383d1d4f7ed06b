package cluster

// Caller is the user that sends a request, and what that user may do.
type Caller struct {
	User        string // name in the audit trail and in events
	Owner       Owner  // owner of the clusters that it creates
	Scope       Scope  // clusters that it may see and change
	Operator    bool
	DomainAdmin bool
}

// Limits of an account. A zero field is no limit.
type Limits struct {
	Clusters int `json:"clusters,omitempty"`
	Nodes    int `json:"nodes,omitempty"`    // VMs of all its clusters
	Cores    int `json:"cores,omitempty"`    // of all its VMs
	MemoryMB int `json:"memoryMB,omitempty"` // of all its VMs
	Size     int `json:"size,omitempty"`     // workers of one cluster
}

// Usage is what the living clusters of an account use, in the units of Limits.
type Usage struct{ Clusters, Nodes, Cores, MemoryMB int }
