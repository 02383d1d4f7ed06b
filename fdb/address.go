package fdb

// Address is where a process listens.
type Address struct {
	Host         string // an IP without brackets, or a DNS name
	Port         int    // 0: none
	TLS          bool
	FromHostname bool
}

// Required says which kinds of addresses a process needs.
type Required struct {
	TLS    bool `json:"tls"`
	NonTLS bool `json:"nonTLS"`
}
