// Package providertest is the exam of every cluster.Provider.
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, func(t *testing.T) providertest.Setup { return providertest.Setup{Provider: open(t), …} })
//	}
//
// It works on the real clock: a provider with virtual times is examined with
// short ones. What a provider cannot show is skipped, with the reason.
package providertest

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Setup is a provider to examine. Provider, Installation, Zone, Offering and
// Template are required, NetworkOffering where it makes networks; a function
// that is nil skips its part of the exam.
type Setup struct {
	Provider     cluster.Provider
	Installation string        // the value of cluster.TagInstallation that its lists are about
	Owner        cluster.Owner // whose the things are; it may make Many VMs and some of each other kind

	// Ids of its catalogue.
	Zone, Offering, Template, NetworkOffering string

	// UserData makes user data that a VM of this provider can start with, for a
	// node of that name. nil: any bytes will do.
	UserData func(t *testing.T, node string) []byte
	// ReadUserData reads what a VM got, where Get does not show it.
	ReadUserData func(t *testing.T, vm cluster.Ref) []byte

	// Foreign makes a VM that is not ours, in the network if that is not empty,
	// and removes it by t.Cleanup.
	CreateForeign func(t *testing.T, network string) cluster.Ref
	// ForeignLives reports whether it is there, unchanged.
	ForeignExists func(t *testing.T, vm cluster.Ref) bool
	// Restart gives a new client of the same infrastructure, which knows
	// nothing of the old one but what outlives a process.
	Restart func(t *testing.T) cluster.Provider
	// Unreachable cuts the provider off, or joins it again.
	Unreachable func(t *testing.T, off bool)
	// Refuse makes its credentials invalid, or valid again.
	Refuse func(t *testing.T, off bool)
	// LoseAnswer loses the answer of the next create call, after it was accepted.
	LoseAnswer func(t *testing.T)
	// Full takes all room for VMs away, or gives it back.
	Full func(t *testing.T, full bool)

	SettleTimeout time.Duration // longest until a call ends and a lookup sees what was made; default 10 s
	Poll          time.Duration // between two looks; default 5 ms
	MaxVMs        int           // VMs that the exam may have at once; default 20, at least 4
}

// Run is the exam. open gives a provider for each question; what it needs to
// be closed is left to t.Cleanup. Things that the exam makes are destroyed.
func Run(t *testing.T, open func(t *testing.T) Setup) {
	for _, q := range []struct {
		name string
		ask  func(t *testing.T, r *fixture)
	}{
		{"create, find, get and list agree", agree},
		{"the same key twice makes one thing", sameKey},
		{"an answer lost after accept is found again", lostAnswer},
		{"start and stop twice are no errors", startAndStopTwice},
		{"the identity stays", identity},
		{"destroy of a gone thing succeeds", destroyGone},
		{"gone, forbidden and unreachable are told apart", errorsAreDistinct},
		{"paging covers everything under concurrent change", paging},
		{"a filter gives its part", filters},
		{"a foreign thing is listed as foreign and survives", foreign},
		{"tags and user data return unchanged", unchanged},
		{"too much user data is refused", tooMuchUserData},
		{"cancel of the context leaves nothing unaccounted", cancelled},
		{"50 parallel calls", parallel},
		{"a client restarted in the middle goes on", restarted},
		{"no room is told, and the same want fits later", noCapacity},
		{"a rule in the way is a conflict", conflict},
		{"a network in use stays", inUse},
		{"check says what stands in the way", check},
		{"the catalogue names what it was asked for", catalogue},
	} {
		t.Run(q.name, func(t *testing.T) {
			r := newFixture(t, open(t))
			q.ask(t, r)
		})
	}
}
