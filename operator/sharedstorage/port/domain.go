package port

import "strings"

// Domain is where a node stands: the values of topology keys, such as
// "topology.kubernetes.io/zone=a,rack=7". A key that the node does not have is left out.
type Domain string

// NewDomain returns the values that labels have for keys.
func NewDomain(keys []string, labels map[string]string) Domain {
	var parts []string
	for _, key := range keys {
		if value := labels[key]; value != "" {
			parts = append(parts, key+"="+value)
		}
	}
	return Domain(strings.Join(parts, ","))
}

// Value returns the value of a key; empty: it has none.
func (d Domain) Value(key string) string {
	for part := range strings.SplitSeq(string(d), ",") {
		if k, value, _ := strings.Cut(part, "="); k == key {
			return value
		}
	}
	return ""
}

// Apart counts the keys of d for which other has another value.
func (d Domain) Apart(other Domain) (n int) {
	for part := range strings.SplitSeq(string(d), ",") {
		key, value, _ := strings.Cut(part, "=")
		if theirs := other.Value(key); theirs != "" && theirs != value {
			n++
		}
	}
	return n
}
