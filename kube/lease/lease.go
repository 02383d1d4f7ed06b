// Package lease keeps the locks of package lock in Lease objects, one for each name.
//
//	backend, err := lease.New(config, "databases")
//	decision, err := lock.Locker{Backend: backend, Owner: "operator-a"}.Take(ctx, "topology/orders")
//
//	$ kubectl get leases -n databases
//	NAME                              HOLDER       AGE
//	pawl-lock-topology-orders-5c0f…   operator-a   3m
//
// The value of a lock is an annotation; what the Lease says of holder and times is derived
// from it, for people. The clock is that of the API server, from the Date of its answers: it
// has a resolution of one second, and no owner's own clock matters. Several API servers must
// have clocks that agree as etcd requires it of them.
package lease

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/lock"
)

// The annotations of a Lease: the name of the lock, and its value as text or in base64.
const (
	NameAnnotation   = "pawl.dev/lock-name"
	ValueAnnotation  = "pawl.dev/lock"
	BinaryAnnotation = "pawl.dev/lock-binary"
)

const (
	prefix      = "pawl-lock-"
	maxReadable = 40 // characters of a lock's name that the name of its Lease shows
	retryDelay  = 5 * time.Millisecond
	maxDelay    = 200 * time.Millisecond
)

// Backend is a lock.Backend in the Leases of one namespace. It needs the verbs get, create,
// update and delete on leases.coordination.k8s.io.
type Backend struct {
	leases coordinationclient.LeaseInterface
	date   atomic.Int64 // of the last answer, in Unix seconds; 0: none
}

var _ lock.Backend = &Backend{}

// New makes a backend that speaks to the API server of config.
func New(config *rest.Config, namespace string) (*Backend, error) {
	b := &Backend{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next, &b.date} })
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	b.leases = client.Leases(namespace)
	return b, nil
}

// dated notes the Date of answers.
type dated struct {
	next http.RoundTripper
	date *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err == nil {
		if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			d.date.Store(at.Unix())
		}
	}
	return answer, err
}

// Transact implements lock.Backend. The clock is read with the value, so a decision is never
// earlier than the value that it depends on. API_UNAVAILABLE and the other faults of package
// controller.
func (b *Backend) Transact(ctx context.Context, name string, change func(now time.Time, old []byte) (next []byte, write bool)) error {
	for delay := retryDelay; ; delay = min(2*delay, maxDelay) {
		found, old, err := b.get(ctx, name)
		if err != nil {
			return err
		}
		date := b.date.Load()
		if date == 0 {
			return fault.APIUnavailable.Errorf("the API server's answers have no Date: something between it and us removes it")
		}
		next, write := change(time.Unix(date, 0).UTC(), old)
		if !write || next == nil && found == nil {
			return nil
		}
		err = b.put(ctx, name, found, next)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return controller.Fault(err)
		}
		select { // another owner was faster
		case <-time.After(rand.N(delay)): //nolint:gosec // spreads retries
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Read implements lock.Backend.
func (b *Backend) Read(ctx context.Context, name string) ([]byte, error) {
	_, value, err := b.get(ctx, name)
	return value, err
}

// get reads the Lease of a lock; nil: there is none.
func (b *Backend) get(ctx context.Context, name string) (*coordinationv1.Lease, []byte, error) {
	found, err := b.leases.Get(ctx, leaseName(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, controller.Fault(err)
	}
	if text, ok := found.Annotations[ValueAnnotation]; ok {
		return found, []byte(text), nil
	}
	value, err := base64.StdEncoding.DecodeString(found.Annotations[BinaryAnnotation])
	if err != nil || len(value) == 0 {
		return nil, nil, lock.Unreadable.Errorf("lock %s: Lease %s/%s has no value in its annotations", name, found.Namespace, found.Name).With("lock", name)
	}
	return found, value, nil
}

// put makes value that of the lock, if its Lease is still the one that was found.
func (b *Backend) put(ctx context.Context, name string, found *coordinationv1.Lease, value []byte) error {
	if value == nil {
		return b.leases.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}})
	}
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(name), Labels: map[string]string{"app.kubernetes.io/managed-by": "pawl"}}}
	if found != nil {
		next = found.DeepCopy()
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[NameAnnotation] = strings.ToValidUTF8(name, "�")
	delete(next.Annotations, ValueAnnotation)
	delete(next.Annotations, BinaryAnnotation)
	if utf8.Valid(value) {
		next.Annotations[ValueAnnotation] = string(value)
	} else {
		next.Annotations[BinaryAnnotation] = base64.StdEncoding.EncodeToString(value)
	}
	next.Spec = specOf(name, value)
	var err error
	if found == nil {
		_, err = b.leases.Create(ctx, next, metav1.CreateOptions{})
	} else {
		_, err = b.leases.Update(ctx, next, metav1.UpdateOptions{})
	}
	return err
}

// specOf says who holds a lock until when, for people; empty if nobody does, or the value
// cannot be read.
func specOf(name string, value []byte) (spec coordinationv1.LeaseSpec) {
	state, err := lock.ParseState(name, value)
	if err != nil || state.Record == nil {
		return spec
	}
	record := state.Record
	seconds := int32(math.Ceil(min(max(record.End.Sub(record.Start).Seconds(), 1), math.MaxInt32)))
	start := metav1.NewMicroTime(record.Start)
	spec.HolderIdentity, spec.AcquireTime, spec.LeaseDurationSeconds = &record.Owner, &start, &seconds
	return spec
}

// leaseName is the name of a lock's Lease: what can be read of the name, and its hash.
func leaseName(name string) string {
	readable := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, name)
	readable = strings.Trim(readable[:min(len(readable), maxReadable)], "-")
	hash := sha256.Sum256([]byte(name))
	if readable != "" {
		readable += "-"
	}
	return prefix + readable + hex.EncodeToString(hash[:10])
}
