package sim

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
)

// Options of a cloud. The zero Options are one zone without limits, three offerings, one
// template and one network offering; all jobs end at once.
type Options struct {
	Seed         uint64
	Installation string           // of the embedded client; empty: "pawl"
	Now          func() time.Time // nil: time.Now
	// Sleep waits for a duration or the end of the context. nil: a timer.
	Sleep func(ctx context.Context, d time.Duration) error

	Zones            []Zone          // empty: zone "zone-1" without limits
	Offerings        []cluster.Entry // empty: "small" 1 core 1 GB, "medium" 2 and 4, "large" 4 and 8
	Templates        []cluster.Entry // empty: "node-image"
	NetworkOfferings []cluster.Entry // empty: "isolated", with all services
	Quota            Quota           // of each owner without an entry in Quotas
	Quotas           map[string]Quota
	Kinds            []cluster.Kind // empty: all kinds of a provider
	UserData         int            // maximum size in bytes; 0: 32 KiB
	NoCallIDs        bool           // the cloud ignores Want.CallID

	Latency time.Duration // of each call: half before its effect, half after
	Visible time.Duration // until a new resource appears in Find and List
	Times   Times
	// RefuseInJob reports exhausted capacity by a failed job and leaves a VM in state Error,
	// as some clouds do. Otherwise the call itself returns the error.
	RefuseInJob bool
	// LateSourceNAT makes the first address acquired in a network its source
	// NAT. Otherwise a network has one from the beginning.
	LateSourceNAT bool
	// ForgetUserData drops user data after Parse, to save memory under large loads.
	ForgetUserData bool

	Script []Rule
	// Around is called before and after every call, on the caller's goroutine. Its error
	// becomes the error of the call: before, the call has no effect; after, the effect has
	// happened. It may panic.
	Around func(call Entry, when When) error
	Log    int // maximum entries of Calls and of Mutations; 0: 100000, negative: none

	// Home receives the nodes' heartbeats: after boot, then every HeartbeatInterval (0: as the
	// answer says, else 30 s). It needs Serve or Tick. nil: no heartbeats.
	Home              func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error)
	HeartbeatInterval time.Duration
	Parse             func(userData []byte) (bootstrap.Data, error) // nil: bootstrap.Parse

	File string // where the state is stored; empty: nowhere. Only one process may use it
}

// Zone is a zone with its capacity. A zero limit means no limit.
type Zone struct {
	ID, Name  string
	Disabled  bool
	Cores     int
	MemoryMB  int
	VMs       int
	Addresses int
}

// Quota limits what one owner may have. A zero field means no limit.
type Quota struct{ VMs, Cores, MemoryMB, Networks, Addresses int }

// Times are the durations of jobs. Zero: the job ends with the call.
type Times struct {
	Create  time.Duration // of a VM
	Start   time.Duration
	Stop    time.Duration
	Destroy time.Duration // of a VM
	Network time.Duration // create and delete
	Rule    time.Duration // rules and addresses, create and delete
	Migrate time.Duration // by Cloud.Migrate
	Boot    time.Duration // from Running until the first heartbeat
}

func (o *Options) fill() {
	if o.Installation == "" {
		o.Installation = "pawl"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if len(o.Zones) == 0 {
		o.Zones = []Zone{{ID: "zone-1", Name: "zone-1"}}
	}
	if len(o.Offerings) == 0 {
		o.Offerings = []cluster.Entry{
			{ID: "small", Name: "small", Cores: 1, MemoryMB: 1024},
			{ID: "medium", Name: "medium", Cores: 2, MemoryMB: 4096, Default: true},
			{ID: "large", Name: "large", Cores: 4, MemoryMB: 8192},
		}
	}
	if len(o.Templates) == 0 {
		o.Templates = []cluster.Entry{{ID: "node-image", Name: "node-image", Default: true}}
	}
	if len(o.NetworkOfferings) == 0 {
		o.NetworkOfferings = []cluster.Entry{{ID: "isolated", Name: "isolated", Default: true, Services: Services}}
	}
	if len(o.Kinds) == 0 {
		o.Kinds = []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer, cluster.KeyPair}
	}
	if o.UserData == 0 {
		o.UserData = 32 << 10
	}
	if o.Log == 0 {
		o.Log = 100_000
	}
	if o.Parse == nil {
		o.Parse = bootstrap.Parse
	}
}

// Services are the services of a network that a cluster can use.
var Services = []string{"Dhcp", "Dns", "UserData", "SourceNat", "StaticNat", "Firewall", "PortForwarding", "Lb"}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
