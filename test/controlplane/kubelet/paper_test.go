package kubelet

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A container crashes some time after it was Ready, restarts at once, then after a back-off
// that doubles; one that ran long restarts at once again.
func TestPaperContainerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c paperContainer
		spec, next := corev1.Container{Name: "main"}, &Crash{After: 5 * time.Second, ExitCode: 7}
		look := func() corev1.ContainerStatus {
			c.advance(time.Now(), true, next, 10*time.Second)
			return c.status(spec, true)
		}
		if s := look(); !s.Ready || s.State.Running == nil {
			t.Fatalf("it begins as %+v", s)
		}
		var waits []time.Duration
		for restarts := int32(0); restarts < 4; restarts++ {
			if s := look(); s.RestartCount != restarts || !s.Ready {
				t.Fatalf("before crash %d it is %+v", restarts, s)
			}
			time.Sleep(5 * time.Second)
			s := look()
			fell := time.Now()
			switch {
			case s.Ready || s.RestartCount != restarts || s.State.Running != nil:
				t.Fatalf("crash %d: %+v", restarts, s)
			case restarts == 0 && (s.State.Terminated == nil || s.State.Terminated.ExitCode != 7):
				t.Errorf("the first crash: %+v", s)
			case restarts > 0 && (s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.LastTerminationState.Terminated.ExitCode != 7):
				t.Errorf("crash %d: %+v", restarts, s)
			}
			for s.State.Running == nil {
				time.Sleep(beat)
				s = look()
			}
			waits = append(waits, time.Since(fell))
			if s.Ready {
				t.Error("it restarts Ready")
			}
			time.Sleep(beat)
			look()
		}
		for i, want := range []time.Duration{beat, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if waits[i] != want {
				t.Errorf("wait %d took %s, not %s", i, waits[i], want)
			}
		}
		next = nil
		time.Sleep(2 * time.Minute)
		next = &Crash{}
		if s := look(); s.State.Terminated == nil || c.backoff != 0 {
			t.Errorf("after a long run it waits %s: %+v", c.backoff, s)
		}
	})
}
