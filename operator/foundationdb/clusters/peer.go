package clusters

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// TwoOperators says that somebody else writes the status of a cluster.
var TwoOperators = fault.Declare(fault.Kind{
	Code: "FDB_TWO_OPERATORS", Class: fault.Blocked,
	Title:  "another program writes the status of the cluster too",
	Remedy: "Stop the other operator, look at the cluster, and then set the annotation pawl.dev/adopted to another value.",
	Guide:  "foundationdb.md#coming-from-the-other-operator",
})

// known is the status that this operator has stored or read last.
type known struct {
	version string // the resource version
	status  [sha256.Size]byte
	// tried is the status of a write of which nobody knows whether it was done: the whole one, and what the CRD of
	// another operator keeps of it.
	tried   [2][sha256.Size]byte
	blocked bool
	told    bool
	adopted string // the annotation when it was blocked
}

// standing is what an object that was read is to what is known of it.
type standing int

const (
	current standing = iota
	stale            // older than what was stored
	foreign          // somebody else has written the status
)

// judge compares an object with what is known of it.
func (m *memory) judge(c *v1beta2.FoundationDBCluster) standing {
	k := &m.known
	adopted := c.Annotations[AdoptedAnnotation]
	if k.blocked && adopted == k.adopted {
		return foreign
	}
	if !k.blocked && k.version == c.ResourceVersion {
		return current
	}
	status := digest(c.Status)
	switch {
	case k.blocked, k.version == "", status == k.status, slices.Contains(k.tried[:], status):
		*k = known{version: c.ResourceVersion, status: status}
		return current
	case older(c.ResourceVersion, k.version):
		return stale
	case !older(k.version, c.ResourceVersion): // versions that cannot be compared
		*k = known{version: c.ResourceVersion, status: status}
		return current
	}
	k.blocked, k.adopted = true, adopted
	return foreign
}

// tries notes a status that is about to be written: its answer may be lost.
func (m *memory) tries(c *v1beta2.FoundationDBCluster) {
	m.known.tried = [2][sha256.Size]byte{digest(c.Status), digest(publishedStatus(c.Status))}
}

func (m *memory) stored(c *v1beta2.FoundationDBCluster) {
	m.known = known{version: c.ResourceVersion, status: digest(c.Status)}
}

// digest of a status without its connection string: that is repaired by hand where the database is silent (pawl fdb
// fix-coordinator-ips), and says nothing of another operator.
func digest(s v1beta2.FoundationDBClusterStatus) [sha256.Size]byte {
	s.ConnectionString = ""
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a status always has a JSON form
	}
	return sha256.Sum256(text)
}

// blockedByPeer says that nothing is done any more, once.
func (p *pass) blockedByPeer() {
	for _, t := range []string{TypeReconciled, condition.TypeProgressing} {
		c := condition.FromFault(t, TwoOperators, "the status has changed between two writes of this operator")
		c.Status = metav1.ConditionFalse
		p.set(c)
	}
	p.objects.Tell(p.stored, port.Event{Reason: TwoOperators.Reason(), Message: TwoOperators.Remedy, Warning: true})
}
