// Package groups judges the process groups of a cluster: what is wrong with each, and what its children lack.
package groups

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

// Member is what is known of the children of a group.
type Member struct {
	Pod     *corev1.Pod
	Claim   *corev1.PersistentVolumeClaim
	Service *corev1.Service
	made    *corev1.Pod // whose servers are counted
	count   int
	// Variables are those of the pod's servers; nil: not known.
	Variables map[string]string
	// Unreachable: the sidecar did not answer, and why.
	Unreachable bool
	Why         error
	// Present: the binary of the desired version is there. Looked for in an incompatible upgrade only.
	Present bool
}

// Servers is how many servers the pod was made with.
func (m *Member) Servers() int {
	if m.made == nil || m.made != m.Pod {
		m.made, m.count = m.Pod, foundationdb.ServersIn(m.Pod)
	}
	return m.count
}

// Judge judges the groups of a cluster.
type Judge struct {
	servers.Servers
	Desired string                  // the version that the cluster is to have in the end
	Pods    *foundationdb.Wanted    // the children as they should be
	Wanted  *corev1.ConfigMap       // as it should be; nil: it cannot be made
	Nodes   map[string]*corev1.Node // only where taints count
	Limits  fdb.Limits

	upgrades bool // the running and the desired version cannot talk to each other
}

// Observe brings the status of all groups up to what is known of their members.
func (j *Judge) Observe(member func(v1beta2.ProcessGroupID) *Member) {
	s := &j.Cluster.Status
	zone := ""
	if j.Status != nil {
		zone = j.Status.Cluster.MaintenanceZone
	}
	hashes := ConfigHashes(j.Wanted)
	j.upgrades = foundationdb.UpgradesIncompatibly(j.Cluster)
	for i := range s.ProcessGroups {
		g := &s.ProcessGroups[i]
		m := member(g.ProcessGroupID)
		j.observePlace(g, m)
		if g.Marked() && g.ExclusionTimestamp != nil && j.Included(g) {
			g.ExclusionTimestamp = nil
		}
		found := j.conditionsOf(g, m, hashes)
		if zone != "" && g.FaultDomain == zone && fdb.Class(g.ProcessClass) == fdb.ClassStorage {
			found = slices.DeleteFunc(found, func(t v1beta2.ProcessGroupConditionType) bool { return away[t] && !g.Has(t) })
		}
		SetConditions(g, found, j.Now)
	}
}

// away are the conditions that a group under maintenance is expected to have: they do not count.
var away = map[v1beta2.ProcessGroupConditionType]bool{
	v1beta2.MissingProcesses: true, v1beta2.MissingPod: true, v1beta2.PodFailing: true, v1beta2.PodPending: true,
	v1beta2.ResourcesTerminating: true, v1beta2.SidecarUnreachable: true,
}

// observePlace takes over the addresses and the zone of a group. While it is marked or silent, or the database is
// not available, its former addresses are kept, so that they are excluded too: by them the database knows its servers.
func (j *Judge) observePlace(g *v1beta2.ProcessGroupStatus, m *Member) {
	if m.Pod != nil {
		if ips := foundationdb.PublicIPs(m.Pod); len(ips) > 0 {
			if g.Marked() || !j.Cluster.Status.Health.Available || len(j.Processes[g.ProcessGroupID]) == 0 {
				for _, ip := range g.Addresses {
					if !slices.Contains(ips, ip) {
						ips = append(ips, ip)
					}
				}
			}
			g.Addresses = ips
		}
	}
	for _, process := range j.Processes[g.ProcessGroupID] {
		if zone := process.Locality[fdb.ZoneLocality]; zone != "" {
			g.FaultDomain = zone
			return
		}
	}
	if m.Pod == nil {
		return
	}
	if zone := foundationdb.Zone(j.Cluster, m.Pod); zone != "" {
		g.FaultDomain = zone
	}
}

// conditionsOf judges one group, in the order of the specification.
func (j *Judge) conditionsOf(g *v1beta2.ProcessGroupStatus, m *Member, hash func(fdb.Class, v1beta2.ImageType, int) string) []v1beta2.ProcessGroupConditionType {
	var found []v1beta2.ProcessGroupConditionType
	set := func(t v1beta2.ProcessGroupConditionType, when bool) {
		if when {
			found = append(found, t)
		}
	}
	class := fdb.Class(g.ProcessClass)
	if m.Pod != nil {
		id, _ := fdb.ParseGroupID(string(g.ProcessGroupID))
		want, err := j.Pods.PodHash(id)
		set(v1beta2.IncorrectPodSpec, err == nil && m.Pod.Annotations[foundationdb.SpecAnnotation] != want)
		set(v1beta2.IncorrectPodMetadata, j.metadataDiffers(g, m))
		image, servers := foundationdb.ImageTypeOf(m.Pod), m.Servers()
		outdated := m.Pod.Annotations[foundationdb.ConfigAnnotation] != hash(class, image, servers)
		if image == v1beta2.ImageTypeUnified && j.Wanted != nil && m.Pod.Status.Phase == corev1.PodRunning {
			outdated = outdated || !LauncherHas(m.Pod, j.Wanted.Data[foundationdb.MonitorConfKey(class, image, servers)])
		}
		set(v1beta2.IncorrectConfigMap, outdated || j.upgrades && !m.Present)
		sidecar, err := foundationdb.SidecarImage(j.Cluster, class, image)
		set(v1beta2.IncorrectSidecarImage, err == nil && foundationdb.ContainerImage(m.Pod, foundationdb.SidecarContainer) != sidecar)
	}
	j.judgeProcesses(g, m, set)
	j.judgePod(g, m, set)
	if m.Pod != nil && j.Nodes != nil {
		seen, _ := g.Since(v1beta2.NodeTaintDetected)
		detected, replacing := foundationdb.TaintConditions(j.Cluster.Spec, j.Nodes[m.Pod.Spec.NodeName], seen, j.Now)
		set(v1beta2.NodeTaintDetected, detected)
		set(v1beta2.NodeTaintReplacing, replacing)
	}
	return found
}

// judgePod judges what Kubernetes has of a group.
func (j *Judge) judgePod(g *v1beta2.ProcessGroupStatus, m *Member, set func(v1beta2.ProcessGroupConditionType, bool)) {
	terminating := m.Claim != nil && m.Claim.DeletionTimestamp != nil || m.Service != nil && m.Service.DeletionTimestamp != nil
	if pod := m.Pod; pod == nil {
		set(v1beta2.MissingPod, true)
	} else {
		failed := pod.DeletionTimestamp != nil && j.Now.Sub(pod.DeletionTimestamp.Time) > time.Duration(*j.Cluster.Spec.AutomationOptions.FailedPodDurationSeconds)*time.Second
		set(v1beta2.PodFailing, failed || pod.DeletionTimestamp == nil && servers.Failing(pod))
		set(v1beta2.PodPending, pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
		terminating = terminating || pod.DeletionTimestamp != nil
	}
	set(v1beta2.MissingPVC, fdb.Class(g.ProcessClass).Stateful() && m.Claim == nil)
	set(v1beta2.MissingService, j.Cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService && m.Service == nil)
	set(v1beta2.ResourcesTerminating, terminating)
}

// judgeProcesses judges what the database says of a group's servers. While nothing of our data center
// reports, conditions about servers stay as they were.
func (j *Judge) judgeProcesses(g *v1beta2.ProcessGroupStatus, m *Member, set func(v1beta2.ProcessGroupConditionType, bool)) {
	if len(j.Processes) == 0 {
		for _, t := range []v1beta2.ProcessGroupConditionType{
			v1beta2.MissingProcesses, v1beta2.IncorrectCommandLine, v1beta2.ProcessIsMarkedAsExcluded, v1beta2.ProcessHasIOError, v1beta2.ProcessHasHighRunLoopBusy,
		} {
			set(t, g.Has(t) || t == v1beta2.MissingProcesses && m.Pod == nil || t == v1beta2.IncorrectCommandLine && j.Cluster.Spec.Buggify.EmptyMonitorConf)
		}
		set(v1beta2.SidecarUnreachable, m.Unreachable)
		return
	}
	reports, servers := j.Processes[g.ProcessGroupID], 1
	if m.Pod != nil {
		servers = m.Servers()
	}
	numbers := map[int]*fdb.Process{}
	var marked, broken, busy bool
	for _, process := range reports {
		if process.CommandLine == "" || process.Version == "" {
			continue
		}
		numbers[numberOf(process, g.ProcessGroupID, len(numbers)+1)] = process
		marked = marked || process.Excluded != nil && *process.Excluded
		broken = broken || slices.ContainsFunc(process.Messages, func(message fdb.ProcessMessage) bool {
			return message.Name == "io_error" || message.Name == "io_timeout"
		})
		busy = busy || j.Limits.RunLoopBusy > 0 && process.RunLoopBusy != nil && *process.RunLoopBusy >= j.Limits.RunLoopBusy
	}
	wrong, unreachable := j.commandsDiffer(g, m, servers, numbers)
	set(v1beta2.IncorrectCommandLine, wrong)
	set(v1beta2.MissingProcesses, len(numbers) < servers)
	set(v1beta2.SidecarUnreachable, unreachable || m.Unreachable)
	set(v1beta2.ProcessIsMarkedAsExcluded, marked && !g.Marked())
	set(v1beta2.ProcessHasIOError, broken)
	set(v1beta2.ProcessHasHighRunLoopBusy, busy)
}

// numberOf is the number of a server in its pod: what its process_id ends with.
func numberOf(process *fdb.Process, id v1beta2.ProcessGroupID, otherwise int) int {
	if text, ok := strings.CutPrefix(process.Locality["process_id"], string(id)+"-"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	return otherwise
}

// commandsDiffer reports whether a server runs with other arguments than it should, or with another
// version that cannot talk to the others. What a pod's variables are must be known for that.
func (j *Judge) commandsDiffer(g *v1beta2.ProcessGroupStatus, m *Member, servers int, reports map[int]*fdb.Process) (differ, unreachable bool) {
	if j.Cluster.Spec.Buggify.EmptyMonitorConf {
		return true, false
	}
	if m.Pod == nil || len(reports) == 0 {
		return g.Has(v1beta2.IncorrectCommandLine), false
	}
	if m.Variables == nil {
		return g.Has(v1beta2.IncorrectCommandLine), m.Pod.Status.Phase == corev1.PodRunning
	}
	commands, err := j.Pods.StartCommands(fdb.Class(g.ProcessClass), foundationdb.ImageTypeOf(m.Pod), servers, m.Variables)
	if err != nil {
		return g.Has(v1beta2.IncorrectCommandLine), false
	}
	incompatible := j.upgrades
	for n, process := range reports {
		switch {
		case n < 1 || n > len(commands):
			return true, false
		case process.CommandLine != commands[n-1]:
			return true, false
		case incompatible && strings.TrimSuffix(process.Version, "-PRERELEASE") != j.Desired:
			return true, false
		}
	}
	return false, false
}

// ConfigHashes returns the hash of the files that a pod of a kind should have.
func ConfigHashes(wanted *corev1.ConfigMap) func(class fdb.Class, image v1beta2.ImageType, servers int) string {
	type key struct {
		class   fdb.Class
		image   v1beta2.ImageType
		servers int
	}
	known := map[key]string{}
	return func(class fdb.Class, image v1beta2.ImageType, servers int) string {
		k := key{class, image, servers}
		if known[k] == "" && wanted != nil {
			known[k] = foundationdb.ConfigHash(wanted, class, image, servers)
		}
		return known[k]
	}
}

// SetConditions gives a group these conditions. One that was there before keeps its time.
func SetConditions(g *v1beta2.ProcessGroupStatus, types []v1beta2.ProcessGroupConditionType, now time.Time) {
	if len(types) == 0 {
		types = []v1beta2.ProcessGroupConditionType{v1beta2.ProcessGroupConditionReady}
	}
	conditions := make([]v1beta2.ProcessGroupCondition, 0, len(types))
	for _, t := range types {
		at := now
		if since, there := g.Since(t); there {
			at = since
		}
		conditions = append(conditions, v1beta2.ProcessGroupCondition{Type: t, Timestamp: at.Unix()})
	}
	g.ProcessGroupConditions = conditions
}

// metadataDiffers reports whether a child of a group lacks a label or an annotation.
func (j *Judge) metadataDiffers(g *v1beta2.ProcessGroupStatus, m *Member) bool {
	for _, l := range Lacking(j.Cluster, g, m) {
		if len(l.Labels)+len(l.Annotations) > 0 {
			return true
		}
	}
	return false
}
