package clusters

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/locks"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"
	"github.com/pawl-dev/pawl/outcome"
)

// bounceProcesses restarts servers whose arguments or version have changed: all at once, so that there
// is one recovery.
func bounceProcesses(p *pass) decision {
	if !*p.cluster.Spec.AutomationOptions.KillProcesses || !p.cluster.Status.Configured {
		return decision{}
	}
	r := p.servers().Restart()
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	if len(r.Groups) == 0 {
		if len(r.Nameless) > 0 {
			return later(startAgain, "AddressUnknown", "%s report no address", some(r.Nameless))
		}
		if dead, ok := p.servers().DeadTesters(p.limits); ok {
			return acts(outcome.Done(), locked(killing(dead, false)))
		}
		return decision{}
	}
	// Until it is finished nothing works, so that no gate opens; but what works, or recovers, must not lose a part of its
	// servers, and those that are left behind by a version that they do not speak nobody reaches any more.
	waited := min(p.unavailableFor(), p.now.Sub(r.Last))
	if upgrade && upgrades.Begun(p.servers()) && (len(r.Behind) == 0 || waited >= recoveryWait) {
		return acts(outcome.Later(startAgain, "ServersRestart", "%s have not restarted with the others", some(r.Groups)), locked(killing(r, true)))
	}
	if wait := p.limits.WithDefaults().BounceSyncWait; len(r.Behind) > 0 && (upgrade || p.now.Sub(r.Since) < wait) {
		return later(startAgain, "PodConfigNotSynced", "%s restart together with %s, which do not have their files yet", some(r.Groups), some(r.Behind))
	}
	if upgrade {
		if reason, message := upgrades.Waits(p.servers(), p.desired); reason != "" {
			return later(startAgain, reason, "%s", message)
		}
	}
	if v := p.open(fdb.GateBounce); !v.Open {
		return closed(v, startAgain)
	}
	out := outcome.Later(startAgain, "ServersRestart", "the next status tells whether %s have restarted", some(r.Groups))
	if len(r.Nameless) > 0 {
		out = outcome.Later(startAgain, "AddressUnknown", "%s report no address", some(r.Nameless))
	}
	if upgrade && locks.Used(p.cluster) {
		return acts(out, registering(r), locked(upgrading(r, p.desired)))
	}
	if locks.Global(p.cluster) {
		return acts(out, p.together(fdb.Restart, "restart the servers of", r.Groups, killTogether))
	}
	return acts(out, locked(killing(r, upgrade)))
}

// killing is the act of restarting servers. Whether they did, only the next status tells.
func killing(r servers.Restart, upgrade bool) act {
	return act{
		Name: "restart the servers of", Targets: r.Groups,
		Assume: func(p *pass) {
			for _, id := range r.Groups {
				p.ours.Drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectCommandLine, p.now)
			}
			if upgrade {
				p.assumeUpgraded()
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			p.event("ServersRestart", "%s: their arguments or their version have changed", some(r.Groups))
			p.disturb("restart")
			if desired, err := fdb.ParseVersion(p.desired); upgrade && err == nil {
				p.memory.tools.Answers = desired
			}
			result := p.run(ctx, fdb.Kill(r.Addresses, upgrade))
			if result.Outcome == fdb.Refused {
				return outcome.Later(startAgain, reasonOf(result), "kill %d servers: %s", len(r.Addresses), result)
			}
			return outcome.Done()
		},
	}
}

// assumeUpgraded has all servers run the desired version in a plan: pods are to be made anew with its images, but for
// those whose groups are replaced.
func (p *pass) assumeUpgraded() {
	p.cluster.Status.RunningVersion = p.desired
	p.pods = foundationdb.WantedOf(p.cluster)
	p.keepClaims()
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		id, pod := g.ProcessGroupID, p.member(g.ProcessGroupID).Pod
		if pod == nil || foundationdb.ReplacesPods(p.cluster.Spec, classOf(g)) {
			continue
		}
		if want, err := p.pods.PodHash(p.ids[id]); err == nil && pod.Annotations[foundationdb.SpecAnnotation] != want {
			p.ours.Add(id, v1beta2.IncorrectPodSpec, p.now)
		}
	}
}

// killTogether servers.Restarts the servers of groups of all operators.
func killTogether(ctx context.Context, p *pass, groups []string, _ map[string][]string) outcome.Outcome {
	all := servers.Restart{Groups: groups}
	for _, process := range p.status.Cluster.Processes {
		if process.Class != fdb.ClassTest && process.Address != (fdb.Address{}) && slices.Contains(groups, process.Locality[fdb.InstanceLocality]) {
			all.Addresses = append(all.Addresses, process.Address)
		}
	}
	return killing(all, false).Do(ctx, p)
}

// registering tells the other operators of the database which groups are ready for an upgrade.
func registering(r servers.Restart) act {
	return act{
		Name: "register for the upgrade", Targets: r.Groups,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if result := p.locks().Register(ctx, p.desired, r.Groups); result.Outcome != fdb.Ok {
				return outcome.Later(startAgain, reasonOf(result), "the upgrade could not be registered: %s", result)
			}
			return outcome.Done()
		},
	}
}

// upgrading restarts all servers of the database, also those of other operators, once all are registered.
func upgrading(r servers.Restart, version string) act {
	return act{
		Name:    "restart all servers of the database with version",
		Targets: []string{version},
		Assume:  (*pass).assumeUpgraded,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			missing, result := p.locks().Upgrade(ctx, p.desired, func(listed map[string]bool) []string {
				return upgrades.Unregistered(p.servers(), p.desired, listed)
			})
			switch {
			case result.Outcome != fdb.Ok:
				return outcome.Later(startAgain, reasonOf(result), "the list of the upgrade could not be read: %s", result)
			case len(missing) > 0:
				return outcome.Later(startAgain, "UpgradeWaitsForOthers", "%s are not ready for version %s", some(missing), p.desired)
			}
			all := r
			all.Addresses = nil
			for _, process := range p.status.Cluster.Processes {
				if process.Class != fdb.ClassTest && process.Address != (fdb.Address{}) {
					all.Addresses = append(all.Addresses, process.Address)
				}
			}
			return killing(all, true).Do(ctx, p)
		},
	}
}
