package clusters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	missingPodWait = 90 * time.Second // a pod that is missing for less is coming
	youngPod       = time.Minute      // a pod that is younger may not be up yet
	staleFor       = 3 * time.Minute  // a pod that is younger may be shown with the servers of the one before
)

// updatePods deletes pods that are not as they should be, zone by zone, so that AddPods makes them anew. Most wait
// while an upgrade or a TLS conversion goes on; one for which that would wait does not.
func updatePods(p *pass) decision {
	var outdated []foundationdb.RemovalGroup
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		if g.Has(v1beta2.IncorrectPodSpec) && !g.Marked() && pod != nil && pod.DeletionTimestamp == nil {
			outdated = append(outdated, foundationdb.RemovalGroup{ID: string(g.ProcessGroupID), Zone: g.FaultDomain})
		}
	}
	if len(outdated) == 0 {
		return decision{}
	}
	if p.converts() || p.desired != p.cluster.Spec.Version {
		all := len(outdated)
		p.findLacking()
		outdated = slices.DeleteFunc(outdated, func(g foundationdb.RemovalGroup) bool { return !p.lackVariable[v1beta2.ProcessGroupID(g.ID)] })
		if len(outdated) == 0 || foundationdb.UpgradesIncompatibly(p.cluster) {
			return later(upgradeAgain, "UpgradeOrConversion", "%d pods are made anew after the upgrade or the TLS conversion", all)
		}
	}
	if d, ok := p.podsSettled(); !ok {
		return d
	}
	zone, ids, err := foundationdb.RemovalBatch(outdated, p.cluster.Spec.AutomationOptions.DeletionMode)
	switch {
	case err != nil:
		return later(0, fault.Of(err).Reason(), "%s", fault.Message(err))
	case len(ids) == 0:
		return later(0, "DeletionModeNone", "%d pods are outdated, and spec.automationOptions.deletionMode is None", len(outdated))
	}
	if most := p.cluster.Spec.MaxZonesWithUnavailablePods; most != nil {
		if zones := p.unavailableZones(); !slices.Contains(zones, zone) && len(zones) >= *most {
			return later(startAgain, "ZonesUnavailable", "pods of %d zones are not available: %s", len(zones), some(zones))
		}
	}
	if other := p.status.Cluster.MaintenanceZone; other != "" && other != zone && *p.cluster.Spec.AutomationOptions.MaintenanceModeOptions.UseMaintenanceModeChecker {
		return later(startAgain, reasonMaintenance, "zone %s is under maintenance", other)
	}
	if v := p.tolerant(); !v.Open {
		return closed(v, startAgain)
	}
	if slices.ContainsFunc(ids, p.transacts) { // its loss is a recovery: no sooner after the last one than a configuration
		if v := p.open(fdb.GateConfigure); !v.Open {
			return closed(v, startAgain)
		}
	}
	return acts(outcome.Wait(startAgain, "PodsUpdate", "%d of %d pods are made anew in zone %s", len(ids), len(outdated), zone), p.updating(zone, ids))
}

// transacts reports whether a group is of the transaction system, by its class or by a role: without stateless groups
// those of storage take such roles too.
func (p *pass) transacts(id string) bool {
	g := p.group(v1beta2.ProcessGroupID(id))
	if g == nil || classOf(g).Transaction() {
		return g != nil
	}
	return slices.ContainsFunc(p.processes[g.ProcessGroupID], func(process *fdb.Process) bool {
		return slices.ContainsFunc(process.Roles, func(r fdb.Role) bool { return r.Role != "storage" && r.Role != "coordinator" })
	})
}

// updating is the act of deleting the pods of a zone.
func (p *pass) updating(zone string, ids []string) act {
	return locked(act{
		Name: "make pod anew", Targets: ids,
		Assume: func(p *pass) {
			for _, id := range ids {
				p.drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectPodSpec)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			var pods []*corev1.Pod
			var storage []string
			for _, id := range ids {
				g := p.group(v1beta2.ProcessGroupID(id))
				if m := p.member(v1beta2.ProcessGroupID(id)); m.pod != nil {
					pods = append(pods, m.pod)
				}
				if classOf(g) == fdb.ClassStorage {
					storage = append(storage, id)
				}
			}
			if *p.cluster.Spec.AutomationOptions.MaintenanceModeOptions.UseMaintenanceModeChecker && len(storage) > 0 {
				if out := p.beginMaintenance(ctx, zone, storage); !out.IsDone() {
					return out
				}
			}
			if slices.ContainsFunc(ids, p.transacts) {
				p.disturb("pods that are made anew")
			}
			return each(ctx, pods, "PodNotDeleted", func(pod *corev1.Pod) error {
				return p.delete(ctx, pod, "Pod", "it is to be made anew; full fault tolerance, zone "+zone)
			})
		},
	})
}

// podsSettled reports whether pods are where they should be; otherwise it says what is waited for.
func (p *pass) podsSettled() (decision, bool) {
	terminating := time.Duration(*p.cluster.Spec.AutomationOptions.IgnoreTerminatingPodsSeconds) * time.Second
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		switch {
		case g.Marked() && (pod == nil || pod.DeletionTimestamp != nil): // it is not expected back
		case pod == nil:
			if !g.Lasts(v1beta2.MissingPod, missingPodWait, p.now) {
				return later(startAgain, "PodMissing", "the pod of %s is not there", g.ProcessGroupID), false
			}
		case pod.DeletionTimestamp != nil:
			if p.now.Sub(pod.DeletionTimestamp.Time) < terminating {
				return later(startAgain, "PodTerminates", "the pod of %s goes", g.ProcessGroupID), false
			}
		case p.young(g, pod) && !p.up(g, pod):
			return later(startAgain, "PodStarts", "the pod of %s is not up yet", g.ProcessGroupID), false
		case p.staleUptime(g, pod):
			return later(startAgain, fdb.StatusIncomplete, "the status still shows the former servers of %s", g.ProcessGroupID), false
		}
	}
	return decision{}, true
}

// young reports whether a pod may not be up yet: it was made a moment ago by the API server's clock, or its servers are
// silent since a moment ago by this program's. Either clock may be ahead, and a status needs a minute to tell that a
// server with data is gone.
func (p *pass) young(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	return p.age(pod) < youngPod || g.Has(v1beta2.MissingProcesses) && !g.Lasts(v1beta2.MissingProcesses, youngPod, p.now)
}

// up reports whether the servers of a pod report.
func (p *pass) up(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && len(p.processes[g.ProcessGroupID]) >= foundationdb.ServersIn(pod)
}

// staleUptime reports whether a server of a young pod is said to be up for longer than the pod is there: it is
// the one of the pod before. The clocks of the API server and of this program may differ, so that is believed
// of young pods only.
func (p *pass) staleUptime(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	age := p.age(pod)
	if age < 0 || age > staleFor {
		return false
	}
	return slices.ContainsFunc(p.processes[g.ProcessGroupID], func(process *fdb.Process) bool {
		return process.UptimeSeconds != nil && *process.UptimeSeconds > age.Seconds()+5
	})
}

// unavailableZones are the zones that have a pod which does not run, or goes.
func (p *pass) unavailableZones() []string {
	var zones []string
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		if away := pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || failing(pod); away && !slices.Contains(zones, g.FaultDomain) {
			zones = append(zones, g.FaultDomain)
		}
	}
	slices.Sort(zones)
	return zones
}
