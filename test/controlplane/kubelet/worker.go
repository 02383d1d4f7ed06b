package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker runs one pod from its assignment to its end.
type worker struct {
	k             *Kubelet
	name          types.NamespacedName
	uid           types.UID
	node, address string
	host, dir     string
	started       metav1.Time

	ctx    context.Context // ends when the node stops
	cancel context.CancelFunc
	run    context.Context // ends when the pod must end
	end    context.CancelFunc
	side   context.Context // ends when the sidecars must end
	leave  context.CancelFunc
	sides  sync.WaitGroup
	hurry  chan struct{} // closed when there is no grace period
	dirty  chan struct{} // the status may have changed
	stale  chan struct{} // the sources of volumes may have changed
	over   chan struct{} // closed when the worker has ended

	late late // how the pod sees ConfigMaps and Secrets

	mu          sync.Mutex
	tokens      map[string]token // by file
	pod         *corev1.Pod
	folders     map[string]string // by volume
	initialized bool
	ending      bool
	hurried     bool
	deleted     bool // the object is gone
	init, main  []*container
}

// dispatch passes a pod to its worker: nil if it is gone.
func (k *Kubelet) dispatch(name types.NamespacedName, pod *corev1.Pod) {
	k.mu.Lock()
	var others []*worker
	for uid, w := range k.workers {
		if w.name == name && (pod == nil || uid != pod.UID) {
			others = append(others, w)
		}
	}
	k.mu.Unlock()
	for _, w := range others {
		if k.reachable(w.node) {
			w.terminateNow()
		}
	}
	if pod == nil || !k.reachable(pod.Spec.NodeName) {
		return
	}
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	switch {
	case w != nil && w.ctx.Err() == nil:
		w.update(pod)
	case pod.DeletionTimestamp != nil:
		if w != nil {
			<-w.over
			w.forget()
		}
		if err := k.remove(pod); err != nil && k.ctx.Err() == nil {
			k.o.Log("kubelet: removing %s: %v", name, err)
			k.queue.AddAfter(name, time.Second)
		}
	case !over(pod):
		k.startWorker(pod, w)
	}
}

// startWorker starts a worker; before is the worker from before StopNode.
func (k *Kubelet) startWorker(pod *corev1.Pod, before *worker) {
	w := &worker{
		k: k, name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, uid: pod.UID, node: pod.Spec.NodeName,
		hurry: make(chan struct{}), dirty: make(chan struct{}, 1), over: make(chan struct{}),
		stale: make(chan struct{}, 1), started: metav1.Now(), pod: pod, tokens: map[string]token{},
	}
	w.ctx, w.cancel = context.WithCancel(k.ctx)
	w.run, w.end = context.WithCancel(w.ctx)
	w.side, w.leave = context.WithCancel(w.ctx)
	for i := range pod.Spec.InitContainers {
		w.init = append(w.init, newContainer(w, &pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		w.main = append(w.main, newContainer(w, &pod.Spec.Containers[i], false))
	}
	if before != nil {
		<-before.over
		w.address, w.dir, w.started = before.address, before.dir, before.started
		for i, c := range before.main {
			w.main[i].takeOverStatus(c)
		}
		for i, c := range before.init {
			w.init[i].takeOverStatus(c)
		}
	} else {
		w.address = k.o.Addresses.pod()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return
	}
	w.host = k.nodes[w.node].address
	if w.dir == "" {
		k.count++
		w.dir = filepath.Join(k.o.Dir, "pods", strconv.Itoa(k.count))
	}
	k.workers[w.uid] = w
	k.wg.Go(w.runPod)
}

// takeOverStatus takes over the restart count of a container from before StopNode.
func (c *container) takeOverStatus(before *container) {
	c.status.RestartCount = before.status.RestartCount
	c.status.LastTerminationState = before.status.LastTerminationState
	if before.status.State.Terminated != nil {
		c.status.RestartCount++
		c.status.LastTerminationState = before.status.State
	}
}

// runPod runs the pod.
func (w *worker) runPod() {
	defer close(w.over)
	helping, release := context.WithCancel(w.ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { w.report(helping) })
	helpers.Go(func() { w.follow(helping) })
	if w.prepare() && w.initialize() {
		w.runMain()
	}
	w.leave()
	w.sides.Wait()
	release()
	helpers.Wait()
	w.end()
	if w.ctx.Err() != nil {
		return // the node has stopped: no reports
	}
	if err := os.RemoveAll(filepath.Join(w.dir, volumesDir)); err != nil {
		w.k.o.Log("kubelet: %s: %v", w.name, err)
	}
	for !w.isEnding() { // the pod has ended by itself, and its object stays
		if w.k.reachable(w.node) {
			pod := w.self()
			err := w.k.patchStatus(pod, w.status(pod))
			if err == nil {
				return
			}
			w.k.o.Log("kubelet: status of %s: %v", w.name, err)
		}
		if !sleep(w.ctx, 200*time.Millisecond) {
			return
		}
	}
}

func (w *worker) isEnding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
}

const volumesDir = ".volumes" // not a valid container name

// prepare creates the pod's folders as soon as its volumes are available.
func (w *worker) prepare() bool {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		w.k.o.Log("kubelet: %s: %v", w.name, err)
		return false
	}
	shortcut := filepath.Join(w.k.o.Dir, "by-name", w.name.Namespace+"_"+w.name.Name)
	if err := os.MkdirAll(filepath.Dir(shortcut), 0o755); err == nil {
		os.Remove(shortcut)
		_ = os.Symlink(w.dir, shortcut) // for people: ignore errors
	}
	for w.run.Err() == nil {
		w.publish()
		folders, err := w.volumes(w.run)
		if err == nil {
			w.mu.Lock()
			w.folders = folders
			w.mu.Unlock()
			return true
		}
		w.mu.Lock()
		for _, c := range slices.Concat(w.init, w.main) {
			c.status.State = waiting("ContainerCreating", err.Error())
		}
		w.mu.Unlock()
		sleep(w.run, 300*time.Millisecond)
	}
	return false
}

// initialize runs the init containers in order; a sidecar continues beside the others once
// it has started.
func (w *worker) initialize() bool {
	for _, c := range w.init {
		if c.sidecar {
			w.sides.Go(func() { c.supervise(w.side) })
			for !c.hasStarted() {
				if !sleep(w.run, 20*time.Millisecond) {
					return false
				}
			}
			continue
		}
		if code := c.supervise(w.run); code != 0 || w.run.Err() != nil {
			return false // the policy forbids a restart
		}
		c.set(func(s *corev1.ContainerStatus) { s.Ready = true })
	}
	w.mu.Lock()
	w.initialized = true
	w.mu.Unlock()
	return w.run.Err() == nil
}

func (w *worker) runMain() {
	var all sync.WaitGroup
	for _, c := range w.main {
		all.Go(func() { c.supervise(w.run) })
	}
	all.Wait()
}

// update stores the current object.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	changed := !maps.Equal(w.pod.Labels, pod.Labels) || !maps.Equal(w.pod.Annotations, pod.Annotations)
	w.pod = pod
	ending := pod.DeletionTimestamp != nil && !w.ending
	w.ending = w.ending || ending
	for i, c := range w.init {
		c.change(pod.Spec.InitContainers[i].Image)
	}
	for i, c := range w.main {
		c.change(pod.Spec.Containers[i].Image)
	}
	w.mu.Unlock()
	if ending {
		w.end()
		w.k.wg.Go(w.finish)
	}
	if changed {
		w.refresh()
	}
	w.publish()
}

func (w *worker) refresh() {
	select {
	case w.stale <- struct{}{}:
	default:
	}
}

// follow updates the volumes when their sources change, and tokens before they expire.
func (w *worker) follow(ctx context.Context) {
	every := time.Minute
	if age := w.k.o.TokenAge; age > 0 {
		every = min(every, age)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.stale:
		case <-tick.C:
		}
		w.mu.Lock()
		begun := w.folders != nil
		w.mu.Unlock()
		if !begun || !w.k.reachable(w.node) {
			continue
		}
		if _, err := w.volumes(ctx); err != nil && ctx.Err() == nil {
			w.k.o.Log("kubelet: volumes of %s: %v", w.name, err)
		}
	}
}

// uses reports whether a volume of the pod uses this ConfigMap or Secret.
func (w *worker) uses(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name == name, v.Secret != nil && v.Secret.SecretName == name:
			return true
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && s.ConfigMap.Name == name || s.Secret != nil && s.Secret.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// terminateNow ends a pod whose object is gone, with a grace period of one second.
func (w *worker) terminateNow() {
	w.mu.Lock()
	first := !w.deleted
	w.deleted = true
	if w.ending && !w.hurried {
		w.hurried = true
		close(w.hurry)
	}
	ending := !w.ending
	w.ending = true
	w.mu.Unlock()
	if ending {
		w.end()
	}
	if first {
		w.k.wg.Go(w.finish)
	}
}

// finish waits for the end of a deleted pod, and then deletes its object.
func (w *worker) finish() {
	<-w.over
	w.mu.Lock()
	pod, gone := w.pod, w.deleted
	w.mu.Unlock()
	if w.ctx.Err() != nil && !gone {
		return // StartNode dispatches it again
	}
	for !gone {
		if w.k.reachable(w.node) {
			err := w.k.patchStatus(pod, w.status(pod))
			if err == nil {
				err = w.k.remove(pod)
			}
			if err == nil {
				break
			}
			w.k.o.Log("kubelet: removing %s: %v", w.name, err)
		}
		if !sleep(w.k.ctx, 200*time.Millisecond) {
			return
		}
	}
	w.forget()
}

func (w *worker) forget() {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	if w.k.workers[w.uid] == w {
		delete(w.k.workers, w.uid)
	}
	w.cancel()
}

// killAll kills all processes of the pod at once, and ends the worker.
func (w *worker) killAll() {
	w.cancel()
	<-w.over
}

// grace returns the grace period.
func (w *worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.deleted:
		return time.Second
	case w.pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*w.pod.DeletionGracePeriodSeconds) * time.Second
	case w.pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return 30 * time.Second
}

// self returns the pod with its addresses, for the field references of its containers.
func (w *worker) self() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pod.DeepCopy()
	pod.Status.PodIP, pod.Status.HostIP = w.address, w.host
	return pod
}

func (w *worker) publish() {
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// report publishes the status whenever it has changed.
func (w *worker) report(ctx context.Context) {
	var last corev1.PodStatus
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.dirty:
		}
		if !w.k.reachable(w.node) {
			continue // StartNode triggers it again
		}
		w.mu.Lock()
		pod := w.pod
		w.mu.Unlock()
		status := w.status(pod)
		if equality.Semantic.DeepEqual(untimed(status), untimed(last)) && status.Phase == pod.Status.Phase {
			continue
		}
		if err := w.k.patchStatus(pod, status); err != nil {
			if ctx.Err() != nil {
				return
			}
			w.k.o.Log("kubelet: status of %s: %v", w.name, err)
			sleep(ctx, 300*time.Millisecond)
			w.publish()
			continue
		}
		last = status
	}
}

// untimed removes the fields whose change alone need not be reported.
func untimed(s corev1.PodStatus) corev1.PodStatus {
	s = *s.DeepCopy()
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return s
}

func (w *worker) status(pod *corev1.Pod) corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	facts := podFacts{address: w.address, host: w.host, started: w.started, initialized: w.initialized || len(w.init) == 0 && w.folders != nil, ending: w.ending}
	for _, c := range w.init {
		facts.init = append(facts.init, *c.status.DeepCopy())
	}
	for _, c := range w.main {
		facts.main = append(facts.main, *c.status.DeepCopy())
	}
	return facts.status(pod)
}

func (w *worker) folder(volume string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	folder, ok := w.folders[volume]
	return folder, ok
}

// writable reports whether the users of a volume own its folder.
func writable(pod *corev1.Pod, volume string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == volume {
			return v.EmptyDir != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		}
	}
	return false
}

// log returns the path of a container's newest log; newLog that of the next.
func (w *worker) log(container string) string { return filepath.Join(w.dir, container+".log") }

// logFile returns the path of a container's log since a restart.
func (w *worker) logFile(container string, restart int32) string {
	return filepath.Join(w.dir, fmt.Sprintf("%s.%d.log", container, restart))
}

func (w *worker) newLog(container string, restart int32) string {
	path := w.logFile(container, restart)
	os.Remove(w.log(container))
	_ = os.Symlink(path, w.log(container)) // for people: ignore errors
	return path
}
