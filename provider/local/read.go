package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// The default page size of List, and the number of concurrent health requests.
const (
	pageSize = 500
	atOnce   = 16
)

func isGone(err error) bool { return errors.Is(err, cluster.ErrGone) }

// recordOf returns the record of a known resource. cluster.ErrGone if it does not exist or
// another one has its id.
func (p *Provider) recordOf(ref cluster.Ref) (*record, error) {
	if ref.ID == "" {
		return nil, cluster.ProviderRefused.Errorf("%s: no id", ref.Name)
	}
	if ref.Kind != "" && folders[ref.Kind] == "" {
		return nil, cluster.ProviderRefused.Errorf("%s: this provider cannot create the kind %s", ref.ID, ref.Kind)
	}
	r, err := p.data.load(ref.ID)
	if err != nil {
		return nil, err
	}
	if ref.Identity != "" && r.unreadable == "" && r.Identity != ref.Identity {
		return nil, goneError(ref.ID, nil)
	}
	return r, nil
}

// Get returns one resource with its user data.
func (p *Provider) Get(ctx context.Context, ref cluster.Ref) (cluster.Resource, error) {
	p.reapChildren()
	if err := ctx.Err(); err != nil {
		return cluster.Resource{}, err
	}
	r, err := p.recordOf(ref)
	if err != nil {
		return cluster.Resource{}, err
	}
	shown, err := p.toResource(ctx, r)
	if err != nil || r.Kind != cluster.VM || r.unreadable != "" {
		return shown, err
	}
	shown.UserData, err = os.ReadFile(p.data.filePath(r.ID, node.UserDataFile))
	if errors.Is(err, os.ErrNotExist) {
		_, err = p.recordOf(ref) // the resource is gone, or only the file
	} else {
		err = ioFault(err)
	}
	return shown, err
}

// toResource returns the resource of a record.
func (p *Provider) toResource(ctx context.Context, r *record) (cluster.Resource, error) {
	shown := cluster.Resource{
		Kind: r.Kind, ID: r.ID, Name: r.Name, Zone: ZoneID, Identity: r.Identity, Tags: maps.Clone(r.Tags), Power: cluster.PoweredOn, State: "Implemented",
		Address: r.Address, Created: r.Created, Spec: r.Spec,
	}
	if r.Kind == cluster.Network && r.unreadable == "" {
		shown.Address = r.Range
		return shown, nil
	}
	s, err := p.observe(ctx, r)
	shown.State, shown.Power = s.state, powers[s.state]
	return shown, err
}

// Find returns the resource of a Want: by key, call id, or name and tags.
func (p *Provider) Find(ctx context.Context, w cluster.DesiredResource) (cluster.Resource, error) {
	p.reapChildren()
	if err := ctx.Err(); err != nil {
		return cluster.Resource{}, err
	}
	if folders[w.Kind] == "" {
		return cluster.Resource{}, cluster.ProviderRefused.Errorf("%s: this provider cannot create the kind %s", w.Name, w.Kind)
	}
	if w.Key != "" {
		if r, err := p.data.load(idOf(w)); err == nil {
			return p.toResource(ctx, r)
		} else if !isGone(err) {
			return cluster.Resource{}, err
		}
	}
	all, err := p.data.list(w.Kind, "")
	if err != nil {
		return cluster.Resource{}, err
	}
	for _, matches := range []func(*record) bool{
		func(r *record) bool { return w.CallID != "" && r.CallID == w.CallID },
		func(r *record) bool { return w.Name != "" && r.Name == w.Name && hasTags(r.Tags, w.Tags) },
	} {
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return p.toResource(ctx, all[i])
		}
	}
	return cluster.Resource{}, fmt.Errorf("%w: %s %s", cluster.ErrGone, w.Kind, w.Name)
}

func hasTags(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if tags[key] != value {
			return false
		}
	}
	return true
}

// List returns a page in the order of ids: concurrent creates and deletes hide no other
// resource.
func (p *Provider) List(ctx context.Context, f cluster.Filter, page cluster.Cursor) (cluster.Page, error) {
	p.reapChildren()
	if err := ctx.Err(); err != nil {
		return cluster.Page{}, err
	}
	kind, size := f.Kind, f.Size
	if kind == "" {
		kind = cluster.VM
	}
	if size <= 0 {
		size = pageSize
	}
	if folders[kind] == "" || f.Zone != "" && f.Zone != ZoneID {
		return cluster.Page{}, nil
	}
	all, err := p.data.list(kind, string(page))
	if err != nil {
		return cluster.Page{}, err
	}
	all = slices.DeleteFunc(all, func(r *record) bool { return !p.matches(r, f) })
	var next cluster.Cursor
	if len(all) > size {
		all = all[:size]
		next = cluster.Cursor(all[size-1].ID)
	}
	items := make([]cluster.Resource, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, r := range all {
		group.Go(func() (err error) {
			items[i], err = p.toResource(ctx, r)
			return err
		})
	}
	return cluster.Page{Items: items, Next: next}, group.Wait()
}

// matches applies a filter. A filter by network also matches resources of other
// installations.
func (p *Provider) matches(r *record, f cluster.Filter) bool {
	if f.Cluster != "" && r.Tags[cluster.TagCluster] != f.Cluster {
		return false
	}
	if f.Network != "" {
		return r.Spec.Network == f.Network || r.ID == f.Network
	}
	if f.Foreign && f.Cluster == "" {
		return true
	}
	tag := r.Tags[cluster.TagInstallation]
	return tag != "" && (p.options.Installation == "" || tag == p.options.Installation)
}

// Logs returns the newest lines of the VM's process. lines <= 0: 100.
func (p *Provider) Logs(ctx context.Context, ref cluster.Ref, lines int) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	r, err := p.recordOf(ref)
	if err != nil {
		return "", err
	}
	if r.Kind != cluster.VM {
		return "", cluster.ProviderRefused.Errorf("%s: only VMs write logs", r.Name)
	}
	if lines <= 0 {
		lines = 100
	}
	text, err := tail(p.data.filePath(r.ID, node.LogFile), lines)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // the VM was never started
	}
	return text, ioFault(err)
}
