package clusters

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb"
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
	ours map[v1beta2.ProcessGroupID]*v1beta2.ProcessGroupStatus
	// disturbed is what this pass has done that starts a recovery.
	disturbed string
	// leaving are coordinators that this pass has excluded.
	leaving   bool
	upgrades  bool        // the running and the desired version cannot talk to each other
	asDesired bool        // the status needs nothing
	foreign   bool        // another operator has made the cluster, and its take-over is not approved
	approved  bool        // a person has approved what this pass does
	hash      string      // of the plan, while links are held
	held      upgradeHold // why no incompatible upgrade begins
	// lackVariable are the groups whose pods cannot take the files of the spec; see findLacking.
	lackVariable map[v1beta2.ProcessGroupID]bool
}

// group returns the group with an id; nil if there is none.
func (p *pass) group(id v1beta2.ProcessGroupID) *v1beta2.ProcessGroupStatus { return p.ours[id] }

// index makes ours fit the list of groups. Whoever adds or removes a group calls it.
func (p *pass) index() {
	p.ours = make(map[v1beta2.ProcessGroupID]*v1beta2.ProcessGroupStatus, len(p.cluster.Status.ProcessGroups))
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

// uses says how a group's pod is made.
func classOf(g *v1beta2.ProcessGroupStatus) fdb.Class { return fdb.Class(g.ProcessClass) }
