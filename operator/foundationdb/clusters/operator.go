package clusters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Kind is the kind of the objects.
const Kind = "FoundationDBCluster"

// Options say how the operator works. The zero value has the defaults that stand beside the fields.
type Options struct {
	Now       func() time.Time            // time.Now
	Limits    fdb.Limits                  // of all clusters; a cluster's own minimum uptime comes from its spec
	Templates foundationdb.TemplateLimits // allow all
	// ReplaceOnSecurityContext replaces groups whose pod gets another security context.
	ReplaceOnSecurityContext bool
	// KeepIncompatible leaves the pods alone whose servers speak another protocol than the database.
	KeepIncompatible bool
	// NoStatusCache reads the status before each link that acts by it, where a cluster does not say otherwise.
	NoStatusCache bool
	// AdoptAtOnce takes over clusters of other operators without asking.
	AdoptAtOnce bool
	// WriteClusterFile writes a connection string into the data folders of a pod that runs, unless they have it, and
	// then ends its servers, which start again. It is used when a majority of the coordinators has other addresses;
	// nil: that is left to people, and the plan gives the command.
	WriteClusterFile func(ctx context.Context, pod *corev1.Pod, c fdb.Connection) error
	Parallel         int // requests to sidecars at the same time: 16
	// Links is told of each link that ran; nil: nobody.
	Links func(cluster, link string, took time.Duration, result, reason string)
}

// Operator reconciles clusters. It may reconcile several at the same time, but each only once at a time.
type Operator struct {
	objects  port.Objects
	database port.Database
	sidecars port.Sidecars
	options  Options

	unknown  foundationdb.UnknownFields
	mu       sync.Mutex
	memories map[types.UID]*memory
}

// New makes an operator.
func New(objects port.Objects, database port.Database, sidecars port.Sidecars, o Options) *Operator {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Parallel = cmp.Or(max(0, o.Parallel), 16)
	return &Operator{objects: objects, database: database, sidecars: sidecars, options: o, memories: map[types.UID]*memory{}}
}

// pass is one pass over one cluster: what links decide from, and act on.
type pass struct {
	*Operator
	now time.Time
	// cluster has the spec with its defaults, and the status as this pass leaves it.
	cluster *v1beta2.FoundationDBCluster
	stored  *v1beta2.FoundationDBCluster // as the API server has it
	desired string                       // the version of the spec; that of cluster.Spec is held in an upgrade that must wait
	limits  fdb.Limits
	memory  *memory
	lock    lock.Decision // of this pass; the zero value: not asked for yet
	random  *rand.Rand
	facts

	problems []foundationdb.Problem // why the spec is refused
	namesake []foundationdb.Problem // of them, that another object has its prefix
	ignored  []string               // fields of the spec that nobody knows
	// pods are the children as they should be.
	pods *foundationdb.Wanted
	ids  map[v1beta2.ProcessGroupID]fdb.GroupID // of groups, read
	// ours are the groups by id, into cluster.Status.ProcessGroups.
	ours groups.ByID
	// disturbed is what this pass has done that starts a recovery.
	disturbed string
	// leaving are coordinators that this pass has excluded.
	leaving   bool
	asDesired bool // the status needs nothing
	owner     adoption.Owner
	approved  bool          // a person has approved what this pass does
	hash      string        // of the plan, while links are held
	held      upgrades.Hold // why no incompatible upgrade begins
}

// index makes ours fit the list of groups. Whoever adds or removes a group calls it.
func (p *pass) index() {
	p.ours = make(groups.ByID, len(p.cluster.Status.ProcessGroups))
	if p.ids == nil {
		p.ids = make(map[v1beta2.ProcessGroupID]fdb.GroupID, len(p.cluster.Status.ProcessGroups))
	}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		p.ours[g.ProcessGroupID] = g
		if _, known := p.ids[g.ProcessGroupID]; !known {
			if id, err := fdb.ParseGroupID(string(g.ProcessGroupID)); err == nil {
				p.ids[g.ProcessGroupID] = id
			}
		}
	}
}

// endpoint is the database of the cluster.
func (p *pass) endpoint() (port.Endpoint, error) { return port.EndpointOf(p.cluster) }

func classOf(g *v1beta2.ProcessGroupStatus) fdb.Class { return fdb.Class(g.ProcessClass) }

// run runs a tool against the database of the cluster.
func (p *pass) run(ctx context.Context, call fdb.Call) fdb.Result {
	at, err := p.endpoint()
	if err != nil {
		return fdb.Result{Outcome: fdb.Refused, Reason: fdb.DatabaseUnreachable, Text: fault.Message(err)}
	}
	return p.database.Run(ctx, at, call).Result
}

// reasonOf is the reason of a result as a condition shows it.
func reasonOf(r fdb.Result) string {
	if r.Reason == "" {
		return "ToolFailed"
	}
	return string(r.Reason)
}

// event tells people what was done to the cluster.
func (p *pass) event(reason, format string, args ...any) {
	p.objects.Tell(p.stored, port.Event{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// memory is what an operator knows of a cluster from former passes. Nothing in it is needed: after a
// restart the world says all of it again.
type memory struct {
	writes   stored.Writes
	peer     stored.Peer
	pruned   stored.Pruned
	hash     string // of a plan that waits for its approval, as it was told
	tools    probe.Tools
	sidecars probe.Sidecars
	// pods are the children as they should be, with what was worked out of them.
	pods *foundationdb.Wanted
	// clusterFileWritten is when the connection string was written into a pod whose servers do not report.
	clusterFileWritten map[types.UID]time.Time
	// told is what the other operators know of the groups that something is to be done with; nil: that is not known.
	told map[fdb.Action][]string
	// lockMayBeOurs: the lock was taken, or could have been.
	lockMayBeOurs bool
	fixed         map[string]bool // storage classes whose volumes cannot grow
	removed       time.Time       // when the last removal began
	proofs        proofs
	// moved is a change of the connection string that may not be stored yet: a conflict must not lose it, since nobody may
	// be left at the former coordinators.
	moved struct{ from, to string }
	// disturbed is the last act that started a recovery, and when it was done.
	disturbed   string
	disturbedAt time.Time
	// unavailable is since when the database has not been available, or not been heard; zero: it is.
	unavailable time.Time
}

// remember returns the memory of a cluster.
func (o *Operator) remember(uid types.UID) *memory {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.memories[uid]
	if m == nil {
		m = &memory{clusterFileWritten: map[types.UID]time.Time{}, fixed: map[string]bool{}}
		o.memories[uid] = m
	}
	return m
}

func (o *Operator) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.memories, uid)
}

// connection is the connection string of a cluster whose status has this one.
func (m *memory) connection(stored string) string {
	switch stored {
	case m.moved.from:
		return m.moved.to
	case m.moved.to:
		m.moved.from, m.moved.to = "", ""
	}
	return stored
}

// keep drops what is known of pods that are gone.
func (m *memory) keep(there map[types.UID]bool) {
	m.sidecars.Forget(func(uid types.UID) bool { return !there[uid] })
	maps.DeleteFunc(m.clusterFileWritten, func(uid types.UID, _ time.Time) bool { return !there[uid] })
}
