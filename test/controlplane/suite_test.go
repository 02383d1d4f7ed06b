package controlplane_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// listener is a test that ends where a suite lets it end.
type listener struct {
	testing.TB
	skipped, failed string
}

func (l *listener) Helper() {}

func (l *listener) Skip(args ...any) {
	l.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

func (l *listener) Fatalf(format string, args ...any) {
	l.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Without the programs a test is skipped and says how to get them; where they
// are required it fails and says the same.
func TestMissingBinariesSkipUnlessRequired(t *testing.T) {
	for _, required := range []string{"", "required"} {
		t.Setenv(controlplane.RequiredVariable, required)
		l, done := &listener{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			controlplane.NewSuite(controlplane.Options{Bin: t.TempDir()}).Plane(l)
		}()
		<-done
		said, other := l.skipped, l.failed
		if required != "" {
			said, other = other, said
		}
		if !strings.Contains(said, "make controlplane") || other != "" {
			t.Errorf("with %q it says %q, and %q", required, said, other)
		}
	}
}
