package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one container of a pod, through all its restarts. The worker's mutex guards
// its status.
type container struct {
	w       *worker
	spec    *corev1.Container
	policy  corev1.ContainerRestartPolicy
	sidecar bool

	status  corev1.ContainerStatus
	image   string        // that the pod asks for now; the worker's mutex guards it
	changed chan struct{} // it asks for another one than the running process has
	now     *process
}

func newContainer(w *worker, spec *corev1.Container, init bool) *container {
	c := &container{w: w, spec: spec, policy: corev1.ContainerRestartPolicy(w.pod.Spec.RestartPolicy), image: spec.Image, changed: make(chan struct{}, 1)}
	if init {
		c.policy = corev1.ContainerRestartPolicyOnFailure
		if w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			c.policy = corev1.ContainerRestartPolicyNever
		}
	}
	if spec.RestartPolicy != nil {
		c.policy = *spec.RestartPolicy
		c.sidecar = init && alwaysRestarts(*spec)
	}
	c.status = corev1.ContainerStatus{Name: spec.Name, Image: spec.Image}
	c.status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	return c
}

// supervise runs and restarts the container by its policy until it has ended for good or
// run is done: then it stops the container with its grace period. It returns the last exit
// code.
func (c *container) supervise(run context.Context) int32 {
	pause := c.w.k.o.Backoff
	for again := false; ; again = true {
		began := time.Now()
		code, started := c.runOnce(run)
		if run.Err() != nil {
			return code
		}
		wait := time.Second
		if started {
			changed := c.outdated()
			if !changed && (c.policy == corev1.ContainerRestartPolicyNever || c.policy == corev1.ContainerRestartPolicyOnFailure && code == 0) {
				return code
			}
			switch wait = 0; {
			case changed: // that is no crash
			case time.Since(began) > time.Minute:
				pause = c.w.k.o.Backoff
			case again:
				wait = pause
				pause = min(2*pause, 30*c.w.k.o.Backoff)
			}
			c.set(func(s *corev1.ContainerStatus) {
				s.RestartCount++
				s.LastTerminationState = s.State
				if wait > 0 {
					s.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container", wait))
				}
			})
		}
		if !sleep(run, wait) {
			return code
		}
	}
}

// runOnce starts the container and waits for its end.
func (c *container) runOnce(run context.Context) (code int32, started bool) {
	image := c.wanted()
	p, err := c.start(run, image)
	if err != nil {
		why := "CreateContainerError"
		if refused, ok := errors.AsType[*refusal](err); ok {
			why = refused.why
		}
		c.set(func(s *corev1.ContainerStatus) { s.State = waiting(why, err.Error()) })
		return 0, false
	}
	begun := metav1.Now()
	c.set(func(s *corev1.ContainerStatus) {
		no := false
		s.Ready, s.Started = false, &no
		s.Image, s.ImageID = image, "local://"+image
		s.ContainerID = fmt.Sprintf("local://%d", p.cmd.Process.Pid)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}}
		c.now = p
	})
	watch, unwatch := context.WithCancel(c.w.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(watch, p)
	}()
	select {
	case <-p.exited:
	case <-run.Done():
		unwatch()
		c.stop(p, c.w.grace())
	case <-c.changed:
		unwatch()
		c.stop(p, c.w.grace())
	case <-c.w.ctx.Done():
		p.kill()
		<-p.exited
	}
	unwatch()
	<-watched
	if err := p.sweep(); err != nil {
		c.w.k.o.Log("kubelet: %s/%s: %v", c.w.name, c.spec.Name, err)
	}
	end := c.ended(p, begun)
	c.set(func(s *corev1.ContainerStatus) {
		no := false
		s.Ready, s.Started = false, &no
		s.State = corev1.ContainerState{Terminated: end}
		c.now = nil
	})
	return end.ExitCode, true
}

// change notes the image that the pod asks for; the worker's mutex is held. A running container is restarted with it, as a kubelet does.
func (c *container) change(image string) {
	if c.image == image {
		return
	}
	c.image = image
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// wanted returns the image that the pod asks for; from now on only another one is a change.
func (c *container) wanted() string {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	select {
	case <-c.changed:
	default:
	}
	return c.image
}

// outdated reports whether the pod asks for another image than the last process had.
func (c *container) outdated() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.status.Image != c.image
}

// stop ends a container within its grace period: the preStop hook, then SIGTERM.
func (c *container) stop(p *process, grace time.Duration) {
	deadline := time.Now().Add(grace)
	if c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil {
		ctx, cancel := context.WithDeadline(c.w.ctx, deadline)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := c.handle(ctx, p, c.spec.Lifecycle.PreStop); err != nil {
				c.w.k.o.Log("kubelet: %s/%s: preStop: %v", c.w.name, c.spec.Name, err)
			}
		}()
		select {
		case <-done:
		case <-p.exited:
		case <-c.w.hurry:
		}
		cancel()
		<-done
	}
	p.stop(max(time.Until(deadline), 0), c.w.hurry)
}

// ended returns the terminated state of the container.
func (c *container) ended(p *process, begun metav1.Time) *corev1.ContainerStateTerminated {
	end := &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: begun, FinishedAt: metav1.Now(), ContainerID: fmt.Sprintf("local://%d", p.cmd.Process.Pid),
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.Signal = int32(status.Signal())
		end.ExitCode = 128 + end.Signal
	} else {
		end.ExitCode = int32(p.cmd.ProcessState.ExitCode())
	}
	if end.ExitCode != 0 {
		end.Reason = "Error"
	}
	message, err := os.ReadFile(filepath.Join(p.root, c.spec.TerminationMessagePath))
	if (err != nil || len(message) == 0) && end.ExitCode != 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		message, err = os.ReadFile(c.w.log(c.spec.Name))
	}
	if err == nil {
		end.Message = strings.ToValidUTF8(string(message[max(0, len(message)-2048):]), "")
	}
	return end
}

// set changes the status and triggers its publication.
func (c *container) set(change func(*corev1.ContainerStatus)) {
	c.w.mu.Lock()
	change(&c.status)
	c.w.mu.Unlock()
	c.w.publish()
}

func waiting(why, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why, Message: message}}
}

// refusal is the reason why a container cannot start, in a kubelet's terms.
type refusal struct {
	why string
	err error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// start creates the container's root and starts its process there.
func (c *container) start(ctx context.Context, reference string) (*process, error) {
	k, pod := c.w.k, c.w.self()
	image, ok := pull(k.o.Images, reference)
	if !ok {
		return nil, &refusal{"ErrImagePull", fmt.Errorf("the fake kubelet does not know the image %q (Options.Images)", reference)}
	}
	s, vars, err := c.prepare(ctx, pod, image)
	if err != nil {
		return nil, &refusal{"CreateContainerConfigError", err}
	}
	argv := image.argv(c.spec.Command, c.spec.Args)
	for i, word := range argv {
		argv[i] = s.mapping.rewrite(listenAt(pod.Status.PodIP, expand(word, vars)))
	}
	p, err := s.launch(argv, c.w.newLog(c.spec.Name, c.restarts()))
	if err != nil {
		return nil, &refusal{"RunContainerError", err}
	}
	k.o.Record(p.cmd.Process.Pid)
	if c.spec.Lifecycle != nil && c.spec.Lifecycle.PostStart != nil {
		if err := c.handle(ctx, p, c.spec.Lifecycle.PostStart); err != nil {
			p.kill()
			<-p.exited
			return nil, &refusal{"PostStartHookError", errors.Join(err, p.sweep())}
		}
	}
	return p, nil
}

// prepare creates the root, the links of the mounts, and the environment. vars are the
// variables for $(NAME) in a command.
func (c *container) prepare(ctx context.Context, pod *corev1.Pod, image Image) (s setup, vars map[string]string, err error) {
	s.root = filepath.Join(c.w.dir, c.spec.Name)
	s.path = image.path()
	if s.cred, err = credential(pod, c.spec, image); err != nil {
		return s, nil, err
	}
	home := filepath.Join(s.root, "tmp")
	if err := errors.Join(os.MkdirAll(home, 0o755), chown(s.root, s.cred, -1), chown(home, s.cred, -1)); err != nil {
		return s, nil, err
	}
	base := map[string]string{
		"PATH": s.path, "HOME": s.root, "TMPDIR": home, "HOSTNAME": pod.Name,
		RootVariable: s.root,
	}
	if server, err := url.Parse(c.w.k.o.Config.Host); err == nil {
		base["KUBERNETES_SERVICE_HOST"], base["KUBERNETES_SERVICE_PORT"] = server.Hostname(), server.Port()
	}
	for name, value := range image.Env {
		base[name] = expand(value, map[string]string{"POD_IP": pod.Status.PodIP})
	}
	own, err := c.w.k.environment(ctx, pod, c.spec, base)
	if err != nil {
		return s, nil, err
	}
	vars = maps.Clone(base)
	vars["POD_IP"] = pod.Status.PodIP // for Image.Command
	maps.Copy(vars, own)
	if s.mapping, err = c.mounts(pod, &s, own, image, base); err != nil {
		return s, nil, err
	}
	if n := c.w.k.names; n != nil {
		conf, err := n.resolvConf(pod.Namespace)
		if err != nil {
			return s, nil, err
		}
		s.mounts = append(s.mounts, bindMount{conf, resolvConf})
	}
	for name, value := range own {
		base[name] = s.mapping.rewrite(value)
	}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		s.env = append(s.env, name+"="+base[name])
	}
	s.dir = s.root
	if c.spec.WorkingDir != "" {
		if s.dir = s.mapping.rewrite(c.spec.WorkingDir); s.dir == c.spec.WorkingDir {
			s.dir = filepath.Join(s.root, c.spec.WorkingDir)
			if err := errors.Join(os.MkdirAll(s.dir, 0o755), chown(s.dir, s.cred, -1)); err != nil {
				return s, nil, err
			}
		}
	}
	return s, vars, nil
}

// mounts links the volumes into the root, and returns the rewrite rule for their paths.
func (c *container) mounts(pod *corev1.Pod, s *setup, vars map[string]string, image Image, base map[string]string) (mapping, error) {
	var m mapping
	for from, to := range image.Files {
		m = m.with(from, to)
	}
	list := slices.Clone(c.spec.VolumeMounts)
	slices.SortStableFunc(list, func(a, b corev1.VolumeMount) int { return len(a.MountPath) - len(b.MountPath) })
	for _, mount := range list {
		folder, ok := c.w.folder(mount.Name)
		if !ok {
			return nil, fmt.Errorf("there is no volume %q", mount.Name)
		}
		if writable(pod, mount.Name) {
			if err := chown(folder, s.cred, fsGroup(pod)); err != nil {
				return nil, err
			}
		}
		sub := mount.SubPath
		if mount.SubPathExpr != "" {
			sub = expand(mount.SubPathExpr, vars, base)
		}
		if sub != "" {
			folder = filepath.Join(folder, filepath.Clean("/"+sub))
			if _, err := os.Stat(folder); err != nil {
				if err := errors.Join(os.MkdirAll(folder, 0o755), chown(folder, s.cred, fsGroup(pod))); err != nil {
					return nil, err
				}
			}
		}
		if err := link(s.root, mount.MountPath, folder); err != nil {
			return nil, err
		}
		m = m.with(mount.MountPath, filepath.Join(s.root, mount.MountPath))
		switch {
		case filepath.Clean(mount.MountPath) != accountPath:
		case c.w.k.o.InCluster:
			s.mounts = append(s.mounts, bindMount{folder, accountPath})
		case base["KUBECONFIG"] == "":
			base["KUBECONFIG"] = filepath.Join(s.root, accountPath, kubeconfigFile)
		}
	}
	return m, nil
}

func (c *container) restarts() int32 {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.status.RestartCount
}

func (c *container) hasStarted() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.status.Started != nil && *c.status.Started
}

func (c *container) process() *process {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.now
}
