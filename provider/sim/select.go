package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// The methods below extend cluster.Provider for other APIs of the cloud, such as
// provider/cloudstack/cloudstacktest. Their calls are logged, and rules apply to them.

// Select returns the resources of a query in the order of their creation, and their total
// number. The log shows it as Get if the query has an id, else as List.
func (cl *Client) Select(ctx context.Context, q Query) (found []View, total int, err error) {
	e := Entry{Call: List, Kind: q.Kind, Name: q.Name, Cluster: q.Tags[cluster.TagCluster]}
	if q.ID != "" {
		e.Call, e.ID = Get, q.ID
	}
	err = cl.do(ctx, e, func(now time.Time, _ *Entry, _ *rule) error {
		found, total = cl.world.inventory.search(q, now)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

// ActAs is Act with a call id, which becomes the id of its job. An action without effect
// then has a job too.
func (cl *Client) ActAs(ctx context.Context, ref cluster.Ref, a cluster.Action, callID string) (call cluster.Call, err error) {
	e := Entry{Call: Act, Action: a, Kind: ref.Kind, Name: ref.Name, ID: ref.ID, CallID: callID}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, r *rule) (err error) {
		call, err = cl.world.actions.act(ref, a, callID, now, e, r)
		return err
	})
	return answer(call, err)
}

// EditAs changes tags and spec of a resource under a call id. It returns the error of
// change. Of the spec only VMs and CIDRs change. ErrGone if the resource does not exist.
func (cl *Client) EditAs(ctx context.Context, ref cluster.Ref, callID string, change func(tags map[string]string, spec *cluster.Spec) error) (call cluster.Call, err error) {
	e := Entry{Call: Edit, Kind: ref.Kind, Name: ref.Name, ID: ref.ID, CallID: callID}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, _ *rule) error {
		w := cl.world
		t, ok := w.inventory.byID[ref.ID]
		if !ok || t.Kind != ref.Kind {
			return goneError(ref)
		}
		e.Name = t.Name
		tags, spec := t.tags(), t.toCluster().Spec
		if err := change(tags, &spec); err != nil {
			return err
		}
		if !maps.Equal(tags, t.tags()) {
			w.inventory.retag(t, tags)
		}
		t.Spec.VMs, t.Spec.CIDRs = spec.VMs, spec.CIDRs
		w.disk.changed(t)
		call = w.jobs.addFinished(t, "edit", callID, now).call()
		return nil
	})
	return answer(call, err)
}

// Job is an asynchronous operation of the cloud.
type Job struct {
	ID           string
	What         string // create, migrate, edit, or an action
	Ref          cluster.Ref
	Owner        cluster.Owner
	Began, Ended time.Time // Ended is zero while it is open
	Err          error     // of a job that has ended
}

func (j *job) export() Job {
	s := Job{ID: j.ID, What: j.What, Ref: j.Ref, Owner: j.Owner, Began: j.Began}
	if j.Done {
		s.Ended, s.Err = j.Ends, j.err()
	}
	return s
}

// Job returns a job. ok is false if there is none. The log shows it as Poll.
func (cl *Client) Job(ctx context.Context, id string) (found Job, ok bool, err error) {
	err = cl.do(ctx, Entry{Call: Poll, Job: id}, func(_ time.Time, e *Entry, _ *rule) error {
		j, known := cl.world.jobs.byID[id]
		if known {
			found, ok = j.export(), true
			e.Kind, e.Name, e.ID = j.Ref.Kind, j.Ref.Name, j.Ref.ID
		}
		return nil
	})
	if err != nil {
		return Job{}, false, err
	}
	return found, ok, nil
}

// Jobs returns all jobs that are not forgotten, oldest first. The log shows it as List.
func (cl *Client) Jobs(ctx context.Context) (all []Job, err error) {
	err = cl.do(ctx, Entry{Call: List}, func(time.Time, *Entry, *rule) error {
		var jobs []*job
		for _, j := range cl.world.jobs.byID {
			jobs = append(jobs, j)
		}
		slices.SortFunc(jobs, func(a, b *job) int { return int(a.Seq - b.Seq) })
		for _, j := range jobs {
			all = append(all, j.export())
		}
		return nil
	})
	return answer(all, err)
}

// Capacity is the use and the limit of each resource. A Limit of 0 means no limit.
type Capacity struct{ VMs, Cores, MemoryMB, Networks, Addresses Level }

// Level is the use and the limit of one resource.
type Level struct{ Used, Limit int }

// Capacities returns the capacity of a zone and of an owner's quota. The log shows it as
// Check.
func (cl *Client) Capacities(ctx context.Context, zone string, owner cluster.Owner) (ofZone, ofOwner Capacity, err error) {
	err = cl.do(ctx, Entry{Call: Check}, func(time.Time, *Entry, *rule) error {
		w := cl.world
		u := w.inventory.capacity.usedBy("zone/" + zone)
		z := w.inventory.capacity.zone(zone)
		if z == nil {
			z = &Zone{}
		}
		ofZone = Capacity{Level{u.vms, z.VMs}, Level{u.cores, z.Cores}, Level{u.memory, z.MemoryMB}, Level{u.networks, 0}, Level{u.addresses, z.Addresses}}
		q, ok := w.o.Quotas[owner.AccountID]
		if !ok {
			q = w.o.Quota
		}
		u = w.inventory.capacity.usedBy("owner/" + owner.AccountID)
		ofOwner = Capacity{Level{u.vms, q.VMs}, Level{u.cores, q.Cores}, Level{u.memory, q.MemoryMB}, Level{u.networks, q.Networks}, Level{u.addresses, q.Addresses}}
		return nil
	})
	return ofZone, ofOwner, err
}
