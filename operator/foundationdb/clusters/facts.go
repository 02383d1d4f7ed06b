package clusters

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// facts are what a pass has read.
type facts struct {
	members   map[v1beta2.ProcessGroupID]*member
	headless  *corev1.Service
	configMap *corev1.ConfigMap       // as stored; nil: none
	wanted    *corev1.ConfigMap       // as it should be
	nodes     map[string]*corev1.Node // only where taints count

	status        *fdb.Status // nil: the database was not heard
	silence       string      // why not
	silenceReason string      // in CamelCase
	// processes are those of our data center, by group.
	processes map[v1beta2.ProcessGroupID][]*fdb.Process
}

// member is what Kubernetes has of a group.
type member struct {
	pod     *corev1.Pod
	claim   *corev1.PersistentVolumeClaim
	service *corev1.Service
	made    *corev1.Pod // whose servers are counted
	count   int
	// variables are those of the pod's servers; nil: not known.
	variables map[string]string
	// unreachable: the sidecar did not answer, and why.
	unreachable bool
	why         error
	// present: the binary of the desired version is there. Looked for in an incompatible upgrade only.
	present bool
}

// servers is how many servers the pod was made with.
func (m *member) servers() int {
	if m.made == nil || m.made != m.pod {
		m.made, m.count = m.pod, foundationdb.ServersIn(m.pod)
	}
	return m.count
}

// member returns what Kubernetes has of a group, which may be nothing.
func (p *pass) member(id v1beta2.ProcessGroupID) *member {
	m := p.members[id]
	if m == nil {
		m = &member{}
		p.members[id] = m
	}
	return m
}

// gather reads the world, once: four lists, the config map and the database's status; of a cluster that joins a database
// the other clusters too.
func (p *pass) gather(ctx context.Context) error {
	if err := p.gatherChildren(ctx); err != nil {
		return err
	}
	if err := p.gatherNamesakes(ctx); err != nil {
		return err
	}
	p.gatherStatus(ctx)
	p.gatherPods(ctx)
	return nil
}

func (p *pass) gatherChildren(ctx context.Context) error {
	namespace, labels := p.cluster.Namespace, foundationdb.MatchLabels(p.cluster)
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var services corev1.ServiceList
	if err := p.objects.List(ctx, &pods, namespace, labels); err != nil {
		return err
	}
	if err := p.objects.List(ctx, &claims, namespace, labels); err != nil {
		return err
	}
	if err := p.objects.List(ctx, &services, namespace, labels); err != nil {
		return err
	}
	p.members = make(map[v1beta2.ProcessGroupID]*member, len(pods.Items))
	for _, pod := range seen[corev1.Pod](p, pods.Items) {
		if id, ok := p.ownerOf(pod); ok {
			p.member(id).pod = pod
		}
	}
	for _, claim := range seen[corev1.PersistentVolumeClaim](p, claims.Items) {
		if id, ok := p.ownerOf(claim); ok {
			p.member(id).claim = claim
		}
	}
	for _, service := range seen[corev1.Service](p, services.Items) {
		if id, ok := p.ownerOf(service); ok {
			p.member(id).service = service
		} else if service.Name == p.cluster.Name && p.mine(service) {
			p.headless = service
		}
	}

	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.cluster.Name + "-config"}}
	found, err := p.objects.Get(ctx, m)
	if err != nil {
		return err
	}
	if found {
		p.configMap = m
	}
	if len(p.cluster.Spec.AutomationOptions.Replacements.TaintReplacementOptions) == 0 {
		return nil
	}
	var nodes corev1.NodeList
	if err := p.objects.List(ctx, &nodes, "", nil); err != nil {
		return err
	}
	p.nodes = make(map[string]*corev1.Node, len(nodes.Items))
	for i := range nodes.Items {
		p.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return nil
}

// ownerOf returns the group that a child belongs to.
func (p *pass) ownerOf(child port.Object) (v1beta2.ProcessGroupID, bool) {
	id, ok := foundationdb.GroupIDOf(child.GetLabels(), p.cluster.Spec)
	return id, ok && p.mine(child)
}

// mine reports whether a child is ours, where the spec asks to tell children by their owner.
func (p *pass) mine(child port.Object) bool {
	if !*p.cluster.Spec.Labels.FilterOnOwnerReference {
		return true
	}
	for _, owner := range child.GetOwnerReferences() {
		if owner.UID == p.cluster.UID {
			return true
		}
	}
	return false
}

// seen returns the objects of a list as they are now: a list may miss what this operator has written
// within the last minute.
func seen[T any, P interface {
	*T
	port.Object
}](p *pass, items []T) []P {
	all := make([]P, 0, len(items))
	listed := make(map[string]bool, len(items))
	for i := range items {
		object := P(&items[i])
		listed[object.GetName()] = true
		if w, ok := p.memory.written[object.GetUID()]; ok {
			if newer, ok := w.object.(P); ok && older(object.GetResourceVersion(), newer.GetResourceVersion()) {
				object = newer.DeepCopyObject().(P) //nolint:forcetypeassert // it is a copy of a P
			}
			w.created = false // when the lists do not have it any more, somebody has deleted it
			p.memory.written[w.object.GetUID()] = w
		}
		if at, gone := p.memory.deleted[object.GetUID()]; gone && object.GetDeletionTimestamp() == nil {
			t := metav1.NewTime(at)
			object.SetDeletionTimestamp(&t)
		}
		all = append(all, object)
	}
	for uid, w := range p.memory.written {
		object, ok := w.object.(P)
		if _, gone := p.memory.deleted[uid]; !ok || gone || listed[object.GetName()] || !w.created {
			continue
		}
		all = append(all, object.DeepCopyObject().(P)) //nolint:forcetypeassert // it is a copy of a P
	}
	return all
}

// gatherStatus reads the status document. In an incompatible upgrade the tools of both versions are tried: the one
// whose client reaches the coordinators tells what runs. The other one uses up its time-out, so the tools that are
// expected to answer are asked first.
func (p *pass) gatherStatus(ctx context.Context) {
	p.status, p.silence, p.silenceReason = nil, "", fdb.DatabaseSilent
	at, err := p.endpoint()
	if err != nil {
		p.silence = "there is no connection string yet"
		if p.cluster.Status.ConnectionString != "" {
			p.silence = fault.Message(err)
		}
		return
	}
	limit := port.Long
	if !p.cluster.Status.Configured {
		limit = port.Short
	}
	running, tools := at.Version, p.toolsInOrder(at.Version)
	for _, at.Version = range tools {
		s, err := p.database.Status(ctx, at, limit)
		limit = port.Short
		switch {
		case quorum(s):
			p.status, p.silence, p.memory.answers = s, "", at.Version
			if at.Version != running {
				p.cluster.Status.RunningVersion = at.Version.String()
			}
			p.gatherProcesses()
			return
		case at.Version != running:
		case err == nil:
			p.status = s
		default:
			p.silence = fault.Message(err)
			if errors.Is(err, port.ToolsMissing) {
				p.silenceReason = port.ToolsMissing.Reason()
			}
		}
	}
	if len(tools) == 1 && p.cluster.Status.Configured && p.gatherOtherwise(ctx, at, running) {
		return
	}
	p.memory.answers = tools[len(tools)-1] // it had less time
	if p.status != nil {
		p.gatherProcesses()
	}
}

// gatherOtherwise reads the status with the tools of another line, in each pass of the next one, and reports whether it
// was told: servers run a version that nobody asks for, as after an upgrade that was taken back too late.
func (p *pass) gatherOtherwise(ctx context.Context, at port.Endpoint, running fdb.Version) bool {
	lines := slices.DeleteFunc(p.database.Versions(), func(line string) bool { return line == running.Short() })
	if len(lines) == 0 {
		return false
	}
	version, err := fdb.ParseVersion(lines[p.memory.turn%len(lines)] + ".0")
	if err != nil {
		return false
	}
	p.memory.turn++
	at.Version = version
	s, err := p.database.Status(ctx, at, port.Short)
	if err != nil || !quorum(s) {
		return false
	}
	counts := map[string]int{}
	for i := range s.Cluster.Processes {
		counts[s.Cluster.Processes[i].Version]++
	}
	runs := fdb.RunningVersion(counts, "")
	if runs == "" {
		return false
	}
	p.status, p.silence, p.cluster.Status.RunningVersion = s, "", runs
	p.gatherProcesses()
	return true
}

// toolsInOrder are the versions whose tools are asked for the status.
func (p *pass) toolsInOrder(running fdb.Version) []fdb.Version {
	desired, err := fdb.ParseVersion(p.desired)
	switch {
	case err != nil || !foundationdb.UpgradesIncompatibly(p.cluster):
		return []fdb.Version{running}
	case p.memory.answers == desired:
		return []fdb.Version{desired, running}
	}
	return []fdb.Version{running, desired}
}

// quorum reports whether a client reaches the coordinators: those of another protocol do not count.
func quorum(s *fdb.Status) bool {
	return s != nil && s.Client.Coordinators.QuorumReachable != nil && *s.Client.Coordinators.QuorumReachable
}

// gatherProcesses sorts the processes of our data center by group.
func (p *pass) gatherProcesses() {
	p.processes = make(map[v1beta2.ProcessGroupID][]*fdb.Process, len(p.status.Cluster.Processes))
	for i := range p.status.Cluster.Processes {
		process := &p.status.Cluster.Processes[i]
		id := v1beta2.ProcessGroupID(process.Locality[fdb.InstanceLocality])
		if id == "" || p.cluster.Spec.DataCenter != "" && process.Locality[fdb.DatacenterLocality] != p.cluster.Spec.DataCenter {
			continue
		}
		p.processes[id] = append(p.processes[id], process)
	}
}

// gatherPods asks the sidecars what the status does not say. Pods of the unified image tell it by
// annotations; what a sidecar of the split image says once holds as long as the pod lives.
func (p *pass) gatherPods(ctx context.Context) {
	var asked []*member
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	for _, m := range p.members {
		if m.pod == nil {
			continue
		}
		if foundationdb.ImageTypeOf(m.pod) == v1beta2.ImageTypeUnified {
			m.variables = p.told(m.pod)
			m.present = upgrade && launcherVersion(m.pod) == p.desired
			continue
		}
		if known := p.memory.variables[m.pod.UID]; known.text == sidecarRun(m.pod) {
			m.variables = known.values
		}
		m.present = upgrade && p.memory.present[m.pod.UID] == p.desired
		if ready(m.pod, foundationdb.SidecarContainer) && (m.variables == nil || upgrade && !m.present) {
			asked = append(asked, m)
		}
	}
	there := make(map[types.UID]bool, len(p.members))
	for _, m := range p.members {
		if m.pod != nil {
			there[m.pod.UID] = true
		}
	}
	p.memory.keep(there)
	p.parallel(asked, func(m *member) { p.ask(ctx, m, upgrade) })
	for _, m := range asked {
		if m.variables != nil {
			p.memory.variables[m.pod.UID] = variables{text: sidecarRun(m.pod), values: m.variables}
		}
		if m.present {
			p.memory.present[m.pod.UID] = p.desired
		}
	}
}

// told are the variables that the launcher of a pod has told.
func (p *pass) told(pod *corev1.Pod) map[string]string {
	text := pod.Annotations[foundationdb.LauncherEnvironmentAnnotation]
	known := p.memory.variables[pod.UID]
	if known.text != text || known.values == nil {
		known.text = text
		known.values, _ = foundationdb.ToldVariables(pod)
		p.memory.variables[pod.UID] = known
	}
	return known.values
}

// ask asks a sidecar.
func (p *pass) ask(ctx context.Context, m *member, upgrade bool) {
	if m.variables == nil {
		variables, err := p.sidecars.Substitutions(ctx, m.pod)
		if err != nil {
			m.unreachable, m.why = true, err
			return
		}
		m.variables = variables
	}
	if upgrade && !m.present {
		present, err := p.sidecars.Present(ctx, m.pod, "bin/"+p.desired+"/fdbserver")
		m.present, m.unreachable, m.why = present && err == nil, err != nil, err
	}
}

// tellUnreachable tells, once for each of them, why a sidecar is not reached any more: a certificate, for example.
func (p *pass) tellUnreachable() {
	for _, id := range slices.Sorted(maps.Keys(p.members)) {
		m, g := p.members[id], p.group(id)
		if m.why != nil && g != nil && !g.Has(v1beta2.SidecarUnreachable) {
			p.objects.Tell(p.stored, port.Event{Reason: string(v1beta2.SidecarUnreachable), Message: string(id) + ": " + fault.Message(m.why), Warning: true})
		}
	}
}

// parallel runs something for each member, for several at a time.
func (p *pass) parallel(all []*member, do func(*member)) {
	if p.options.Parallel == 1 {
		for _, m := range all {
			do(m)
		}
		return
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, p.options.Parallel)
	for _, m := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(m)
		})
	}
	group.Wait()
}

// ready reports whether a container of a running pod is ready.
func ready(pod *corev1.Pod, container string) bool {
	return foundationdb.ContainerReady(pod, container)
}

// age is how long ago an object was made.
func (p *pass) age(object port.Object) time.Duration {
	return p.now.Sub(object.GetCreationTimestamp().Time)
}

// sidecarRun names the program that the sidecar of a pod runs: another one has other variables.
func sidecarRun(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == foundationdb.SidecarContainer {
			return s.Image + " " + strconv.Itoa(int(s.RestartCount))
		}
	}
	return ""
}
