package clusters

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/adoption"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
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

type member = groups.Member

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
	for _, pod := range stored.Seen[corev1.Pod](&p.memory.writes, pods.Items) {
		if id, ok := p.ownerOf(pod); ok {
			p.member(id).Pod = pod
		}
	}
	for _, claim := range stored.Seen[corev1.PersistentVolumeClaim](&p.memory.writes, claims.Items) {
		if id, ok := p.ownerOf(claim); ok {
			p.member(id).Claim = claim
		}
	}
	for _, service := range stored.Seen[corev1.Service](&p.memory.writes, services.Items) {
		if id, ok := p.ownerOf(service); ok {
			p.member(id).Service = service
		} else if service.Name == p.cluster.Name && mine(p.cluster, service) {
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

// gatherNamesakes refuses a cluster that joins a database in which another object has the same prefix. Only objects
// that this operator serves are seen.
func (p *pass) gatherNamesakes(ctx context.Context) error {
	if p.stored.Spec.SeedConnectionString == "" {
		return nil // it has made its database: those that join it are refused
	}
	var list v1beta2.FoundationDBClusterList
	if err := p.objects.List(ctx, &list, "", nil); err != nil {
		return err
	}
	if p.namesake = adoption.Namesake(p.stored, list.Items); p.namesake != nil {
		p.validate()
	}
	return nil
}

// servers are those of the cluster.
func (p *pass) servers() servers.Servers {
	return servers.Servers{
		Cluster: p.cluster, Status: p.status, Processes: p.processes, Now: p.now,
		Pod: func(id v1beta2.ProcessGroupID) *corev1.Pod { return p.member(id).Pod },
	}
}

// ownerOf returns the group that a child belongs to.
func (p *pass) ownerOf(child port.Object) (v1beta2.ProcessGroupID, bool) {
	id, ok := foundationdb.GroupIDOf(child.GetLabels(), p.cluster.Spec)
	return id, ok && mine(p.cluster, child)
}

// mine reports whether a child is ours, where the spec asks to tell children by their owner.
func mine(c *v1beta2.FoundationDBCluster, child port.Object) bool {
	if !*c.Spec.Labels.FilterOnOwnerReference {
		return true
	}
	for _, owner := range child.GetOwnerReferences() {
		if owner.UID == c.UID {
			return true
		}
	}
	return false
}

// gatherStatus reads the status document.
func (p *pass) gatherStatus(ctx context.Context) {
	a := p.memory.tools.Read(ctx, p.database, p.cluster, p.desired)
	p.status, p.silence, p.silenceReason = a.Status, a.Silence, a.SilenceReason
	if a.Running != "" {
		p.cluster.Status.RunningVersion = a.Running
	}
	if p.status != nil {
		p.processes = servers.ByGroup(p.status, p.cluster.Spec.DataCenter)
	}
}

// gatherPods asks the sidecars what the status does not say.
func (p *pass) gatherPods(ctx context.Context) {
	version := ""
	if foundationdb.UpgradesIncompatibly(p.cluster) {
		version = p.desired
	}
	there := make(map[types.UID]bool, len(p.members))
	for _, m := range p.members {
		if m.Pod != nil {
			there[m.Pod.UID] = true
		}
	}
	p.memory.keep(there)
	p.memory.sidecars.Read(ctx, p.sidecars, p.members, version, p.options.Parallel)
}

// tellUnreachable tells, once for each of them, why a sidecar is not reached any more: a certificate, for example.
func (p *pass) tellUnreachable() {
	for _, id := range slices.Sorted(maps.Keys(p.members)) {
		m, g := p.members[id], p.ours[id]
		if m.Why != nil && g != nil && !g.Has(v1beta2.SidecarUnreachable) {
			p.objects.Tell(p.stored, port.Event{Reason: string(v1beta2.SidecarUnreachable), Message: string(id) + ": " + fault.Message(m.Why), Warning: true})
		}
	}
}
