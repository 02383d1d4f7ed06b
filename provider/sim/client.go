package sim

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Client is a cluster.Provider. It has no state of its own, so a program may use any
// number of clients.
type Client struct {
	world        *world
	installation string
}

var _ cluster.Provider = (*Client)(nil)

// Capabilities returns the capabilities that the Options describe.
func (cl *Client) Capabilities() cluster.Capabilities {
	o := &cl.world.o
	return cluster.Capabilities{Kinds: slices.Clone(o.Kinds), CallIDs: !o.NoCallIDs, Tags: true, UserData: o.UserData, DiskSize: true, SendsHeartbeats: o.Home != nil}
}

// do performs one call: it applies latency, Options.Around and the rules. effect runs
// under the cloud's lock.
func (cl *Client) do(ctx context.Context, e Entry, effect func(now time.Time, e *Entry, r *rule) error) error {
	w := cl.world
	e.Installation = cl.installation
	if w.o.Around != nil {
		if err := w.o.Around(e, Before); err != nil {
			return err
		}
	}
	if err := w.wait(ctx, e, w.o.Latency/2); err != nil {
		return err
	}
	delay, err := w.execute(&e, effect)
	if late := w.wait(ctx, e, delay+w.o.Latency-w.o.Latency/2); late != nil {
		return late
	}
	if w.o.Around != nil {
		if killed := w.o.Around(e, After); killed != nil {
			return killed
		}
	}
	return err
}

// Check returns the findings that prevent a plan: ENTITY_REFUSED, CAPACITY_EXHAUSTED,
// QUOTA_EXCEEDED.
func (cl *Client) Check(ctx context.Context, n cluster.Need) (found []cluster.Finding, err error) {
	err = cl.do(ctx, Entry{Call: Check}, func(time.Time, *Entry, *rule) error {
		found = cl.world.catalog.check(n)
		return nil
	})
	return answer(found, err)
}

// Catalog lists what the owner may use.
func (cl *Client) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) (entries []cluster.Entry, err error) {
	err = cl.do(ctx, Entry{Call: Catalog, Kind: kind}, func(time.Time, *Entry, *rule) error {
		entries, err = cl.world.catalog.entries(owner, kind)
		return err
	})
	return answer(entries, err)
}

// Create creates a resource. It returns PROVIDER_REFUSED for an invalid request, and the
// faults of capacity, quota and rules.
func (cl *Client) Create(ctx context.Context, w cluster.DesiredResource) (call cluster.Call, err error) {
	e := Entry{Call: Create, Kind: w.Kind, Name: w.Name, Key: w.Key, CallID: w.CallID, Cluster: w.Tags[cluster.TagCluster]}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, r *rule) (err error) {
		call, err = cl.world.builder.create(w, now, e, r)
		return err
	})
	return answer(call, err)
}

// Act starts, stops or destroys a resource. It returns RESOURCE_IN_USE while another job
// works on the resource, and ErrGone if the resource does not exist and the action is not
// Destroy.
func (cl *Client) Act(ctx context.Context, ref cluster.Ref, a cluster.Action) (call cluster.Call, err error) {
	return cl.ActAs(ctx, ref, a, "")
}

// Poll returns the progress of a job. PROVIDER_REFUSED if the job is unknown or forgotten.
func (cl *Client) Poll(ctx context.Context, call cluster.Call) (p cluster.Progress, err error) {
	if call.Done || call.Job == "" {
		return cluster.Progress{Done: true, Ref: call.Ref}, ctx.Err()
	}
	e := Entry{Call: Poll, Kind: call.Ref.Kind, Name: call.Ref.Name, ID: call.Ref.ID, Job: call.Job}
	err = cl.do(ctx, e, func(_ time.Time, e *Entry, _ *rule) (err error) {
		p, err = cl.world.jobs.poll(call, e)
		return err
	})
	return answer(p, err)
}

// Get returns one resource with its user data. ErrGone if it does not exist.
func (cl *Client) Get(ctx context.Context, ref cluster.Ref) (got cluster.Resource, err error) {
	e := Entry{Call: Get, Kind: ref.Kind, Name: ref.Name, ID: ref.ID}
	err = cl.do(ctx, e, func(_ time.Time, e *Entry, _ *rule) error {
		t, ok := cl.world.inventory.byID[ref.ID]
		if !ok || t.Kind != ref.Kind {
			return goneError(ref)
		}
		e.Name = t.Name
		got = t.toCluster()
		got.UserData = slices.Clone(t.UserData)
		return nil
	})
	return answer(got, err)
}

// Find looks up the resource of a want: by call id, then by name and tags. ErrGone if it
// does not exist.
func (cl *Client) Find(ctx context.Context, w cluster.DesiredResource) (got cluster.Resource, err error) {
	e := Entry{Call: Find, Kind: w.Kind, Name: w.Name, Key: w.Key, CallID: w.CallID, Cluster: w.Tags[cluster.TagCluster]}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, _ *rule) error {
		t := cl.world.jobs.find(w, now)
		if t == nil {
			return goneError(cluster.Ref{Kind: w.Kind, Name: w.Name})
		}
		e.ID = t.ID
		got = t.toCluster()
		return nil
	})
	return answer(got, err)
}

// List returns a page of resources in the order of their creation.
func (cl *Client) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (page cluster.Page, err error) {
	if f.Kind == "" {
		f.Kind = cluster.VM
	}
	e := Entry{Call: List, Kind: f.Kind, Cluster: f.Cluster, Name: f.Network}
	err = cl.do(ctx, e, func(now time.Time, _ *Entry, _ *rule) (err error) {
		page, err = cl.world.inventory.list(cl.installation, f, at, now)
		return err
	})
	return answer(page, err)
}

// answer returns the zero value if there is an error: a lost answer has no content.
func answer[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}
