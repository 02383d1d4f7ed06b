package controlplane

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/fault"
)

// Variable set to "skip" skips tests if the programs of a plane are missing. By default
// they are built.
const Variable = "PAWL_TEST_CONTROLPLANE"

// Suite is the plane of one test package. It starts with the first test that uses it.
type Suite struct {
	o     Options
	once  sync.Once
	plane *Plane
	err   error
}

// NewSuite returns a suite that starts a plane with these options.
func NewSuite(o Options) *Suite { return &Suite{o: o} }

// Plane returns the plane of the suite. It first builds missing programs, or skips the
// test if PAWL_TEST_CONTROLPLANE is "skip".
func (s *Suite) Plane(t testing.TB) *Plane {
	t.Helper()
	s.once.Do(func() { s.plane, s.err = Start(s.o) })
	switch {
	case s.err == nil:
		if err := s.plane.Check(); err != nil {
			t.Fatal(err)
		}
		return s.plane
	case fault.Of(s.err) == BinariesMissing && os.Getenv(Variable) == "skip":
		t.Skip(fault.Message(s.err))
	default:
		t.Fatalf("the control plane: %v", s.err)
	}
	return nil
}

// Main runs the tests, stops the plane, and fails if goroutines or processes remain. It
// does not return. Call it from TestMain.
func (s *Suite) Main(m *testing.M) {
	log.SetLogger(logr.Discard()) // otherwise controller-runtime warns
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (s *Suite) close() error {
	if s.plane == nil {
		return nil
	}
	slot := s.plane.slot
	started := slot.leftovers()
	err := s.plane.Stop()
	for _, p := range started {
		if !p.Gone() {
			err = errors.Join(err, fmt.Errorf("process %d is left: %v", p.PID, p.Args()))
		}
	}
	// A metadata-only watch that is stopped during an event leaks the goroutine of
	// apimachinery's watch.Filter.
	// An informer of several namespaces that is stopped before its lists have come leaks two of
	// controller-runtime.
	return errors.Join(err, goleak.Find(
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
		goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1"),
		goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1"),
	))
}
