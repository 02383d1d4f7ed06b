package sim

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Options of a cloud. The zero Options are one zone without limits, offerings,
// a template and a network offering, in which everything ends at once.
type Options struct {
	Seed         uint64
	Installation string           // whose tag the cloud itself, as a client, lists by; empty: "pawl"
	Now          func() time.Time // nil: time.Now
	// Sleep lets a call take its time. nil: a timer, and the end of the context.
	Sleep func(ctx context.Context, d time.Duration) error

	Zones            []Zone          // empty: zone "zone-1" without limits
	Offerings        []cluster.Entry // empty: "small" 1 core 1 GB, "medium" 2 and 4, "large" 4 and 8
	Templates        []cluster.Entry // empty: "node-image"
	NetworkOfferings []cluster.Entry // empty: "isolated", with all services
	Quota            Quota           // of each owner that Quotas does not name
	Quotas           map[string]Quota
	Kinds            []cluster.Kind // empty: all that a provider can make
	UserData         int            // most bytes; 0: 32 KiB
	NoCallIDs        bool           // it does not know Want.CallID

	Latency time.Duration // of each call: half before its effect, half behind
	Visible time.Duration // until a made thing appears in Find and List
	Times   Times
	// RefuseInJob tells exhausted capacity by a job that fails, and leaves a VM
	// in state Error, as some clouds do. Otherwise the call itself is refused.
	RefuseInJob bool
	// LateSourceNAT makes the first address acquired in a network its source
	// NAT. Otherwise a network has one from the beginning.
	LateSourceNAT bool
	// ForgetUserData keeps what Parse found and drops the bytes: for large loads.
	ForgetUserData bool

	Script []Rule
	// Around is called before and after every call, on the caller's goroutine.
	// Its error is the call's answer: before, there is no effect; after, there
	// was one. It may panic.
	Around func(call Entry, when When) error
	Log    int // most entries of Calls and of Deeds, the newest; 0: 100000, negative: none

	// Home is where nodes call once they are booted, and every HelloEvery (0: as
	// the answer says, else 30 s). It needs Serve or Tick. nil: they keep silent.
	Home              func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error)
	HeartbeatInterval time.Duration
	Parse             func(userData []byte) (cluster.Bootstrap, error) // nil: cluster.ParseBootstrap

	File string // where the state is kept; empty: nowhere. One process only
}

// Zone is a place with room. A zero limit is none.
type Zone struct {
	ID, Name  string
	Disabled  bool
	Cores     int
	MemoryMB  int
	VMs       int
	Addresses int
}

// Quota is what one owner may have. A zero field is no limit.
type Quota struct{ VMs, Cores, MemoryMB, Networks, Addresses int }

// Times say how long jobs take. Zero: the answer of the call is the end.
type Times struct {
	Create  time.Duration // of a VM
	Start   time.Duration
	Stop    time.Duration
	Destroy time.Duration // of a VM
	Network time.Duration // made and deleted
	Rule    time.Duration // rules and addresses, made and deleted
	Migrate time.Duration // by the verb
	Boot    time.Duration // from Running until a node calls home
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
		o.Parse = cluster.ParseBootstrap
	}
}

// Services are those of a network that a cluster can use.
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
