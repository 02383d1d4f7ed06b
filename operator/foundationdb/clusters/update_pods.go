package clusters

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/outcome"
)

// updatePods deletes pods that are not as they should be, zone by zone, so that AddPods makes them anew. Most wait
// while an upgrade or a TLS conversion goes on; one for which that would wait does not. A pod whose coordinator cannot be
// spared is never deleted: ReplaceMisconfiguredProcessGroups replaces its group.
func updatePods(p *pass) decision {
	var outdated []foundationdb.RemovalGroup
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).Pod
		if g.Has(v1beta2.IncorrectPodSpec) && !g.Marked() && pod != nil && pod.DeletionTimestamp == nil && !cannotSpare(p.servers(), g.ProcessGroupID) {
			outdated = append(outdated, foundationdb.RemovalGroup{ID: string(g.ProcessGroupID), Zone: g.FaultDomain})
		}
	}
	if len(outdated) == 0 {
		return decision{}
	}
	if converts(p.cluster) || p.desired != p.cluster.Spec.Version {
		all := len(outdated)
		lacking, _ := upgrades.Lacking(p.servers())
		outdated = slices.DeleteFunc(outdated, func(g foundationdb.RemovalGroup) bool { return !lacking[v1beta2.ProcessGroupID(g.ID)] })
		if len(outdated) == 0 || foundationdb.UpgradesIncompatibly(p.cluster) {
			return later(upgradeAgain, "UpgradeOrConversion", "%d pods are made anew after the upgrade or the TLS conversion", all)
		}
	}
	if reason, message := p.servers().Unsettled(); reason != "" {
		return later(startAgain, reason, "%s", message)
	}
	zone, ids, err := foundationdb.RemovalBatch(outdated, p.cluster.Spec.AutomationOptions.DeletionMode)
	switch {
	case err != nil:
		return later(0, fault.Of(err).Reason(), "%s", fault.Message(err))
	case len(ids) == 0:
		return later(0, "DeletionModeNone", "%d pods are outdated, and spec.automationOptions.deletionMode is None", len(outdated))
	}
	if most := p.cluster.Spec.MaxZonesWithUnavailablePods; most != nil {
		if zones := p.servers().UnavailableZones(); !slices.Contains(zones, zone) && len(zones) >= *most {
			return later(startAgain, "ZonesUnavailable", "pods of %d zones are not available: %s", len(zones), some(zones))
		}
	}
	if other := p.status.Cluster.MaintenanceZone; other != "" && other != zone && *p.cluster.Spec.AutomationOptions.MaintenanceModeOptions.UseMaintenanceModeChecker {
		return later(startAgain, reasonMaintenance, "zone %s is under maintenance", other)
	}
	if v := p.tolerant(); !v.Open {
		return closed(v, startAgain)
	}
	if slices.ContainsFunc(ids, p.servers().Transacts) { // its loss is a recovery: no sooner after the last one than a configuration
		if v := p.open(fdb.GateConfigure); !v.Open {
			return closed(v, startAgain)
		}
	}
	return acts(outcome.Wait(startAgain, "PodsUpdate", "%d of %d pods are made anew in zone %s", len(ids), len(outdated), zone), updating(zone, ids))
}

// updating is the act of deleting the pods of a zone.
func updating(zone string, ids []string) act {
	return locked(act{
		Name: "make pod anew", Targets: ids,
		Assume: func(p *pass) {
			for _, id := range ids {
				p.ours.Drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectPodSpec, p.now)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			var pods []*corev1.Pod
			var storage []string
			for _, id := range ids {
				g := p.ours[v1beta2.ProcessGroupID(id)]
				if m := p.member(v1beta2.ProcessGroupID(id)); m.Pod != nil {
					pods = append(pods, m.Pod)
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
			if slices.ContainsFunc(ids, p.servers().Transacts) {
				p.disturb("pods that are made anew")
			}
			return each(ctx, pods, "PodNotDeleted", func(pod *corev1.Pod) error {
				return p.delete(ctx, pod, "Pod", "it is to be made anew; full fault tolerance, zone "+zone)
			})
		},
	})
}
