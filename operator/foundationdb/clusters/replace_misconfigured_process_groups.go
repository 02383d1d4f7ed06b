package clusters

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/outcome"
)

// replaceMisconfigured marks groups whose pod or claim cannot be changed into what is wanted. A claim that
// is only too small grows, zone by zone, where its class allows it.
func replaceMisconfigured(p *pass) decision {
	var wrong []v1beta2.ProcessGroupID
	lone := map[v1beta2.ProcessGroupID]bool{}
	why := ""
	inFlight := 0
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if g.Marked() {
			if !g.Excluded() {
				inFlight++
			}
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		m := p.member(g.ProcessGroupID)
		if !known || m.Pod == nil {
			continue
		}
		reason, replace := p.pods.Misconfigured(id, m.Pod, m.Claim, foundationdb.MisconfiguredOptions{
			SecurityContext: p.options.ReplaceOnSecurityContext,
		})
		if !replace && g.Has(v1beta2.IncorrectPodSpec) && cannotSpare(p.servers(), g.ProcessGroupID) {
			reason, replace = "it has a coordinator that cannot be spared while its pod is made anew", true
			lone[g.ProcessGroupID] = true
		}
		if _, size, grown := p.pods.ClaimDiffers(m.Claim, id); !replace && size != nil && p.memory.fixed[groups.StorageClass(m.Claim)] {
			reason, replace = grown+", and its class does not let it grow", true
		}
		if replace {
			wrong = append(wrong, g.ProcessGroupID)
			if why == "" {
				why = string(g.ProcessGroupID) + ": " + reason
			}
		}
	}
	next, left := p.growths()
	if len(wrong) == 0 {
		if left == 0 {
			return decision{}
		}
		out := outcome.Later(startAgain, "VolumesGrow", "%d volumes are smaller than they should be, or grow", left)
		if len(next) == 0 {
			return decision{Outcome: out}
		}
		return acts(out, growing(next))
	}
	if !p.cluster.Status.Configured { // the first coordinators are among them
		return later(startAgain, "NotConfigured", "%d groups are replaced once there is a database", len(wrong))
	}
	out, chosen := outcome.Done(), wrong
	if converts(p.cluster) {
		out = outcome.Later(upgradeAgain, "UpgradeOrConversion", "%d groups are replaced after the upgrade or the TLS conversion", len(wrong))
		if foundationdb.UpgradesIncompatibly(p.cluster) {
			return decision{Outcome: out}
		}
		// A conversion waits for pods that lack a variable. UpdatePods makes the others anew.
		lacking, _ := upgrades.Lacking(p.servers())
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(id v1beta2.ProcessGroupID) bool { return !lone[id] || !lacking[id] })
	}
	if most := p.cluster.Spec.AutomationOptions.MaxConcurrentReplacements; most != nil {
		chosen = chosen[:min(len(chosen), max(0, *most-inFlight))]
	}
	if out.IsDone() && len(chosen) < len(wrong) {
		out = outcome.Later(replaceAgain, "ReplacementBudget", "%d of %d groups may be replaced now (%s)", len(chosen), len(wrong), why)
	}
	if len(chosen) == 0 {
		return decision{Outcome: out}
	}
	return acts(out, marking("replace misconfigured group", chosen, nil))
}

// cannotSpare reports whether the coordinators have no majority without those of a group, as the only one of a cluster
// without redundancy: a pod that is made anew has another IP.
func cannotSpare(s servers.Servers, id v1beta2.ProcessGroupID) bool {
	all := len(s.Coordinators())
	return all > 0 && all < 3 && s.Status != nil && s.Coordinate([]string{string(id)})
}

// converts reports whether servers change in a way in which no pod may be made anew.
func converts(c *v1beta2.FoundationDBCluster) bool {
	return foundationdb.UpgradesIncompatibly(c) || foundationdb.ConvertsTLS(c)
}

// marking is the act of marking groups for removal. The status is saved.
func marking(name string, ids, skipExclusion []v1beta2.ProcessGroupID) act {
	return saving(name, names(ids), func(p *pass) {
		for _, id := range ids {
			p.ours.Mark(id, false, p.now)
		}
		for _, id := range skipExclusion {
			p.ours.Mark(id, true, p.now)
		}
	})
}

// growths are the claims that are to grow next, and how many are smaller than they should be.
func (p *pass) growths() (next []groups.Growth, left int) {
	return groups.Growths(p.cluster, p.pods, p.member, p.memory.fixed)
}

// growing is the act of letting claims grow. Where their class does not allow it, their groups are
// replaced by the next pass.
func growing(all []groups.Growth) act {
	return act{
		Name: "grow claim", Targets: texts(all, func(g groups.Growth) string { return g.Claim.Name }),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, all, "ClaimNotGrown", func(g groups.Growth) error {
				patch, err := json.Marshal(map[string]any{
					"metadata": metadataPatch(nil, map[string]string{foundationdb.SpecAnnotation: g.Hash}),
					"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": g.Size.String()}}},
				})
				if err != nil {
					return err
				}
				err = p.patch(ctx, g.Claim, patch)
				if err != nil && !fault.Of(err).Uncharged {
					p.memory.fixed[groups.StorageClass(g.Claim)] = true
				}
				return err
			})
		},
	}
}
