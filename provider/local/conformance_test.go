package local

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providertest"
)

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Setup { return newSetup(t, Options{}) })
}

// With only one loopback address, the VMs have their own ports.
func TestProviderWithOneAddress(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Setup { return newSetup(t, Options{OneAddress: true}) })
}

func newSetup(t *testing.T, o Options) providertest.Setup {
	o.Dir = folder(t)
	p := open(t, o)
	lossy := &lossyProvider{Provider: p}
	s := providertest.Setup{
		Provider: lossy, Installation: installation, Owner: cluster.Owner{AccountID: "a", DomainID: "d"},
		Zone: ZoneID, Offering: "small", Template: "node-1.0", NetworkOffering: NetworkOfferingID,
		CreateForeign: func(t *testing.T, network string) cluster.Ref {
			other, err := New(Options{Dir: o.Dir, Installation: "another", OneAddress: o.OneAddress, Times: quick})
			if err != nil {
				t.Fatal(err)
			}
			call, err := other.Create(t.Context(), cluster.DesiredResource{
				Kind: cluster.VM, Name: "foreign", Key: "theirs", Tags: map[string]string{cluster.TagInstallation: "another"}, Spec: cluster.Spec{Network: network},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := other.Act(context.WithoutCancel(t.Context()), call.Ref, cluster.Destroy); err != nil {
					t.Error(err)
				}
			})
			return call.Ref
		},
		ForeignExists: func(t *testing.T, vm cluster.Ref) bool {
			got, err := p.Get(t.Context(), vm)
			return err == nil && got.Power == cluster.PoweredOn && got.Tags[cluster.TagInstallation] == "another"
		},
		Restart: func(t *testing.T) cluster.Provider {
			o := o
			o.Times, o.Installation = quick, installation
			again, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			return again
		},
		Unreachable: func(t *testing.T, off bool) {
			from, to := o.Dir, o.Dir+".away"
			if !off {
				from, to = to, from
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		},
		LoseAnswer: func(*testing.T) { lossy.next.Store(true) },
		Full: func(_ *testing.T, full bool) {
			p.options.MaxVMs = 64
			if full {
				p.options.MaxVMs = 0
			}
		},
		SettleTimeout: 30 * time.Second, MaxVMs: 8,
	}
	if os.Getuid() != 0 { // root may do everything
		s.Refuse = func(t *testing.T, off bool) {
			mode := os.FileMode(0o700)
			if off {
				mode = 0
			}
			if err := os.Chmod(o.Dir, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// lossyProvider loses the answers of create calls.
type lossyProvider struct {
	*Provider
	next atomic.Bool
}

func (l *lossyProvider) Create(ctx context.Context, w cluster.DesiredResource) (cluster.Call, error) {
	call, err := l.Provider.Create(ctx, w)
	if err == nil && l.next.CompareAndSwap(true, false) {
		return cluster.Call{}, cluster.ProviderUnreachable.Errorf("the answer was lost")
	}
	return call, err
}
