package sim

import (
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// node is the node program on a VM, as its user data describes it. It is stored as JSON.
type node struct {
	Token   string
	Cluster string
	Name    string
	Role    cluster.Role
	Version string        `json:",omitempty"`
	Boots   int64         // starts of its VM
	Booted  time.Time     // the node works from then on
	Every   time.Duration `json:",omitempty"`

	NotReady string   `json:",omitempty"`
	Silent   bool     `json:",omitempty"`
	Drained  bool     `json:",omitempty"`
	Stubborn bool     `json:",omitempty"` // it ignores upgrade requests
	Removed  []string `json:",omitempty"` // nodes that the server told it to forget
}

// parseNode returns the node that user data describe; nil if they describe none.
func parseNode(o *Options, t *resource, userData []byte) *node {
	if len(userData) == 0 {
		return nil
	}
	b, err := o.Parse(userData)
	if err != nil {
		return nil // a VM that is not a node
	}
	n := &node{Token: b.Token.Reveal(), Cluster: b.Cluster, Name: b.Node, Role: b.Role, Version: b.Version}
	if n.Cluster == t.Cluster {
		n.Cluster = t.Cluster // share one string
	}
	if n.Name == t.Name {
		n.Name = t.Name
	}
	return n
}

func (t *resource) nodeRunning(now time.Time) bool {
	return !t.gone && t.Node != nil && (t.State == stateRunning || t.State == stateMigrating) && !now.Before(t.Node.Booted)
}
