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
	cloud        *Cloud
	installation string
}

var _ cluster.Provider = (*Client)(nil)

// Capabilities returns the capabilities that the Options describe.
func (cl *Client) Capabilities() cluster.Capabilities {
	o := &cl.cloud.o
	return cluster.Capabilities{Kinds: slices.Clone(o.Kinds), CallIDs: !o.NoCallIDs, Tags: true, UserData: o.UserData, DiskSize: true, SendsHeartbeats: o.Home != nil}
}

// do performs one call: it applies latency, Options.Around and the rules. effect runs
// under the cloud's lock.
func (cl *Client) do(ctx context.Context, e Entry, effect func(now time.Time, e *Entry, r *rule) error) error {
	c := cl.cloud
	e.Installation = cl.installation
	if c.o.Around != nil {
		if err := c.o.Around(e, Before); err != nil {
			return err
		}
	}
	if err := c.wait(ctx, e, c.o.Latency/2); err != nil {
		return err
	}
	delay, err := c.execute(&e, effect)
	if late := c.wait(ctx, e, delay+c.o.Latency-c.o.Latency/2); late != nil {
		return late
	}
	if c.o.Around != nil {
		if killed := c.o.Around(e, After); killed != nil {
			return killed
		}
	}
	return err
}

// execute performs the call inside the cloud and logs it. A rule may replace the result by
// an error.
func (c *Cloud) execute(e *Entry, effect func(now time.Time, e *Entry, r *rule) error) (delay time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	c.settle(now)
	e.Seq, e.At = c.next(), now
	r := c.matchRule(e)
	var ruleErr error
	if r != nil {
		delay, ruleErr = r.Delay, r.answerError(e)
	}
	switch {
	case c.unreachable:
		err = cluster.ProviderUnreachable.Errorf("%s: connection refused", e)
	case c.refused:
		err = cluster.CredentialsRefused.Errorf("%s: unable to verify the credentials", e)
	case ruleErr != nil && r.When == Before:
		err = ruleErr
	default:
		err = effect(now, e, r)
		if r != nil && r.Do == Duplicate {
			err = effect(now, e, r)
		}
		if ruleErr != nil {
			err = ruleErr
		}
		if failed := c.flush(); failed != nil {
			err = failed
		}
		c.wakeServe()
	}
	if err != nil {
		e.Code, e.Err = codeOf(err), err.Error()
	}
	c.calls.add(*e)
	return delay, err
}

// wait simulates time that a call takes. If the context ends, the call has no answer:
// PROVIDER_UNREACHABLE.
func (c *Cloud) wait(ctx context.Context, e Entry, d time.Duration) error {
	err := ctx.Err()
	if err == nil && d > 0 {
		err = c.o.Sleep(ctx, d)
	}
	if err != nil {
		return cluster.ProviderUnreachable.Errorf("%s: no answer: %w", e, err)
	}
	return nil
}

// Check returns the findings that prevent a plan: ENTITY_REFUSED, CAPACITY_EXHAUSTED,
// QUOTA_EXCEEDED.
func (cl *Client) Check(ctx context.Context, n cluster.Need) (found []cluster.Finding, err error) {
	err = cl.do(ctx, Entry{Call: Check}, func(time.Time, *Entry, *rule) error {
		found = cl.cloud.check(n)
		return nil
	})
	return answer(found, err)
}

// Catalog lists what the owner may use.
func (cl *Client) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) (entries []cluster.Entry, err error) {
	err = cl.do(ctx, Entry{Call: Catalog, Kind: kind}, func(time.Time, *Entry, *rule) error {
		entries, err = cl.cloud.catalog(owner, kind)
		return err
	})
	return answer(entries, err)
}

// Create creates a resource. It returns PROVIDER_REFUSED for an invalid request, and the
// faults of capacity, quota and rules.
func (cl *Client) Create(ctx context.Context, w cluster.DesiredResource) (call cluster.Call, err error) {
	e := Entry{Call: Create, Kind: w.Kind, Name: w.Name, Key: w.Key, CallID: w.CallID, Cluster: w.Tags[cluster.TagCluster]}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, r *rule) (err error) {
		call, err = cl.cloud.create(w, now, e, r)
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
		p, err = cl.cloud.poll(call, e)
		return err
	})
	return answer(p, err)
}

// Get returns one resource with its user data. ErrGone if it does not exist.
func (cl *Client) Get(ctx context.Context, ref cluster.Ref) (got cluster.Resource, err error) {
	e := Entry{Call: Get, Kind: ref.Kind, Name: ref.Name, ID: ref.ID}
	err = cl.do(ctx, e, func(_ time.Time, e *Entry, _ *rule) error {
		t, ok := cl.cloud.resources[ref.ID]
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
		t := cl.cloud.find(w, now)
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
		page, err = cl.cloud.list(cl.installation, f, at, now)
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
