package providertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// fixture is the provider of one test, and the resources created for it.
type fixture struct {
	Setup
	t       *testing.T
	p       cluster.Provider
	caps    cluster.Capabilities
	cluster string // uuid in the tag of all its resources
	count   atomic.Int64
	network cluster.Resource // created on first use

	mu   sync.Mutex
	refs map[string]cluster.Ref // key -> created resource, so that the clean-up needs no lookup
}

func newFixture(t *testing.T, s Setup) *fixture {
	t.Helper()
	if s.Provider == nil || s.Installation == "" || s.Zone == "" || s.Offering == "" || s.Template == "" {
		t.Fatal("the setup has no Provider, Installation, Zone, Offering or Template")
	}
	if s.SettleTimeout == 0 {
		s.SettleTimeout = 10 * time.Second
	}
	if s.Poll == 0 {
		s.Poll = 5 * time.Millisecond
	}
	if s.MaxVMs == 0 {
		s.MaxVMs = 20
	}
	s.MaxVMs = max(s.MaxVMs, 4)
	return &fixture{Setup: s, t: t, p: s.Provider, caps: s.Provider.Capabilities(), cluster: uuid(), refs: map[string]cluster.Ref{}}
}

func uuid() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (r *fixture) supports(k cluster.Kind) bool { return slices.Contains(r.caps.Kinds, k) }

// desired returns a resource with a new name and key, and creates the resources
// that it depends on.
func (r *fixture) desired(k cluster.Kind) cluster.DesiredResource {
	r.t.Helper()
	n := r.count.Add(1)
	name := fmt.Sprintf("test-%s-%s%d", r.cluster[:8], k, n)
	key := fmt.Sprintf("run/step/%s/%d", k, n)
	w := cluster.DesiredResource{
		Kind: k, Name: name, Key: key, CallID: uuid(), Owner: r.Owner,
		Tags: map[string]string{cluster.TagInstallation: r.Installation, cluster.TagCluster: r.cluster, cluster.TagKey: key},
		Spec: cluster.Spec{Zone: r.Zone},
	}
	switch k {
	case cluster.VM:
		w.Spec.Offering, w.Spec.Template, w.Spec.Role = r.Offering, r.Template, cluster.Worker
		w.Spec.Network = r.networkID()
		w.Spec.UserData = r.userData(name)
	case cluster.Network:
		w.Spec.Offering = r.NetworkOffering
	case cluster.Address:
		w.Spec.Network = r.networkID()
	case cluster.Firewall:
		w.Spec.Network, w.Spec.Address = r.networkID(), r.mustCreate(r.desired(cluster.Address)).ID
		w.Spec.Protocol, w.Spec.Port, w.Spec.CIDRs = "tcp", 6443, []string{"192.0.2.0/24"}
	case cluster.Forward:
		w.Spec.Network, w.Spec.Address, w.Spec.VM = r.networkID(), r.mustCreate(r.desired(cluster.Address)).ID, r.mustCreate(r.desired(cluster.VM)).ID
		w.Spec.Protocol, w.Spec.Port, w.Spec.PrivatePort = "tcp", 6443, 6443
	case cluster.Balancer:
		w.Spec.Network, w.Spec.Address = r.networkID(), r.mustCreate(r.desired(cluster.Address)).ID
		w.Spec.VMs = []string{r.mustCreate(r.desired(cluster.VM)).ID, r.mustCreate(r.desired(cluster.VM)).ID}
		w.Spec.Protocol, w.Spec.Port, w.Spec.PrivatePort = "tcp", 6443, 6443
	}
	return w
}

func (r *fixture) userData(name string) []byte {
	if r.UserData != nil {
		return r.UserData(r.t, name)
	}
	return []byte("#!/bin/sh\n# " + name + "\n")
}

// networkID returns the id of the network of the test; empty if the provider
// creates none.
func (r *fixture) networkID() string {
	r.t.Helper()
	if r.supports(cluster.Network) && r.network.ID == "" {
		r.network = r.mustCreate(r.desired(cluster.Network))
	}
	return r.network.ID
}

// mustCreate creates a resource, follows the call to its end, reads the resource
// and destroys it at the end of the test.
func (r *fixture) mustCreate(w cluster.DesiredResource) cluster.Resource {
	r.t.Helper()
	r.cleanUp(w)
	call, err := r.p.Create(r.ctx(), w)
	if err != nil {
		r.t.Fatalf("create %s: %v", w.Name, err)
	}
	ref := r.mustAwait(r.p, call)
	r.recordRef(w, ref)
	got, err := r.p.Get(r.ctx(), ref)
	if err != nil {
		r.t.Fatalf("get %s, just made: %v", w.Name, err)
	}
	return got
}

// cleanUp destroys the resource at the end of the test, if it exists.
func (r *fixture) cleanUp(w cluster.DesiredResource) {
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 4*r.SettleTimeout)
		defer cancel()
		if err := r.remove(ctx, w); err != nil {
			r.t.Errorf("clean-up: %s: %v", w.Name, err)
		}
	})
}

func (r *fixture) remove(ctx context.Context, w cluster.DesiredResource) error {
	r.mu.Lock()
	ref, created := r.refs[w.Key]
	r.mu.Unlock()
	var got cluster.Resource
	var err error
	if created {
		got, err = r.p.Get(ctx, ref)
	} else {
		got, err = r.p.Find(ctx, w)
	}
	switch {
	case errors.Is(err, cluster.ErrGone), err == nil && got.SourceNAT:
		return nil
	case err != nil:
		return fmt.Errorf("look up: %w", err)
	}
	call, err := r.p.Act(ctx, got.Ref(), cluster.Destroy)
	if err == nil {
		_, err = r.await(ctx, r.p, call)
	}
	if err != nil {
		return fmt.Errorf("destroy: %w", err)
	}
	return nil
}

func (r *fixture) recordRef(w cluster.DesiredResource, ref cluster.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs[w.Key] = ref
}

// ctx returns a context that ends before the test hangs.
func (r *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*r.SettleTimeout)
	r.t.Cleanup(cancel)
	return ctx
}

// await polls a call to its end.
func (r *fixture) await(ctx context.Context, p cluster.Provider, call cluster.Call) (cluster.Ref, error) {
	for began := time.Now(); !call.Done; {
		progress, err := p.Poll(ctx, call)
		switch {
		case err != nil:
			return call.Ref, fmt.Errorf("poll: %w", err)
		case progress.Done && progress.Err != nil:
			return call.Ref, progress.Err
		case progress.Done:
			if progress.Ref.ID != "" {
				call.Ref = progress.Ref
			}
			return call.Ref, nil
		case time.Since(began) > r.SettleTimeout:
			return call.Ref, fmt.Errorf("job %q of %s is open after %s", call.Job, call.Ref.Name, r.SettleTimeout)
		}
		if err := r.pause(ctx); err != nil {
			return call.Ref, err
		}
	}
	return call.Ref, nil
}

func (r *fixture) mustAwait(p cluster.Provider, call cluster.Call) cluster.Ref {
	r.t.Helper()
	ref, err := r.await(r.ctx(), p, call)
	if err != nil {
		r.t.Fatal(err)
	}
	if ref.ID == "" {
		r.t.Fatalf("the call is done and names nothing: %+v", call)
	}
	return ref
}

// create calls Create and follows the call to its end; it returns the error of
// either.
func (r *fixture) create(w cluster.DesiredResource) (cluster.Ref, error) {
	call, err := r.p.Create(r.ctx(), w)
	if err != nil {
		return cluster.Ref{}, err
	}
	ref, err := r.await(r.ctx(), r.p, call)
	if err == nil {
		r.recordRef(w, ref)
	}
	return ref, err
}

func (r *fixture) act(ref cluster.Ref, a cluster.Action) error {
	call, err := r.p.Act(r.ctx(), ref, a)
	if err != nil {
		return err
	}
	_, err = r.await(r.ctx(), r.p, call)
	return err
}

func (r *fixture) mustAct(ref cluster.Ref, a cluster.Action) {
	r.t.Helper()
	if err := r.act(ref, a); err != nil {
		r.t.Fatalf("%s %s: %v", a, ref.Name, err)
	}
}

func (r *fixture) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.Poll):
		return nil
	}
}

// eventually repeats the check until it holds or the settle time is over.
func (r *fixture) eventually(what string, holds func() error) {
	r.t.Helper()
	for began := time.Now(); ; {
		err := holds()
		if err == nil {
			return
		}
		if time.Since(began) > r.SettleTimeout {
			r.t.Fatalf("%s, even after %s: %v", what, r.SettleTimeout, err)
		}
		if err := r.pause(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// mustFind returns the resource as soon as a lookup sees it.
func (r *fixture) mustFind(p cluster.Provider, w cluster.DesiredResource) cluster.Resource {
	r.t.Helper()
	var got cluster.Resource
	r.eventually("find "+w.Name, func() (err error) { got, err = p.Find(r.ctx(), w); return err })
	return got
}

// mustBeGone waits until the resource is proven gone.
func (r *fixture) mustBeGone(ref cluster.Ref) {
	r.t.Helper()
	r.eventually("get of the destroyed "+ref.Name, func() error {
		got, err := r.p.Get(r.ctx(), ref)
		switch {
		case errors.Is(err, cluster.ErrGone):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is there, %s", got.State)
	})
}

// list returns the items of all pages.
func (r *fixture) list(f cluster.Filter) []cluster.Resource {
	r.t.Helper()
	all, err := pages(r.ctx(), r.p, f)
	if err != nil {
		r.t.Fatalf("list %+v: %v", f, err)
	}
	return all
}

func pages(ctx context.Context, p cluster.Provider, f cluster.Filter) ([]cluster.Resource, error) {
	var all []cluster.Resource
	seen := map[cluster.Cursor]bool{}
	for at := cluster.Cursor(""); ; {
		page, err := p.List(ctx, f, at)
		if err != nil {
			return nil, err
		}
		if size := cmpSize(f.Size); len(page.Items) > size {
			return nil, fmt.Errorf("a page of %d has %d items", size, len(page.Items))
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		if seen[page.Next] {
			return nil, fmt.Errorf("cursor %q comes back", page.Next)
		}
		seen[page.Next] = true
		at = page.Next
	}
}

func cmpSize(size int) int {
	if size == 0 {
		return 500
	}
	return size
}

// listOwn lists the resources of a kind in the cluster of this test, by id.
func (r *fixture) listOwn(k cluster.Kind) map[string]cluster.Resource {
	r.t.Helper()
	byID := map[string]cluster.Resource{}
	for _, got := range r.list(cluster.Filter{Kind: k, Cluster: r.cluster}) {
		if _, again := byID[got.ID]; again {
			r.t.Errorf("%s is listed twice", got.ID)
		}
		byID[got.ID] = got
	}
	return byID
}

// checkSame fails the test if two reads of one resource differ.
func (r *fixture) checkSame(what string, a, b cluster.Resource) {
	r.t.Helper()
	if a.Kind != b.Kind || a.ID != b.ID || a.Name != b.Name || a.Identity != b.Identity || !maps.Equal(a.Tags, b.Tags) {
		r.t.Errorf("%s differ:\n%s\n%s", what, show(a), show(b))
	}
}

func show(x cluster.Resource) string {
	return fmt.Sprintf("%s id %s name %s identity %s tags %v", x.Kind, x.ID, x.Name, x.Identity, x.Tags)
}

// checkTags fails the test if the tags are not those that were sent.
func (r *fixture) checkTags(w cluster.DesiredResource, got cluster.Resource) {
	r.t.Helper()
	if !r.caps.Tags {
		return
	}
	for k, v := range w.Tags {
		if got.Tags[k] != v {
			r.t.Errorf("%s: tag %s is %q, want %q", w.Name, k, got.Tags[k], v)
		}
	}
}

// checkFault fails the test if the error is not of one of the kinds, or says that
// the resource is gone.
func (r *fixture) checkFault(what string, err error, kinds ...*fault.Kind) {
	r.t.Helper()
	if err == nil {
		r.t.Errorf("%s succeeded", what)
		return
	}
	if errors.Is(err, cluster.ErrGone) || !slices.Contains(kinds, fault.Of(err)) {
		codes := make([]fault.Code, len(kinds))
		for i, k := range kinds {
			codes[i] = k.Code
		}
		r.t.Errorf("%s: %v, want one of %v", what, err, codes)
	}
}

// userDataOf reads the user data of a VM; ok is false if nobody can.
func (r *fixture) userDataOf(ref cluster.Ref) (data []byte, ok bool) {
	r.t.Helper()
	if r.ReadUserData != nil {
		return r.ReadUserData(r.t, ref), true
	}
	got, err := r.p.Get(r.ctx(), ref)
	if err != nil {
		r.t.Fatalf("get %s: %v", ref.Name, err)
	}
	return got.UserData, got.UserData != nil
}

func digest(b []byte) string {
	if len(b) > 32 {
		return fmt.Sprintf("%d bytes %s…", len(b), hex.EncodeToString(b[:16]))
	}
	return hex.EncodeToString(b)
}

func equalBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %s, want %s", what, digest(got), digest(want))
	}
}
