package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// The methods below extend cluster.Provider for other APIs of the cloud, such as
// provider/cloudstack/cloudstacktest. Their calls are logged, and rules apply to them.

// Query selects resources. Zero fields do not restrict.
type Query struct {
	Kind    cluster.Kind
	ID      string // also resources that are not yet visible
	Name    string
	Like    string // part of the name, ignoring case
	Zone    string
	Network string // the resources in it
	Address string // the rules of an address, by id
	Owner   cluster.Owner
	Tags    map[string]string
	Where   func(View) bool // it gets neither tags nor services, and must not keep its argument

	Offset, Limit int // Limit 0: all
}

// View is a resource with the fields that only the cloud knows.
type View struct {
	cluster.Resource
	Owner           cluster.Owner
	Cores, MemoryMB int
	Host            int
	Services        []string // of a network
	System          bool
}

func (t *resource) view() View {
	return View{t.toCluster(), t.Owner, t.Cores, t.MemoryMB, t.Host, slices.Clone(t.Services), t.System}
}

// shallowView is view without copies, for scans of many resources.
func (t *resource) shallowView() View {
	return View{Resource: cluster.Resource{
		Kind: t.Kind, ID: t.ID, Name: t.Name, Zone: t.Spec.Zone, Identity: t.Identity, Power: t.power(), State: t.State, Address: t.Address,
		Created: t.Created, SourceNAT: t.SourceNAT, Spec: t.Spec,
	}, Owner: t.Owner, Cores: t.Cores, MemoryMB: t.MemoryMB, Host: t.Host, System: t.System}
}

// Select returns the resources of a query in the order of their creation, and their total
// number. The log shows it as Get if the query has an id, else as List.
func (cl *Client) Select(ctx context.Context, q Query) (found []View, total int, err error) {
	e := Entry{Call: List, Kind: q.Kind, Name: q.Name, Cluster: q.Tags[cluster.TagCluster]}
	if q.ID != "" {
		e.Call, e.ID = Get, q.ID
	}
	err = cl.do(ctx, e, func(now time.Time, _ *Entry, _ *rule) error {
		found, total = cl.cloud.search(q, now)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return found, total, nil
}

func (c *Cloud) search(q Query, now time.Time) (found []View, total int) {
	for _, t := range c.candidates(q) {
		if t.gone || q.ID == "" && now.Before(t.Visible) || !q.fits(t) {
			continue
		}
		if q.Where != nil && !q.Where(t.shallowView()) {
			continue
		}
		if total++; total > q.Offset && (q.Limit <= 0 || len(found) < q.Limit) {
			found = append(found, t.view())
		}
	}
	return found, total
}

func (c *Cloud) candidates(q Query) []*resource {
	one := func(t *resource) []*resource {
		if t == nil {
			return nil
		}
		return []*resource{t}
	}
	x := c.byKind[q.Kind]
	switch {
	case q.ID != "":
		return one(c.resources[q.ID])
	case q.Name != "":
		return one(c.byName[name{string(q.Kind), q.Name}])
	case q.Tags[cluster.TagCluster] != "":
		x = c.byCluster[q.Tags[cluster.TagCluster]]
	case q.Network != "":
		x = c.byNetwork[q.Network]
	case q.Tags[cluster.TagInstallation] != "":
		x = c.byInst[q.Tags[cluster.TagInstallation]+"/"+string(q.Kind)]
	}
	if x == nil {
		return nil
	}
	return x.items
}

func (q *Query) fits(t *resource) bool {
	switch {
	case t.Kind != q.Kind, q.Name != "" && t.Name != q.Name, q.Zone != "" && t.Spec.Zone != q.Zone,
		q.Network != "" && t.Spec.Network != q.Network, q.Address != "" && t.Spec.Address != q.Address,
		q.Owner != (cluster.Owner{}) && t.Owner != q.Owner,
		q.Like != "" && !strings.Contains(strings.ToLower(t.Name), strings.ToLower(q.Like)):
		return false
	}
	for key, value := range q.Tags {
		switch key {
		case cluster.TagInstallation:
			if t.Installation != value {
				return false
			}
		case cluster.TagCluster:
			if t.Cluster != value {
				return false
			}
		case cluster.TagKey:
			if t.Key != value {
				return false
			}
		default:
			if got, ok := t.Tags[key]; !ok || got != value {
				return false
			}
		}
	}
	return true
}

// ActAs is Act with a call id, which becomes the id of its job. An action without effect
// then has a job too.
func (cl *Client) ActAs(ctx context.Context, ref cluster.Ref, a cluster.Action, callID string) (call cluster.Call, err error) {
	e := Entry{Call: Act, Action: a, Kind: ref.Kind, Name: ref.Name, ID: ref.ID, CallID: callID}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, r *rule) (err error) {
		call, err = cl.cloud.act(ref, a, callID, now, e, r)
		return err
	})
	return answer(call, err)
}

// EditAs changes tags and spec of a resource under a call id. It returns the error of
// change. Of the spec only VMs and CIDRs change. ErrGone if the resource does not exist.
func (cl *Client) EditAs(ctx context.Context, ref cluster.Ref, callID string, change func(tags map[string]string, spec *cluster.Spec) error) (call cluster.Call, err error) {
	e := Entry{Call: Edit, Kind: ref.Kind, Name: ref.Name, ID: ref.ID, CallID: callID}
	err = cl.do(ctx, e, func(now time.Time, e *Entry, _ *rule) error {
		c := cl.cloud
		t, ok := c.resources[ref.ID]
		if !ok || t.Kind != ref.Kind {
			return goneError(ref)
		}
		e.Name = t.Name
		tags, spec := t.tags(), t.toCluster().Spec
		if err := change(tags, &spec); err != nil {
			return err
		}
		if !maps.Equal(tags, t.tags()) {
			c.retag(t, tags)
		}
		t.Spec.VMs, t.Spec.CIDRs = spec.VMs, spec.CIDRs
		c.persist(t)
		call = c.addFinishedJob(t, "edit", callID, now).call()
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
		j, known := cl.cloud.jobs[id]
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

// HasJob reports whether a job exists, without a client call.
func (c *Cloud) HasJob(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.jobs[id]
	return ok
}

// Jobs returns all jobs that are not forgotten, oldest first. The log shows it as List.
func (cl *Client) Jobs(ctx context.Context) (all []Job, err error) {
	err = cl.do(ctx, Entry{Call: List}, func(time.Time, *Entry, *rule) error {
		var jobs []*job
		for _, j := range cl.cloud.jobs {
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
		c := cl.cloud
		u := c.usedBy("zone/" + zone)
		z := c.zone(zone)
		if z == nil {
			z = &Zone{}
		}
		ofZone = Capacity{Level{u.vms, z.VMs}, Level{u.cores, z.Cores}, Level{u.memory, z.MemoryMB}, Level{u.networks, 0}, Level{u.addresses, z.Addresses}}
		q, ok := c.o.Quotas[owner.AccountID]
		if !ok {
			q = c.o.Quota
		}
		u = c.usedBy("owner/" + owner.AccountID)
		ofOwner = Capacity{Level{u.vms, q.VMs}, Level{u.cores, q.Cores}, Level{u.memory, q.MemoryMB}, Level{u.networks, q.Networks}, Level{u.addresses, q.Addresses}}
		return nil
	})
	return ofZone, ofOwner, err
}

// LookupView is Lookup with the fields that Select returns.
func (c *Cloud) LookupView(kind cluster.Kind, idOrName string) (View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.o.Now())
	t := c.byNameOrID(kind, idOrName)
	if t == nil {
		return View{}, false
	}
	return t.view(), true
}

// CountInNetwork counts the VMs and the other resources of a network, without a client
// call.
func (c *Cloud) CountInNetwork(network string) (vms, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.o.Now())
	if t, ok := c.resources[network]; ok && t.Kind == cluster.Network {
		for _, other := range c.inNetwork(t) {
			if other.Kind == cluster.VM {
				vms++
			} else {
				others++
			}
		}
	}
	return vms, others
}
