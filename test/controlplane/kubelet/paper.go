package kubelet

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations of a status-only pod whose containers crash: how long after they were
// Ready, and how often at most (without it: again and again).
const (
	CrashAfterAnnotation = "kubelet.pawl.dev/crash-after"
	CrashTimesAnnotation = "kubelet.pawl.dev/crash-times"
)

// Crash says when a container that runs crashes.
type Crash struct {
	After    time.Duration // after it was Ready
	ExitCode int32         // 1 by default
}

// beat is how long a container is down that restarts at once, and then not Ready: long enough to
// be seen.
const beat = 500 * time.Millisecond

// stableAfter is how long a container must have run to be restarted at once again.
const stableAfter = time.Minute

// paperPod is the state of a status-only pod. The Kubelet's mutex guards it.
type paperPod struct {
	address    string
	leaving    time.Time // when the kubelet saw its deletion
	containers map[string]*paperContainer
}

// paperContainer is a container of a status-only pod that crashes by schedule.
type paperContainer struct {
	restarts int32
	started  time.Time // of the current or last run
	ready    time.Time // since when it is Ready; zero: it is not
	last     *corev1.ContainerStateTerminated
	fallen   bool          // it does not run
	until    time.Time     // when it runs again
	backoff  time.Duration // that it waits for; zero: it restarts at once
	pause    time.Duration // the next back-off; zero: none yet
}

// advance brings the container to the time now: a due crash happens, a due restart too.
// next is its next crash, nil if there is none; backoff is the first wait.
func (c *paperContainer) advance(now time.Time, ready bool, next *Crash, backoff time.Duration) {
	if c.started.IsZero() {
		c.started = now
	}
	if c.fallen {
		if now.Before(c.until) {
			return
		}
		*c = paperContainer{restarts: c.restarts + 1, started: now, last: c.last, pause: c.pause}
	}
	switch {
	case !ready, c.restarts > 0 && now.Before(c.started.Add(beat)):
		c.ready = time.Time{}
		return
	case c.ready.IsZero():
		c.ready = now
	}
	if next == nil || now.Before(c.ready.Add(next.After)) {
		return
	}
	code := next.ExitCode
	if code == 0 {
		code = 1
	}
	c.last = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Error", StartedAt: metav1.NewTime(c.started.Truncate(time.Second)), FinishedAt: metav1.NewTime(now.Truncate(time.Second)),
	}
	if now.Sub(c.started) > stableAfter {
		c.pause = 0
	}
	c.fallen, c.ready, c.backoff = true, time.Time{}, c.pause
	c.until = now.Add(max(c.backoff, beat))
	c.pause = min(max(2*c.pause, backoff), 30*backoff)
}

// status returns the container's status.
func (c *paperContainer) status(spec corev1.Container, ready bool) corev1.ContainerStatus {
	s := statusOnlyContainer(spec, ready && !c.fallen && !c.ready.IsZero(), false)
	s.RestartCount = c.restarts
	s.State.Running.StartedAt = metav1.NewTime(c.started.Truncate(time.Second))
	if c.last != nil {
		s.LastTerminationState.Terminated = c.last.DeepCopy()
		s.LastTerminationState.Terminated.ContainerID = s.ContainerID
	}
	if !c.fallen {
		return s
	}
	no := false
	s.Started, s.State = &no, s.LastTerminationState
	if c.backoff > 0 {
		s.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container", c.backoff))
	} else {
		s.LastTerminationState = corev1.ContainerState{}
	}
	return s
}

// crash returns the next crash of a container that has restarted so often; nil if there is
// none. Options.Crash is asked before the annotations are.
func (k *Kubelet) crash(pod *corev1.Pod, container string, restarts int32) *Crash {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return nil
	}
	if k.o.Crash != nil {
		if next := k.o.Crash(pod, container, restarts); next != nil {
			return next
		}
	}
	after, err := time.ParseDuration(pod.Annotations[CrashAfterAnnotation])
	if err != nil {
		return nil
	}
	if times, err := strconv.Atoi(pod.Annotations[CrashTimesAnnotation]); err == nil && int(restarts) >= times {
		return nil
	}
	return &Crash{After: after}
}

// advance brings a pod's containers to the current time, and returns the status of those that
// have a schedule of crashes or had one.
func (k *Kubelet) advance(pod *corev1.Pod) map[string]corev1.ContainerStatus {
	ready, now := k.wantsReady(pod), time.Now()
	found := map[string]corev1.ContainerStatus{}
	for _, spec := range pod.Spec.Containers {
		k.mu.Lock()
		c := k.paperPod(pod).containers[spec.Name]
		k.mu.Unlock()
		var restarts int32
		if c != nil {
			restarts = c.restarts
		}
		next := k.crash(pod, spec.Name, restarts) // without the lock: it is a function of the test
		if c == nil && next == nil {
			continue
		}
		k.mu.Lock()
		of := k.paperPod(pod)
		if c = of.containers[spec.Name]; c == nil {
			c = &paperContainer{started: now}
			of.containers[spec.Name] = c
		}
		if c.restarts == restarts {
			c.advance(now, ready, next, k.o.Backoff)
		}
		found[spec.Name] = c.status(spec, ready)
		k.mu.Unlock()
	}
	return found
}

// paperPod returns the state of a status-only pod, a new one if there is none. The caller
// holds the mutex.
func (k *Kubelet) paperPod(pod *corev1.Pod) *paperPod {
	p := k.statusOnlyPods[pod.UID]
	if p == nil {
		p = &paperPod{address: k.o.Addresses.pod(), containers: map[string]*paperContainer{}}
		k.statusOnlyPods[pod.UID] = p
	}
	return p
}

// crashed reports whether a container's status differs from the pod's in more than times.
func crashed(pod *corev1.Pod, scheduled map[string]corev1.ContainerStatus) bool {
	for _, c := range pod.Status.ContainerStatuses {
		now, ok := scheduled[c.Name]
		if ok && (now.Ready != c.Ready || now.RestartCount != c.RestartCount || form(now.State) != form(c.State)) {
			return true
		}
	}
	return false
}

func form(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "terminated"
	}
	return "waiting"
}

// remaining returns how long a deleted status-only pod still takes to go.
func (k *Kubelet) remaining(pod *corev1.Pod) time.Duration {
	if k.o.Termination == nil {
		return 0
	}
	takes := k.o.Termination(pod)
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		takes = min(takes, time.Duration(*grace)*time.Second)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.paperPod(pod)
	if p.leaving.IsZero() {
		p.leaving = time.Now()
	}
	return time.Until(p.leaving.Add(takes))
}
