package local

import (
	"context"
	"hash/maphash"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// Provider runs VMs as processes. All its state is in its directory; it starts no
// goroutine that outlives a call and needs no Close.
type Provider struct {
	options      Options
	data         dataDir
	client       *http.Client
	probeTimeout time.Duration // timeout of a health request
	seed         maphash.Seed
	locks        [64]sync.Mutex // by id: serializes the actions on a resource

	mu       sync.Mutex
	children map[int]struct{} // ids of the processes that this process has started
}

var (
	_ cluster.Provider = (*Provider)(nil)
	_ cluster.Logs     = (*Provider)(nil)
)

// New opens a data directory. CREDENTIALS_REFUSED or PROVIDER_UNREACHABLE if it cannot be used.
func New(o Options) (*Provider, error) {
	if o.Dir == "" {
		return nil, cluster.ProviderRefused.Errorf("the local provider needs a data directory")
	}
	o, err := o.filled()
	if err != nil {
		return nil, ioFault(err)
	}
	p := &Provider{options: o, data: dataDir{o.Dir}, seed: maphash.MakeSeed(), probeTimeout: defaultProbeTimeout, children: map[int]struct{}{}}
	p.client = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if err := p.data.open(); err != nil {
		return nil, err
	}
	// Processes are identified by the path of their directory: use one spelling.
	if p.data.root, err = filepath.EvalSymlinks(o.Dir); err != nil {
		return nil, ioFault(err)
	}
	return p, nil
}

// Capabilities lists VMs and networks only.
func (p *Provider) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{
		Kinds: []cluster.Kind{cluster.VM, cluster.Network}, CallIDs: true, Tags: true, UserData: userDataLimit, SendsHeartbeats: true, Logs: true,
	}
}

func (p *Provider) lockOf(id string) *sync.Mutex {
	return &p.locks[maphash.String(p.seed, id)%uint64(len(p.locks))]
}

// Create creates and starts a VM, or creates a network. The directory is the intent: after
// a crash before the start, the VM is Stopped, and Create or Start continues.
func (p *Provider) Create(ctx context.Context, w cluster.DesiredResource) (cluster.Call, error) {
	if err := ctx.Err(); err != nil {
		return cluster.Call{}, err
	}
	if folders[w.Kind] == "" {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s: this provider cannot create the kind %s", w.Name, w.Kind)
	}
	r, err := p.record(w)
	if err != nil {
		return cluster.Call{}, err
	}
	if r.Kind == cluster.Network || r.unreadable != "" {
		return cluster.Call{Ref: r.ref(), Done: true}, nil
	}
	// Only the first launch belongs to Create; a VM that stops later was stopped by somebody.
	j := job{act: cluster.Start, id: r.ID, identity: r.Identity, at: r.Created}
	if _, alive := p.findProcess(r); !alive && !p.mark(r, launchFile).At.IsZero() {
		return cluster.Call{Ref: r.ref(), Done: true}, nil
	}
	return p.settle(ctx, j)
}

// record returns the existing record of a Want, or creates it.
func (p *Provider) record(w cluster.DesiredResource) (*record, error) {
	unlock, err := p.data.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.data.checkExists(); err != nil {
		return nil, err
	}
	id := idOf(w)
	if r, err := p.data.load(id); !isGone(err) {
		return r, err
	}
	r := &record{
		ID: id, Kind: w.Kind, Name: w.Name, Identity: disk.Random(16), Key: w.Key, CallID: w.CallID, Tags: maps.Clone(w.Tags), Owner: w.Owner,
		Spec: w.Spec, Created: p.options.Now(),
	}
	r.Spec.Zone = ZoneID
	if w.Spec.Zone != "" && w.Spec.Zone != ZoneID {
		return nil, cluster.ProviderRefused.Errorf("%s: there is no zone %q", w.Name, w.Spec.Zone)
	}
	if w.Kind == cluster.Network {
		networks, err := p.data.list(cluster.Network, "")
		if err != nil {
			return nil, err
		}
		if r.Range, err = freeRange(networks); err != nil {
			return nil, err
		}
		if r.Endpoint, err = p.freeEndpoint(r.Range, networks); err != nil {
			return nil, err
		}
		return r, p.data.add(r, nil)
	}
	if err := p.specifyVM(r); err != nil {
		return nil, err
	}
	return r, p.data.add(r, map[string][]byte{node.UserDataFile: w.Spec.UserData})
}

// specifyVM checks the VM's offering, template and user data, and assigns its addresses.
func (p *Provider) specifyVM(r *record) error {
	offering, ok := p.options.offering(r.Spec.Offering)
	if !ok {
		return cluster.ProviderRefused.Errorf("%s: there is no offering %q", r.Name, r.Spec.Offering)
	}
	template, ok := p.options.template(r.Spec.Template)
	if !ok {
		return cluster.ProviderRefused.Errorf("%s: there is no template %q", r.Name, r.Spec.Template)
	}
	if n := len(r.Spec.UserData); n > userDataLimit {
		return cluster.ProviderRefused.Errorf("%s: %d bytes of user data; %d are allowed", r.Name, n, userDataLimit)
	}
	var rangeText, endpoint string
	if r.Spec.Network != "" {
		network, err := p.data.load(r.Spec.Network)
		if isGone(err) || err == nil && network.Kind != cluster.Network {
			return cluster.ProviderRefused.Errorf("%s: there is no network %q", r.Name, r.Spec.Network)
		}
		if err != nil {
			return err
		}
		rangeText, endpoint = network.Range, network.Endpoint
	}
	vms, err := p.data.list(cluster.VM, "")
	if err != nil {
		return err
	}
	r.Cores, r.MemoryMB = offering.Cores, offering.MemoryMB
	if err := p.checkCapacity(vms, 1, offering); err != nil {
		return err
	}
	at, err := p.freeListenAddrs(rangeText, vms)
	if err != nil {
		return err
	}
	r.Address = at.address
	r.Node = node.Config{
		Identity: r.Identity, Name: r.Name, Role: r.Spec.Role, Version: template.Version, Health: at.health, API: at.api, Times: p.options.Times,
	}
	if r.Spec.Role == cluster.Control {
		r.Node.Endpoint = endpoint
	}
	return nil
}

// checkCapacity checks the limits of the machine for n more VMs.
func (p *Provider) checkCapacity(vms []*record, n int, o Offering) error {
	cores, memory := 0, 0
	for _, vm := range vms {
		cores, memory = cores+vm.Cores, memory+vm.MemoryMB
	}
	for _, l := range []struct {
		what            string
		used, more, all int
	}{
		{"VMs", len(vms), n, p.options.MaxVMs}, {"cores", cores, n * o.Cores, p.options.Cores}, {"MB of memory", memory, n * o.MemoryMB, p.options.MemoryMB},
	} {
		if l.used+l.more > l.all {
			return cluster.CapacityExhausted.Errorf("the limit of this machine is %d %s; %d are used, %d more are needed", l.all, l.what, l.used, l.more)
		}
	}
	return nil
}

// Act starts, stops or destroys. It waits for Options.Patience; the caller polls for the
// rest.
func (p *Provider) Act(ctx context.Context, ref cluster.Ref, a cluster.Action) (cluster.Call, error) {
	if err := ctx.Err(); err != nil {
		return cluster.Call{}, err
	}
	if !slices.Contains([]cluster.Action{cluster.Start, cluster.Stop, cluster.ForceStop, cluster.Destroy}, a) {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("%s: unknown action %q", ref.Name, a)
	}
	r, err := p.recordOf(ref)
	switch {
	case isGone(err) && a == cluster.Destroy:
		return cluster.Call{Ref: ref, Done: true}, nil
	case err != nil:
		return cluster.Call{Ref: ref}, err
	}
	if own := p.options.Installation; a == cluster.Destroy && own != "" && r.unreadable == "" && r.Tags[cluster.TagInstallation] != own {
		return cluster.Call{Ref: ref}, cluster.ProviderRefused.Errorf("%s belongs to another installation", r.Name)
	}
	return p.settle(ctx, job{act: a, id: r.ID, identity: r.Identity, at: p.options.Now()})
}

// Poll follows a call.
func (p *Provider) Poll(ctx context.Context, c cluster.Call) (cluster.Progress, error) {
	if c.Done || c.Job == "" {
		return cluster.Progress{Done: true, Ref: c.Ref}, nil
	}
	j, err := parseJob(c.Job)
	if err != nil {
		return cluster.Progress{}, err
	}
	return p.step(ctx, j)
}
