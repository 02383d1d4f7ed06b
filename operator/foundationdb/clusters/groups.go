package clusters

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// observeGroups judges all groups.
func (p *pass) observeGroups() {
	s := &p.cluster.Status
	zone := ""
	if p.status != nil {
		zone = p.status.Cluster.MaintenanceZone
	}
	hashes := p.configHashes()
	p.upgrades = foundationdb.UpgradesIncompatibly(p.cluster)
	for i := range s.ProcessGroups {
		g := &s.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		p.observePlace(g, m)
		if g.Marked() && g.ExclusionTimestamp != nil && p.included(g) {
			g.ExclusionTimestamp = nil
		}
		found := p.conditionsOf(g, m, hashes)
		if zone != "" && g.FaultDomain == zone && classOf(g) == fdb.ClassStorage {
			found = slices.DeleteFunc(found, func(t v1beta2.ProcessGroupConditionType) bool { return away[t] && !g.Has(t) })
		}
		p.setConditions(g, found)
	}
}

// away are the conditions that a group under maintenance is expected to have: they do not count.
var away = map[v1beta2.ProcessGroupConditionType]bool{
	v1beta2.MissingProcesses: true, v1beta2.MissingPod: true, v1beta2.PodFailing: true, v1beta2.PodPending: true,
	v1beta2.ResourcesTerminating: true, v1beta2.SidecarUnreachable: true,
}

// setConditions gives a group these conditions. One that was there before keeps its time.
func (p *pass) setConditions(g *v1beta2.ProcessGroupStatus, types []v1beta2.ProcessGroupConditionType) {
	if len(types) == 0 {
		types = []v1beta2.ProcessGroupConditionType{v1beta2.ProcessGroupConditionReady}
	}
	conditions := make([]v1beta2.ProcessGroupCondition, 0, len(types))
	for _, t := range types {
		at := p.now
		if since, there := g.Since(t); there {
			at = since
		}
		conditions = append(conditions, v1beta2.ProcessGroupCondition{Type: t, Timestamp: at.Unix()})
	}
	g.ProcessGroupConditions = conditions
}

// included reports whether a process of the group is not excluded.
func (p *pass) included(g *v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(p.processes[g.ProcessGroupID], func(process *fdb.Process) bool { return process.Excluded != nil && !*process.Excluded })
}

// observePlace takes over the addresses and the zone of a group. While it is marked, or the database is
// not available, its former addresses are kept, so that they are excluded too.
func (p *pass) observePlace(g *v1beta2.ProcessGroupStatus, m *member) {
	if m.pod != nil {
		if ips := foundationdb.PublicIPs(m.pod); len(ips) > 0 {
			if g.Marked() || !p.cluster.Status.Health.Available {
				for _, ip := range g.Addresses {
					if !slices.Contains(ips, ip) {
						ips = append(ips, ip)
					}
				}
			}
			g.Addresses = ips
		}
	}
	for _, process := range p.processes[g.ProcessGroupID] {
		if zone := process.Locality[fdb.ZoneLocality]; zone != "" {
			g.FaultDomain = zone
			return
		}
	}
	if m.pod == nil {
		return
	}
	if zone := foundationdb.Zone(p.cluster, m.pod); zone != "" {
		g.FaultDomain = zone
	}
}

// configHashes returns the hash of the files that a pod of a kind should have.
func (p *pass) configHashes() func(class fdb.Class, image v1beta2.ImageType, servers int) string {
	type key struct {
		class   fdb.Class
		image   v1beta2.ImageType
		servers int
	}
	known := map[key]string{}
	return func(class fdb.Class, image v1beta2.ImageType, servers int) string {
		k := key{class, image, servers}
		if known[k] == "" && p.wanted != nil {
			known[k] = foundationdb.ConfigHash(p.wanted, class, image, servers)
		}
		return known[k]
	}
}

// conditionsOf judges one group, in the order of the specification.
func (p *pass) conditionsOf(g *v1beta2.ProcessGroupStatus, m *member, hash func(fdb.Class, v1beta2.ImageType, int) string) []v1beta2.ProcessGroupConditionType {
	var found []v1beta2.ProcessGroupConditionType
	set := func(t v1beta2.ProcessGroupConditionType, when bool) {
		if when {
			found = append(found, t)
		}
	}
	class := classOf(g)
	if m.pod != nil {
		want, err := p.pods.PodHash(p.ids[g.ProcessGroupID])
		set(v1beta2.IncorrectPodSpec, err == nil && m.pod.Annotations[foundationdb.SpecAnnotation] != want)
		set(v1beta2.IncorrectPodMetadata, p.metadataDiffers(g))
		image, servers := foundationdb.ImageTypeOf(m.pod), m.servers()
		outdated := m.pod.Annotations[foundationdb.ConfigAnnotation] != hash(class, image, servers)
		if image == v1beta2.ImageTypeUnified && p.wanted != nil && m.pod.Status.Phase == corev1.PodRunning {
			outdated = outdated || !launcherHas(m.pod, p.wanted.Data[foundationdb.MonitorConfKey(class, image, servers)])
		}
		set(v1beta2.IncorrectConfigMap, outdated || p.upgrades && !m.present)
		sidecar, err := foundationdb.SidecarImage(p.cluster, class)
		set(v1beta2.IncorrectSidecarImage, err == nil && imageOf(m.pod, foundationdb.SidecarContainer) != sidecar)
	}
	p.judgeProcesses(g, m, set)
	p.judgePod(g, m, set)
	if m.pod != nil && p.nodes != nil {
		seen, _ := g.Since(v1beta2.NodeTaintDetected)
		detected, replacing := foundationdb.TaintConditions(p.cluster.Spec, p.nodes[m.pod.Spec.NodeName], seen, p.now)
		set(v1beta2.NodeTaintDetected, detected)
		set(v1beta2.NodeTaintReplacing, replacing)
	}
	return found
}

// judgePod judges what Kubernetes has of a group.
func (p *pass) judgePod(g *v1beta2.ProcessGroupStatus, m *member, set func(v1beta2.ProcessGroupConditionType, bool)) {
	terminating := m.claim != nil && m.claim.DeletionTimestamp != nil || m.service != nil && m.service.DeletionTimestamp != nil
	if pod := m.pod; pod == nil {
		set(v1beta2.MissingPod, true)
	} else {
		failed := pod.DeletionTimestamp != nil && p.now.Sub(pod.DeletionTimestamp.Time) > time.Duration(*p.cluster.Spec.AutomationOptions.FailedPodDurationSeconds)*time.Second
		set(v1beta2.PodFailing, failed || pod.DeletionTimestamp == nil && failing(pod))
		set(v1beta2.PodPending, pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
		terminating = terminating || pod.DeletionTimestamp != nil
	}
	set(v1beta2.MissingPVC, classOf(g).Stateful() && m.claim == nil)
	set(v1beta2.MissingService, p.cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService && m.service == nil)
	set(v1beta2.ResourcesTerminating, terminating)
}

// failing reports whether a pod has failed, or runs with a container that is not ready.
func failing(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodFailed:
		return true
	case corev1.PodRunning:
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
	}
	return false
}

func imageOf(pod *corev1.Pod, container string) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// judgeProcesses judges what the database says of a group's servers. While nothing of our data center
// reports, conditions about servers stay as they were.
func (p *pass) judgeProcesses(g *v1beta2.ProcessGroupStatus, m *member, set func(v1beta2.ProcessGroupConditionType, bool)) {
	if len(p.processes) == 0 {
		for _, t := range []v1beta2.ProcessGroupConditionType{
			v1beta2.MissingProcesses, v1beta2.IncorrectCommandLine, v1beta2.ProcessIsMarkedAsExcluded, v1beta2.ProcessHasIOError, v1beta2.ProcessHasHighRunLoopBusy,
		} {
			set(t, g.Has(t) || t == v1beta2.MissingProcesses && m.pod == nil || t == v1beta2.IncorrectCommandLine && p.cluster.Spec.Buggify.EmptyMonitorConf)
		}
		set(v1beta2.SidecarUnreachable, m.unreachable)
		return
	}
	reports, servers := p.processes[g.ProcessGroupID], 1
	if m.pod != nil {
		servers = m.servers()
	}
	numbers := map[int]*fdb.Process{}
	var marked, broken, busy bool
	for _, process := range reports {
		if process.CommandLine == "" || process.Version == "" {
			continue
		}
		numbers[numberOf(process, g.ProcessGroupID, len(numbers)+1)] = process
		marked = marked || yes(process.Excluded)
		broken = broken || slices.ContainsFunc(process.Messages, func(message fdb.ProcessMessage) bool {
			return message.Name == "io_error" || message.Name == "io_timeout"
		})
		busy = busy || p.limits.RunLoopBusy > 0 && process.RunLoopBusy != nil && *process.RunLoopBusy >= p.limits.RunLoopBusy
	}
	wrong, unreachable := p.commandsDiffer(g, m, servers, numbers)
	set(v1beta2.IncorrectCommandLine, wrong)
	set(v1beta2.MissingProcesses, len(numbers) < servers)
	set(v1beta2.SidecarUnreachable, unreachable || m.unreachable)
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
func (p *pass) commandsDiffer(g *v1beta2.ProcessGroupStatus, m *member, servers int, reports map[int]*fdb.Process) (differ, unreachable bool) {
	if p.cluster.Spec.Buggify.EmptyMonitorConf {
		return true, false
	}
	if m.pod == nil || len(reports) == 0 {
		return g.Has(v1beta2.IncorrectCommandLine), false
	}
	if m.variables == nil {
		return g.Has(v1beta2.IncorrectCommandLine), m.pod.Status.Phase == corev1.PodRunning
	}
	commands, err := p.pods.StartCommands(classOf(g), foundationdb.ImageTypeOf(m.pod), servers, m.variables)
	if err != nil {
		return g.Has(v1beta2.IncorrectCommandLine), false
	}
	incompatible := p.upgrades
	for n, process := range reports {
		switch {
		case n < 1 || n > len(commands):
			return true, false
		case process.CommandLine != commands[n-1]:
			return true, false
		case incompatible && strings.TrimSuffix(process.Version, "-PRERELEASE") != p.desired:
			return true, false
		}
	}
	return false, false
}

func podFacts(m *member) foundationdb.PodFacts {
	f := foundationdb.PodFacts{}
	if m.service != nil {
		f.ServiceIP = m.service.Spec.ClusterIP
	}
	return f
}

// metadataDiffers reports whether a child of a group lacks a label or an annotation.
func (p *pass) metadataDiffers(g *v1beta2.ProcessGroupStatus) bool {
	for _, l := range p.lacking(g) {
		if len(l.labels)+len(l.annotations) > 0 {
			return true
		}
	}
	return false
}
