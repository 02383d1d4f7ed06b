package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
)

// KillPod kills all processes of a pod in the mode Process, as a crash would: its
// containers restart by their policy.
func (k *Kubelet) KillPod(namespace, pod string) error {
	return k.Signal(namespace, pod, "", syscall.SIGKILL)
}

// Signal sends a signal to all processes of a container, or of all containers of the pod
// if container is "". SIGSTOP and SIGCONT pause and continue it.
func (k *Kubelet) Signal(namespace, pod, container string, sig syscall.Signal) error {
	running, err := k.running(namespace, pod, container)
	if err != nil {
		return err
	}
	for _, p := range running {
		p.signal(sig)
	}
	return nil
}

// Exec runs a command in a container of a pod (the first running one if container is ""),
// with its environment, user and paths, and returns its output. It is killed when ctx
// ends.
func (k *Kubelet) Exec(ctx context.Context, namespace, pod, container string, argv ...string) ([]byte, error) {
	running, err := k.running(namespace, pod, container)
	if err != nil {
		return nil, err
	}
	return running[0].exec(ctx, argv)
}

// PIDs returns the first process of each running container of a pod, by the container's
// name.
func (k *Kubelet) PIDs(namespace, pod string) map[string]int {
	pids := map[string]int{}
	w := k.worker(namespace, pod)
	if w == nil {
		return pids
	}
	for _, c := range slices.Concat(w.init, w.main) {
		if p := c.process(); p != nil {
			pids[c.spec.Name] = p.cmd.Process.Pid
		}
	}
	return pids
}

// Root returns the root folder of a container; "" if there is no such pod.
func (k *Kubelet) Root(namespace, pod, container string) string {
	if w := k.worker(namespace, pod); w != nil {
		return filepath.Join(w.dir, container)
	}
	return ""
}

// LogFile returns the path of a container's newest log, a link to that of its last start;
// "" if there is no such pod.
func (k *Kubelet) LogFile(namespace, pod, container string) string {
	if w := k.worker(namespace, pod); w != nil {
		return w.log(container)
	}
	return ""
}

func (k *Kubelet) worker(namespace, pod string) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found *worker
	for _, w := range k.workers {
		// An ending pod and its successor share a name: take the later one.
		if w.name.Namespace == namespace && w.name.Name == pod && (found == nil || found.started.Before(&w.started)) {
			found = w
		}
	}
	return found
}

func (k *Kubelet) running(namespace, pod, container string) ([]*process, error) {
	w := k.worker(namespace, pod)
	if w == nil {
		return nil, fmt.Errorf("kubelet: no pod %s/%s runs here", namespace, pod)
	}
	var all []*process
	for _, c := range slices.Concat(w.main, w.init) {
		if p := c.process(); p != nil && (container == "" || container == c.spec.Name) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("kubelet: no container %q of pod %s/%s runs", container, namespace, pod)
	}
	return all, nil
}
