package cluster

// Caller is who asks for something.
type Caller struct {
	User        string // as history tells it
	Owner       Owner  // what it makes is theirs
	Scope       Scope  // what it may see and change
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

// Usage is what an account's living clusters take, in the units of Limits.
type Usage struct{ Clusters, Nodes, Cores, MemoryMB int }
