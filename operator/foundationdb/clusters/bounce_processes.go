package clusters

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// restart is what a restart of servers would do.
type restart struct {
	addresses []fdb.Address
	groups    []string // that are restarted
	behind    []string // that would be, and do not have their files yet
	nameless  []string // that would be, and report no address
	since     time.Time
}

// bounceProcesses restarts servers whose arguments or version have changed: all at once, so that there
// is one recovery.
func bounceProcesses(p *pass) decision {
	if !*p.cluster.Spec.AutomationOptions.KillProcesses || !p.cluster.Status.Configured {
		return decision{}
	}
	r := p.restart()
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	if len(r.groups) == 0 {
		if len(r.nameless) > 0 {
			return later(startAgain, "AddressUnknown", "%s report no address", some(r.nameless))
		}
		return p.deadTesters()
	}
	if upgrade && p.restartBegun() { // until it is finished nothing works, so that no gate opens
		return acts(outcome.Later(startAgain, "ServersRestart", "%s have not restarted with the others", some(r.groups)), locked(p.killing(r, true)))
	}
	if wait := p.limits.WithDefaults().BounceSyncWait; len(r.behind) > 0 && (upgrade || p.now.Sub(r.since) < wait) {
		return later(startAgain, "PodConfigNotSynced", "%s restart together with %s, which do not have their files yet", some(r.groups), some(r.behind))
	}
	if upgrade {
		if d, ok := p.allUpgradable(); !ok {
			return d
		}
	}
	if v := p.open(fdb.GateBounce); !v.Open {
		return closed(v, startAgain)
	}
	out := outcome.Later(startAgain, "ServersRestart", "the next status tells whether %s have restarted", some(r.groups))
	if len(r.nameless) > 0 {
		out = outcome.Later(startAgain, "AddressUnknown", "%s report no address", some(r.nameless))
	}
	if upgrade && p.usesLock() {
		return acts(out, p.registering(r), locked(p.upgrading(r)))
	}
	if p.global() {
		return acts(out, p.together(fdb.Restart, "restart the servers of", r.groups, killTogether))
	}
	return acts(out, locked(p.killing(r, upgrade)))
}

// restartBegun reports whether the database is not available because some of its servers speak the protocol of the
// new version already, and others not yet: a restart has reached some of them only.
func (p *pass) restartBegun() bool {
	if p.cluster.Status.Health.Available || p.status.Client.DatabaseStatus.Available == nil {
		return false
	}
	return slices.ContainsFunc(p.status.Cluster.IncompatibleConnections, func(text string) bool {
		a, err := fdb.ParseAddress(text)
		return err == nil && !p.reportsAt(a) && p.groupAt(a) != nil
	})
}

// restart finds out what is to be restarted.
func (p *pass) restart() restart {
	rule := foundationdb.RestartRule(p.cluster)
	upgrade := foundationdb.UpgradesIncompatibly(p.cluster)
	var r restart
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if g.Marked() && !upgrade || foundationdb.IgnoredAtRestart(*g, p.cluster.Spec, p.now) {
			continue
		}
		at, behind := g.Since(v1beta2.IncorrectConfigMap)
		if upgrade && !behind { // without the new binary its servers would stay what they are
			at, behind = g.Since(v1beta2.IncorrectSidecarImage)
		}
		if behind && (!g.Marked() || len(p.processes[g.ProcessGroupID]) > 0) {
			r.behind = append(r.behind, string(g.ProcessGroupID))
			if r.since.IsZero() || at.Before(r.since) {
				r.since = at
			}
			continue
		}
		if !fits(g, rule) {
			continue
		}
		if addresses := p.reported(g); len(addresses) > 0 {
			r.addresses = append(r.addresses, addresses...)
			r.groups = append(r.groups, string(g.ProcessGroupID))
		} else {
			r.nameless = append(r.nameless, string(g.ProcessGroupID))
		}
	}
	return r
}

// fits reports whether a group has the conditions that must be there, and none that must not.
func fits(g *v1beta2.ProcessGroupStatus, rule map[v1beta2.ProcessGroupConditionType]bool) bool {
	for condition, there := range rule {
		if g.Has(condition) != there {
			return false
		}
	}
	return true
}

// reported are the addresses at which the servers of a group report, one each.
func (p *pass) reported(g *v1beta2.ProcessGroupStatus) []fdb.Address {
	var found []fdb.Address
	for _, process := range p.processes[g.ProcessGroupID] {
		if process.Address != (fdb.Address{}) && !slices.Contains(found, process.Address) {
			found = append(found, process.Address)
		}
	}
	return found
}

// killing is the act of restarting servers. Whether they did, only the next status tells.
func (p *pass) killing(r restart, upgrade bool) act {
	return act{
		Name: "restart the servers of", Targets: r.groups,
		Assume: func(p *pass) {
			for _, id := range r.groups {
				p.drop(v1beta2.ProcessGroupID(id), v1beta2.IncorrectCommandLine)
			}
			if upgrade {
				p.assumeUpgraded()
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			p.event("ServersRestart", "%s: their arguments or their version have changed", some(r.groups))
			p.disturb("restart")
			if desired, err := fdb.ParseVersion(p.desired); upgrade && err == nil {
				p.memory.answers = desired
			}
			result := p.run(ctx, fdb.Kill(r.addresses, upgrade))
			if result.Outcome == fdb.Refused {
				return outcome.Later(startAgain, reasonOf(result), "kill %d servers: %s", len(r.addresses), result)
			}
			return outcome.Done()
		},
	}
}

// assumeUpgraded has all servers run the desired version in a plan: pods are to be made anew with its images, but for
// those whose groups are replaced.
func (p *pass) assumeUpgraded() {
	p.cluster.Status.RunningVersion, p.upgrades = p.desired, false
	p.pods = foundationdb.WantedOf(p.cluster)
	p.keepClaims()
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		id, pod := g.ProcessGroupID, p.member(g.ProcessGroupID).pod
		if pod == nil || foundationdb.ReplacesPods(p.cluster.Spec, classOf(g)) {
			continue
		}
		if want, err := p.pods.PodHash(p.ids[id]); err == nil && pod.Annotations[foundationdb.SpecAnnotation] != want {
			p.add(id, v1beta2.IncorrectPodSpec)
		}
	}
}

// killTogether restarts the servers of groups of all operators.
func killTogether(ctx context.Context, p *pass, groups []string, _ map[string][]string) outcome.Outcome {
	all := restart{groups: groups}
	for _, process := range p.status.Cluster.Processes {
		if process.Class != fdb.ClassTest && process.Address != (fdb.Address{}) && slices.Contains(groups, process.Locality[fdb.InstanceLocality]) {
			all.addresses = append(all.addresses, process.Address)
		}
	}
	return p.killing(all, false).Do(ctx, p)
}

// allUpgradable reports whether all servers can restart now: those of groups that are to go too, and as many of
// each pod as it was made with.
func (p *pass) allUpgradable() (decision, bool) {
	expected, ready := 0, 0
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if foundationdb.IgnoredAtRestart(*g, p.cluster.Spec, p.now) {
			continue
		}
		servers := foundationdb.ServersPerPod(p.cluster.Spec, classOf(g))
		if pod := p.member(g.ProcessGroupID).pod; pod != nil {
			servers = foundationdb.ServersIn(pod)
		}
		expected += servers
		ready += min(servers, len(p.reported(g)))
	}
	for _, process := range p.status.Cluster.Processes {
		if process.Class != fdb.ClassTest && (process.Address == (fdb.Address{}) || process.Version == "" || process.CommandLine == "") {
			return later(startAgain, fdb.StatusIncomplete, "a server reports without address, version or arguments, and none may be left behind"), false
		}
	}
	if ready < expected {
		return later(startAgain, "UpgradeWaitsForServers", "%d of %d servers are ready for version %s", ready, expected, p.desired), false
	}
	return decision{}, true
}

// registering tells the other operators of the database which groups are ready for an upgrade.
func (p *pass) registering(r restart) act {
	return act{
		Name: "register for the upgrade", Targets: r.groups,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			at, err := p.endpoint()
			if err != nil {
				return outcome.Later(startAgain, fdb.DatabaseSilent, "%v", err)
			}
			keys := fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix)
			result := p.database.Transact(ctx, at, []fdb.Range{keys.Upgrades(p.desired)}, func(values fdb.Values) ([]fdb.Write, error) {
				var writes []fdb.Write
				for _, id := range r.groups {
					key := keys.Upgrade(p.desired, id)
					if _, there := values.Get(key); !there {
						writes = append(writes, fdb.Set(key, []byte(id)))
					}
				}
				return writes, nil
			})
			if result.Outcome != fdb.Ok {
				return outcome.Later(startAgain, reasonOf(result), "the upgrade could not be registered: %s", result)
			}
			return outcome.Done()
		},
	}
}

// upgrading restarts all servers of the database, also those of other operators, once all are registered.
func (p *pass) upgrading(r restart) act {
	return act{
		Name:    "restart all servers of the database with version",
		Targets: []string{p.desired},
		Assume:  (*pass).assumeUpgraded,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			at, err := p.endpoint()
			if err != nil {
				return outcome.Later(startAgain, fdb.DatabaseSilent, "%v", err)
			}
			keys := fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix)
			var missing []string
			result := p.database.Transact(ctx, at, []fdb.Range{keys.Upgrades(p.desired)}, func(values fdb.Values) ([]fdb.Write, error) {
				listed := map[string]bool{}
				for _, entry := range values {
					listed[fdb.GroupOf(entry.Key)] = true
				}
				if missing = p.unregistered(listed); len(missing) > 0 {
					return nil, nil
				}
				return []fdb.Write{fdb.Clear(keys.Upgrades(p.desired))}, nil
			})
			switch {
			case result.Outcome != fdb.Ok:
				return outcome.Later(startAgain, reasonOf(result), "the list of the upgrade could not be read: %s", result)
			case len(missing) > 0:
				return outcome.Later(startAgain, "UpgradeWaitsForOthers", "%s are not ready for version %s", some(missing), p.desired)
			}
			all := r
			all.addresses = nil
			for _, process := range p.status.Cluster.Processes {
				if process.Class != fdb.ClassTest && process.Address != (fdb.Address{}) {
					all.addresses = append(all.addresses, process.Address)
				}
			}
			return p.killing(all, true).Do(ctx, p)
		},
	}
}

// unregistered are the groups whose servers are not at the version yet and that nobody has registered.
func (p *pass) unregistered(listed map[string]bool) []string {
	var missing []string
	for _, process := range p.status.Cluster.Processes {
		id := process.Locality[fdb.InstanceLocality]
		if process.Class == fdb.ClassTest || process.Version == p.desired || listed[id] {
			continue
		}
		if id == "" {
			id = fmt.Sprint(process.Address)
		}
		missing = append(missing, id)
	}
	return missing
}

// deadTesters restarts the cluster controller where it still shows testers that are gone.
func (p *pass) deadTesters() decision {
	running, err := fdb.ParseVersion(p.cluster.Status.RunningVersion)
	if err != nil || running.Has(fdb.FeatureDeadTesters) || fdb.MinimumUptime(p.status, running) < p.limits.WithDefaults().ControllerUptime {
		return decision{}
	}
	unreachable := map[fdb.Address]bool{}
	for _, message := range p.status.Cluster.Messages {
		for _, one := range message.UnreachableProcesses {
			unreachable[one.Address] = true
		}
	}
	for _, process := range p.status.Cluster.Processes {
		if process.Class != fdb.ClassTest || !unreachable[process.Address] {
			continue
		}
		for _, controller := range p.status.Cluster.Processes {
			for _, role := range controller.Roles {
				if role.Role == "cluster_controller" && controller.Address != (fdb.Address{}) {
					r := restart{addresses: []fdb.Address{controller.Address}, groups: []string{controller.Locality[fdb.InstanceLocality]}}
					return acts(outcome.Done(), locked(p.killing(r, false)))
				}
			}
		}
	}
	return decision{}
}
