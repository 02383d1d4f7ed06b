package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// kubelet runs the pods of all nodes, with their programs.
type kubelet struct {
	w        *World
	pods     map[types.UID]*pod
	servers  map[string]*server          // by the name that the database knows
	mounters map[name]map[types.UID]*pod // pods that mount a config map
	known    fdb.Connection              // of the database, at the last look at the cluster files
	stale    bool                        // a data folder may have an older connection than known
	crashing bool                        // what ends now ends by an error
}

// pod is what the world knows of a pod beside its object.
type pod struct {
	w      *World
	uid    types.UID
	name   name
	node   string // empty: none yet
	keeps  spreadKey
	domain string // of its node, by which its kind is spread
	owner  string // on whose behalf it is deleted

	ips        []string
	booted     bool // its containers were started
	ended      bool // its programs have ended for good
	over       bool // its kubelet has nothing left to do
	failed     string
	synced     bool // a sync is on its way
	booting    bool // a try to start it is on its way
	containers []*container
	servers    map[int]*server
	seen       map[string]*corev1.ConfigMap // as they are mounted
	files      map[string]map[string]string // by volume, of those that begin empty
}

// object returns the pod as it is stored; nil if it is gone.
func (p *pod) object() *corev1.Pod {
	if o := get[*corev1.Pod](p.w.store, p.name); o != nil && o.UID == p.uid {
		return o
	}
	return nil
}

// grace returns how long the programs of a pod have, in seconds; 0: there are none.
func (p *pod) grace() int64 {
	if o := p.object(); p.node != "" && o != nil && o.Spec.TerminationGracePeriodSeconds != nil {
		return max(1, *o.Spec.TerminationGracePeriodSeconds)
	}
	return 0
}

// changed tells the controllers of a new or changed object.
func (w *World) changed(before, after port.Object) {
	switch after := after.(type) {
	case *corev1.Pod:
		old, _ := before.(*corev1.Pod)
		w.kubelet.changed(old, after)
	case *corev1.PersistentVolumeClaim:
		if before == nil {
			w.after(0, w.scheduler.reschedule)
		}
		w.claims.reconcile(nameOf(after))
	case *corev1.ConfigMap:
		for _, p := range sorted(w.kubelet.mounters[nameOf(after)]) {
			p.syncIn(w.around(w.options.Times.Sync))
		}
	case *corev1.Node:
		if before == nil {
			w.nodes.made(after)
		} else if len(w.scheduler.waiting) > 0 {
			w.after(0, w.scheduler.reschedule)
		}
	default:
		w.deployments.changed(after)
	}
}

func (k *kubelet) changed(before, after *corev1.Pod) {
	if before == nil {
		p := &pod{
			w: k.w, uid: after.UID, name: nameOf(after), servers: map[int]*server{},
			seen: map[string]*corev1.ConfigMap{}, files: map[string]map[string]string{},
		}
		k.pods[p.uid] = p
		k.w.claims.count(after, true)
		k.w.after(k.w.around(k.w.options.Times.Schedule), func() { k.w.scheduler.schedule(p) })
		return
	}
	p := k.pods[after.UID]
	if p == nil {
		return
	}
	if before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
		p.terminate()
		return
	}
	if !p.booted || p.ended {
		return
	}
	for _, c := range p.containers {
		if image := imageOf(after, c.name); image != c.wanted {
			c.wanted = image
			k.w.after(k.w.around(k.w.options.Times.Image), func() { p.replace(c) })
		}
	}
	if !maps.Equal(before.Annotations, after.Annotations) {
		p.nudge(before.Annotations, after.Annotations)
	}
	if ready(before) != ready(after) {
		k.w.deployments.podChanged(after)
	}
}

// removed tells the controllers of an object that is gone.
func (w *World) removed(o port.Object, owner string) {
	switch o := o.(type) {
	case *corev1.Pod:
		if p := w.kubelet.pods[o.UID]; p != nil {
			w.database.By(owner, func() { p.gone(o) })
		}
		w.deployments.podChanged(o)
	case *corev1.PersistentVolumeClaim:
		w.database.By(owner, func() {
			w.database.Note("claim %s is gone", nameOf(o))
			w.claims.erase(o.UID)
		})
	case *corev1.Service:
		w.network.forget(o, owner)
	case *corev1.Node:
		n := w.nodes.of[o.Name]
		delete(w.nodes.of, o.Name)
		for _, p := range sorted(n.pods) {
			p.endPrograms()
			w.store.remove(p.object(), "")
		}
	}
}

// boot starts the containers of a pod, once its volumes are there.
func (k *kubelet) boot(p *pod) {
	o := p.object()
	if o == nil || p.booted || o.DeletionTimestamp != nil || p.lost() {
		return
	}
	again := func(d time.Duration) {
		if !p.booting {
			p.booting = true
			k.w.after(d, func() { p.booting = false; k.boot(p) })
		}
	}
	for _, claim := range claimsOf(o) {
		if c := get[*corev1.PersistentVolumeClaim](k.w.store, claim); c == nil || c.Status.Phase != corev1.ClaimBound {
			k.w.claims.reconcile(claim)
			again(5 * time.Second)
			return
		}
	}
	if !p.mount(o) {
		again(5 * time.Second)
		return
	}
	if len(p.ips) == 0 {
		p.ips = k.w.network.podIPs()
	}
	update(k.w.store, o, p.addresses)
	o = p.object()
	for i := range o.Spec.InitContainers {
		if why := p.runInit(o, &o.Spec.InitContainers[i]); why != "" {
			p.waitFor(why)
			again(10 * time.Second)
			return
		}
	}
	for i := range o.Spec.Containers {
		if _, ok := imageVersion(o.Spec.Containers[i].Image); !ok && programOf(&o.Spec.Containers[i]) != other {
			p.waitFor("ErrImagePull")
			again(10 * time.Second)
			return
		}
	}
	p.booted = true
	k.w.database.Note("pod %s runs at %s", p.name, strings.Join(p.ips, ","))
	for i := range o.Spec.Containers {
		c := &container{p: p, name: o.Spec.Containers[i].Name, wanted: o.Spec.Containers[i].Image, since: k.w.metaNow()}
		p.containers = append(p.containers, c)
	}
	for _, c := range p.containers {
		c.start()
	}
	p.report()
}

// waitFor tells why a pod with a node does not start.
func (p *pod) waitFor(reason string) {
	update(p.w.store, p.object(), func(o *corev1.Pod) {
		p.addresses(o)
		o.Status.ContainerStatuses = nil
		for _, c := range o.Spec.Containers {
			o.Status.ContainerStatuses = append(o.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			})
		}
		condition(o, corev1.PodReady, false, reason, p.w.metaNow())
	})
}

func (p *pod) addresses(o *corev1.Pod) {
	if n := p.w.nodes.of[p.node]; n != nil {
		o.Status.HostIP = n.ip
	}
	if len(p.ips) == 0 {
		return
	}
	o.Status.PodIP, o.Status.PodIPs = p.ips[0], nil
	for _, ip := range p.ips {
		o.Status.PodIPs = append(o.Status.PodIPs, corev1.PodIP{IP: ip})
	}
}

// report writes the status of a pod as its kubelet sees it.
func (p *pod) report() {
	o := p.object()
	if o == nil || !p.booted {
		return
	}
	update(p.w.store, o, func(o *corev1.Pod) {
		p.addresses(o)
		o.Status.Phase = corev1.PodRunning
		if o.Status.StartTime == nil {
			o.Status.StartTime = new(p.w.metaNow())
		}
		all := !p.ended && !p.lost()
		o.Status.ContainerStatuses = nil
		for _, c := range p.containers {
			s := corev1.ContainerStatus{Name: c.name, Image: c.image, Ready: c.running && !p.ended, Started: new(c.running), RestartCount: c.restarts}
			if c.running {
				s.State.Running = &corev1.ContainerStateRunning{StartedAt: c.since}
			} else {
				s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
			}
			o.Status.ContainerStatuses = append(o.Status.ContainerStatuses, s)
			all = all && c.running
		}
		if p.failed != "" {
			o.Status.Phase, o.Status.Reason = corev1.PodFailed, p.failed
		}
		condition(o, corev1.ContainersReady, all, "", p.w.metaNow())
		condition(o, corev1.PodReady, all, "", p.w.metaNow())
	})
}

// terminate ends the programs of a pod, and the pod after them. A lost node does neither.
func (p *pod) terminate() {
	o := p.object()
	if p.over = p.node == ""; p.over || p.lost() || o == nil {
		return
	}
	w := p.w
	wait := w.options.Times.Stop
	if delay, err := time.ParseDuration(o.Annotations["foundationdb.org/delay-shutdown"]); err == nil {
		wait += delay
	}
	wait = min(wait, time.Duration(*o.DeletionGracePeriodSeconds)*time.Second+w.options.Times.Stop)
	w.database.By(p.owner, p.endPrograms)
	w.after(wait, func() {
		if o := p.object(); o != nil && !p.lost() {
			p.over = true
			w.store.finalized(o, p.owner)
		}
	})
}

// endPrograms ends all programs of a pod for good.
func (p *pod) endPrograms() {
	if p.ended {
		return
	}
	p.ended = true
	for _, n := range slices.Sorted(maps.Keys(p.servers)) {
		p.stop(n)
	}
	if p.w.deployments.backing[p.uid] != nil {
		delete(p.w.deployments.backing, p.uid)
		p.w.deployments.count()
	}
}

// gone forgets a pod that is no longer stored.
func (p *pod) gone(o *corev1.Pod) {
	w := p.w
	w.database.Note("pod %s is gone", p.name)
	p.endPrograms()
	delete(w.kubelet.pods, p.uid)
	delete(w.scheduler.waiting, p.uid)
	if p.node != "" {
		w.scheduler.occupy(p, -1)
	}
	for cm := range p.seen {
		delete(w.kubelet.mounters[name{p.name.namespace, cm}], p.uid)
	}
	w.claims.erase(p.uid)
	w.claims.count(o, false)
}

// lost reports whether the node of a pod is lost.
func (p *pod) lost() bool {
	n := p.w.nodes.of[p.node]
	return p.node != "" && (n == nil || n.lost)
}

// catchUp has a kubelet that was lost see what it has missed: other images and files.
func (p *pod) catchUp() {
	if !p.booted || p.ended {
		return
	}
	for _, c := range p.containers {
		if c.image != c.wanted {
			p.w.after(p.w.around(p.w.options.Times.Image), func() { p.replace(c) })
		}
	}
	p.syncIn(p.w.around(p.w.options.Times.Sync))
}

// cut takes the network of a pod away, or gives it back.
func (p *pod) cut(cut bool) {
	for _, n := range slices.Sorted(maps.Keys(p.servers)) {
		p.w.database.Cut(p.servers[n].name, cut)
	}
}

// ready reports whether a pod is ready.
func ready(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Evict deletes a pod as a drain does.
func (k *kubelet) Evict(namespace, pod string) {
	if o := get[*corev1.Pod](k.w.store, name{namespace, pod}); o != nil {
		k.w.store.delete(o, "")
	}
}

// FailPod ends a pod as its kubelet does when the node is short of something: it stays, in the phase Failed.
func (k *kubelet) FailPod(namespace, pod string) {
	if p := k.pod(namespace, pod); p != nil && p.booted {
		p.failed = "Evicted"
		k.w.database.Note("pod %s fails", p.name)
		p.endPrograms()
		p.report()
	}
}

func (k *kubelet) pod(namespace, pod string) *pod {
	if o := get[*corev1.Pod](k.w.store, name{namespace, pod}); o != nil {
		return k.pods[o.UID]
	}
	return nil
}

// DeletePod deletes a pod as a person does. DeleteClaim does so with a claim.
func (k *kubelet) DeletePod(namespace, pod string) { k.Evict(namespace, pod) }
