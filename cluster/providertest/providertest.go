// Package providertest is the conformance suite of cluster.Provider.
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, func(t *testing.T) providertest.Setup { return providertest.Setup{Provider: open(t), …} })
//	}
//
// It uses the real clock: a provider with configurable times is tested with short
// ones. Tests that a provider does not support are skipped, with the reason.
package providertest

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Setup describes the provider under test. Provider, Installation, Zone, Offering
// and Template are required, NetworkOffering if the provider creates networks. A
// nil function skips its tests.
type Setup struct {
	Provider     cluster.Provider
	Installation string        // value of cluster.TagInstallation that its lists select
	Owner        cluster.Owner // owner of the resources; it may create MaxVMs VMs and some of each other kind

	// Ids in the catalogue of the provider.
	Zone, Offering, Template, NetworkOffering string

	// UserData returns user data with which a VM of this provider can start, for a
	// node of that name. nil: any bytes.
	UserData func(t *testing.T, node string) []byte
	// ReadUserData reads the user data inside a VM, if Get does not return it.
	ReadUserData func(t *testing.T, vm cluster.Ref) []byte

	// CreateForeign creates a VM of somebody else, in the network unless that is
	// empty, and removes it by t.Cleanup.
	CreateForeign func(t *testing.T, network string) cluster.Ref
	// ForeignExists reports whether that VM exists unchanged.
	ForeignExists func(t *testing.T, vm cluster.Ref) bool
	// Restart returns a new client of the same infrastructure, which shares only
	// what survives a process with the old one.
	Restart func(t *testing.T) cluster.Provider
	// Unreachable disconnects the provider, or connects it again.
	Unreachable func(t *testing.T, off bool)
	// Refuse makes the credentials of the provider invalid, or valid again.
	Refuse func(t *testing.T, off bool)
	// LoseAnswer drops the answer to the next create call, after the provider has
	// accepted the call.
	LoseAnswer func(t *testing.T)
	// Full uses up the capacity for VMs, or frees it.
	Full func(t *testing.T, full bool)

	SettleTimeout time.Duration // longest time until a call ends and a lookup sees the new resource; default 10 s
	Poll          time.Duration // pause between polls; default 5 ms
	MaxVMs        int           // VMs that the suite may have at the same time; default 20, at least 4
}

// Run tests a provider. open returns a provider for each test and closes it by
// t.Cleanup. The suite destroys the resources that it creates.
func Run(t *testing.T, open func(t *testing.T) Setup) {
	for _, q := range []struct {
		name string
		test func(t *testing.T, r *fixture)
	}{
		{"create, find, get and list agree", readsAgree},
		{"the same key twice creates one resource", sameKey},
		{"an answer lost after accept is found again", lostAnswer},
		{"start and stop twice are no errors", startAndStopTwice},
		{"the identity stays", identity},
		{"destroy of a resource that is gone succeeds", destroyGone},
		{"gone, forbidden and unreachable are distinct", errorsAreDistinct},
		{"paging covers everything under concurrent change", paging},
		{"a filter selects", filters},
		{"a foreign VM is listed as foreign and survives", foreign},
		{"tags and user data return unchanged", unchanged},
		{"too much user data is refused", tooMuchUserData},
		{"cancel of the context leaves nothing unaccounted", cancelled},
		{"50 parallel calls", parallel},
		{"a client restarted in the middle goes on", restarted},
		{"a lack of capacity is reported, and the same resource fits later", noCapacity},
		{"a rule in the way is a conflict", conflict},
		{"a network in use stays", inUse},
		{"check reports obstacles", check},
		{"the catalogue contains the configured objects", catalogue},
	} {
		t.Run(q.name, func(t *testing.T) {
			r := newFixture(t, open(t))
			q.test(t, r)
		})
	}
}
