// Package porttest is the conformance suite of the ports of the FoundationDB operator.
//
//	func TestObjects(t *testing.T) {
//		porttest.Objects(t, porttest.ObjectsHarness{Open: func(t testing.TB) porttest.ObjectsFixture { … }})
//	}
//
// Objects, Database and Sidecars are each examined by themselves. What may be late is waited for, so that an
// implementation on a real API server or with real tools passes too.
package porttest

import (
	"testing"
	"time"
)

// patience is how often a suite looks for what may be late.
const patience = 200

// eventually waits until a look finds nothing wrong any more.
func eventually(t testing.TB, wait func(testing.TB), look func() (wrong string)) {
	t.Helper()
	wrong := look()
	for range patience {
		if wrong == "" {
			return
		}
		wait(t)
		wrong = look()
	}
	t.Fatal(wrong)
}

// pause is the Wait of a harness that has none: the world is a real one, whose lists are late and tell nobody when
// they are not any more.
func pause(wait func(testing.TB)) func(testing.TB) {
	if wait != nil {
		return wait
	}
	return func(testing.TB) { time.Sleep(50 * time.Millisecond) }
}
