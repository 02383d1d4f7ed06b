package controlplane_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// listener is a test whose skip and failure are recorded.
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

// If programs are missing and not built, the test is skipped with the variable, and fails
// without it; both messages say how to get them.
func TestMissingBinaries(t *testing.T) {
	for _, variable := range []string{"", "skip"} {
		t.Setenv(controlplane.Variable, variable)
		l, done := &listener{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			controlplane.NewSuite(controlplane.Options{Bin: t.TempDir()}).Plane(l)
		}()
		<-done
		said, other := l.failed, l.skipped
		if variable == "skip" {
			said, other = other, said
		}
		if !strings.Contains(said, "make controlplane") || other != "" {
			t.Errorf("with %q it says %q, and %q", variable, said, other)
		}
	}
}
