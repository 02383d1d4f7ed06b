package porttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// SidecarsHarness opens what the suite of port.Sidecars needs.
type SidecarsHarness struct {
	Open func(t testing.TB) SidecarsFixture
	// Wait lets what is late come: a moment of real time (50 ms without it) or of a virtual clock.
	Wait func(t testing.TB)
}

// SidecarsFixture is a pod of the split image that runs, with a sidecar of at least 7.1.4.
type SidecarsFixture struct {
	Sidecars  port.Sidecars
	Pod       *corev1.Pod
	Variables map[string]string // some of those of the sidecar
	Files     map[string]string // some below its output folder, by their path
	// Change changes a file in the config map, and has the pod see it.
	Change func(t testing.TB, file, content string)
	Silent *corev1.Pod // one whose sidecar does not answer
}

// Sidecars examines an implementation of port.Sidecars.
func Sidecars(t *testing.T, h SidecarsHarness) {
	t.Run("the variables of a pod are told", func(t *testing.T) {
		f := h.Open(t)
		got, err := f.Sidecars.Substitutions(t.Context(), f.Pod)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range f.Variables {
			if got[name] != value {
				t.Errorf("%s is %q, want %q", name, got[name], value)
			}
		}
	})
	t.Run("files are hashed, and are there or not", func(t *testing.T) {
		f := h.Open(t)
		for file, content := range f.Files {
			if got, err := f.Sidecars.Hash(t.Context(), f.Pod, file); err != nil || got != digest(content) {
				t.Errorf("the hash of %s is %q, with %v, want %q", file, got, err, digest(content))
			}
			if there, err := f.Sidecars.Present(t.Context(), f.Pod, file); err != nil || !there {
				t.Errorf("%s is there: %v, with %v", file, there, err)
			}
		}
		if got, err := f.Sidecars.Hash(t.Context(), f.Pod, "none"); err != nil || got != "" {
			t.Errorf("the hash of a file that is not there is %q, with %v", got, err)
		}
		if there, err := f.Sidecars.Present(t.Context(), f.Pod, "bin/0.0.0/fdbserver"); err != nil || there {
			t.Errorf("a file that is not there is there: %v, with %v", there, err)
		}
	})
	t.Run("copy makes the files anew", func(t *testing.T) {
		f := h.Open(t)
		wait := pause(h.Wait)
		for file := range f.Files {
			const content = "changed:changed@192.0.2.1:4501"
			f.Change(t, file, content)
			eventually(t, wait, func() string {
				if err := f.Sidecars.Copy(t.Context(), f.Pod); err != nil {
					t.Fatal(err)
				}
				if got, err := f.Sidecars.Hash(t.Context(), f.Pod, file); err != nil || got != digest(content) {
					return "the copy of " + file + " is still the old one"
				}
				return ""
			})
		}
	})
	t.Run("a sidecar that does not answer is an error", func(t *testing.T) {
		f := h.Open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, q := range []struct {
			ctx context.Context //nolint:containedctx // of the call
			pod *corev1.Pod
		}{{t.Context(), f.Silent}, {ctx, f.Pod}} {
			if _, err := f.Sidecars.Substitutions(q.ctx, q.pod); err == nil {
				t.Errorf("pod %s tells its variables", q.pod.Name)
			}
			if _, err := f.Sidecars.Hash(q.ctx, q.pod, "fdb.cluster"); err == nil {
				t.Errorf("pod %s tells a hash", q.pod.Name)
			}
			if _, err := f.Sidecars.Present(q.ctx, q.pod, "fdb.cluster"); err == nil {
				t.Errorf("pod %s tells what is present", q.pod.Name)
			}
			if err := f.Sidecars.Copy(q.ctx, q.pod); err == nil {
				t.Errorf("pod %s copies", q.pod.Name)
			}
		}
	})
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
