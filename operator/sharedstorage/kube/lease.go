package kube

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// Grants is the grant record in a Lease: an annotation has the grant, and the Lease itself the
// lease of the writer. Every write names the version that was read.
//
// Clocks of nodes differ, so nobody uses the time in a Lease: a lease runs for its whole length
// from when this Grants, or the cluster manager, first saw it. That may be longer than its holder
// counts, and is never less. What the manager saw before this Grants was used does not count: so an
// agent that was started anew waits longer than any promise runs that it has forgotten (package
// failsafe).
type Grants struct {
	Client  client.Client
	Live    client.Reader // nil: Client
	Cluster port.Ref

	mu   sync.Mutex
	born time.Time // of the agent, or the first use: what an earlier agent has promised is forgotten
	last string    // version of the Lease that was last seen
	from time.Time

	told     string // version that the cluster manager has told of, and when it first saw that
	toldFrom time.Time
}

var _ lease.Granter = &Grants{}

// granted is the value of the annotation.
type granted struct {
	Writer string `json:"writer"`
	Epoch  int64  `json:"epoch"`
	Leased int64  `json:"leased,omitempty"` // epoch of the lease

	Failsafe *failsafe.Recorded `json:"failsafe,omitempty"` // of the lease
}

// maxTries is the number of attempts of a write that conflicts with others.
const maxTries = 8

// Read implements lease.Grants. It returns GRANT_LOST if there is no record, which is not the
// same as a grant to nobody.
func (g *Grants) Read(ctx context.Context) (lease.Grant, error) {
	record, err := g.load(ctx)
	if err == nil && record == nil {
		err = g.lost()
	}
	if err != nil {
		return lease.Grant{}, err
	}
	return g.grant(record)
}

func (g *Grants) lost() error {
	return port.GrantLost.Errorf("the record of the grant, Lease %s/%s, is not there", g.Cluster.Namespace, grantName(g.Cluster))
}

// Renew implements lease.Grants.
func (g *Grants) Renew(ctx context.Context, r lease.Renewal) (lease.Grant, error) {
	return g.change(ctx, func(old lease.Grant) (lease.Grant, error) {
		return old.Renewed(r, time.Now())
	})
}

// Grant implements lease.Granter.
func (g *Grants) Grant(ctx context.Context, writer string, epoch int64) error {
	_, err := g.change(ctx, func(old lease.Grant) (lease.Grant, error) { return old.Granted(writer, epoch) })
	return err
}

func (g *Grants) change(ctx context.Context, do func(lease.Grant) (lease.Grant, error)) (lease.Grant, error) {
	for try := 1; ; try++ {
		record, err := g.load(ctx)
		if err != nil {
			return lease.Grant{}, err
		}
		if record == nil {
			return lease.Grant{}, g.lost()
		}
		old, err := g.grant(record)
		if err != nil {
			return old, err
		}
		next, err := do(old)
		if err != nil || next == old {
			return next, err
		}
		if err := write(record, next, next.Lease != old.Lease); err != nil {
			return old, err
		}
		err = g.Client.Update(ctx, record)
		if err == nil {
			return next, nil
		}
		if !apierrors.IsConflict(err) || try == maxTries {
			return old, err
		}
	}
}

// load reads the record; nil: there is none.
func (g *Grants) load(ctx context.Context) (*coordinationv1.Lease, error) {
	from := g.Live
	if from == nil {
		from = g.Client
	}
	record := &coordinationv1.Lease{}
	err := from.Get(ctx, client.ObjectKey{Namespace: g.Cluster.Namespace, Name: grantName(g.Cluster)}, record)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return record, err
}

func (g *Grants) grant(record *coordinationv1.Lease) (lease.Grant, error) {
	var at granted
	if text := record.Annotations[grantAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			return lease.Grant{}, port.StorageFailed.Errorf("the annotation %s of Lease %s: %w", grantAnnotation, record.Name, err)
		}
	}
	grant := lease.Grant{Writer: at.Writer, Epoch: at.Epoch}
	spec := record.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.LeaseDurationSeconds == nil {
		return grant, nil
	}
	stamp := *spec.HolderIdentity
	if spec.RenewTime != nil {
		stamp += spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used()
	if g.last != stamp {
		g.last, g.from = stamp, time.Now()
		g.settle()
	}
	grant.Lease = lease.Lease{Holder: *spec.HolderIdentity, Epoch: at.Leased, Until: g.from.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second), Failsafe: at.Failsafe}
	return grant, nil
}

// write writes a grant into its record.
func write(record *coordinationv1.Lease, grant lease.Grant, renewed bool) error {
	text, err := json.Marshal(granted{grant.Writer, grant.Epoch, grant.Lease.Epoch, grant.Lease.Failsafe})
	if err != nil {
		return err
	}
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[grantAnnotation] = string(text)
	switch {
	case !renewed:
	case grant.Lease.Holder == "":
		record.Spec.HolderIdentity, record.Spec.LeaseDurationSeconds = nil, nil
	default:
		now := metav1.NowMicro()
		seconds := int32(math.Ceil(time.Until(grant.Lease.Until).Seconds()))
		record.Spec.HolderIdentity, record.Spec.LeaseDurationSeconds, record.Spec.RenewTime = &grant.Lease.Holder, &seconds, &now
		record.Spec.LeaseTransitions = ptr(int32(min(grant.Lease.Epoch, math.MaxInt32)))
	}
	return nil
}
