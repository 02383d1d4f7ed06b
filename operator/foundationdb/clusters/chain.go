package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/outcome"
)

type (
	decision = chain.Decision[*pass]
	act      = chain.Act[*pass]
)

// cluster is the chain. Links that are wrapped in heard change nothing while the database is silent.
var cluster = chain.Chain[*pass]{
	{Name: "UpdateStatus", Decide: updateStatus},
	{Name: "UpdateLockConfiguration", Decide: heard(updateLockConfiguration)},
	{Name: "UpdateConfigMap", Decide: updateConfigMap},
	{Name: "CheckClientCompatibility", Decide: heard(checkClientCompatibility)},
	{Name: "DeletePodsForBuggification", Decide: deletePodsForBuggification},
	{Name: "DeleteTerminalPods", Decide: deleteTerminalPods},
	{Name: "ReplaceMisconfiguredProcessGroups", Decide: heard(replaceMisconfigured)},
	{Name: "ReplaceFailedProcessGroups", Decide: heard(replaceFailed)},
	{Name: "AddProcessGroups", Decide: heardOnceConfigured(addProcessGroups)},
	{Name: "AddServices", Decide: addServices},
	{Name: "AddPVCs", Decide: addPVCs},
	{Name: "AddPods", Decide: addPods},
	{Name: "GenerateInitialClusterFile", Decide: generateInitialClusterFile},
	{Name: "RemoveIncompatibleProcesses", Decide: heard(removeIncompatibleProcesses)},
	{Name: "UpdateSidecarVersions", Decide: updateSidecarVersions},
	{Name: "UpdatePodConfig", Decide: withStaleClusterFiles(updatePodConfig)},
	{Name: "UpdateLabels", Decide: updateLabels},
	{Name: "UpdateDatabaseConfiguration", Decide: heard(updateDatabaseConfiguration)},
	{Name: "ChooseRemovals", Decide: heard(chooseRemovals)},
	{Name: "ExcludeProcesses", Decide: heard(excludeProcesses)},
	{Name: "ChangeCoordinators", Decide: orMoved(heard(changeCoordinators))},
	{Name: "BounceProcesses", Decide: heard(bounceProcesses)},
	{Name: "CheckMaintenance", Decide: heard(checkMaintenance)},
	{Name: "UpdatePods", Decide: heard(updatePods)},
	{Name: "RemoveProcessGroups", Decide: heard(removeProcessGroups)},
	{Name: "RemoveServices", Decide: removeServices},
	{Name: "UpdateStatus", Decide: concludeStatus},
}

// refused is the chain of a cluster whose spec is refused: pods of existing groups come back.
var refused = chain.Chain[*pass]{
	{Name: "UpdateStatus", Decide: updateStatus},
	{Name: "AddPVCs", Decide: addPVCs},
	{Name: "AddPods", Decide: addPods},
}

// beforeActs are the links that act on the database by what its status says.
var beforeActs = map[string]bool{
	"UpdateDatabaseConfiguration": true, "ExcludeProcesses": true, "ChangeCoordinators": true, "BounceProcesses": true, "UpdatePods": true,
	"RemoveProcessGroups": true,
}

// rereading is a chain that reads the status anew before each of these links, as
// cacheDatabaseStatusForReconciliation: false asks for.
func rereading(links chain.Chain[*pass]) chain.Chain[*pass] {
	var all chain.Chain[*pass]
	for _, link := range links {
		if beforeActs[link.Name] {
			all = append(all, chain.Sub[*pass]{Name: "ReadStatus", Run: readStatus})
		}
		all = append(all, link)
	}
	return all
}

func readStatus(ctx context.Context, p *pass) outcome.Outcome {
	p.gatherStatus(ctx)
	p.observe()
	return outcome.Done()
}

// cached reports whether the passes of a cluster read the status once.
func cached(c *v1beta2.FoundationDBCluster, o Options) bool {
	if cache := c.Spec.AutomationOptions.CacheDatabaseStatusForReconciliation; cache != nil {
		return *cache
	}
	return !o.NoStatusCache
}

// heard keeps a link from judging while the database does not answer.
func heard(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		switch {
		case p.cluster.Status.ConnectionString == "": // there is nothing to hear yet
			return decision{}
		case p.status == nil:
			return later(silentAgain, p.silenceReason, "%s", p.silence)
		}
		return decide(p)
	}
}

// heardOnceConfigured is heard for a link that also works before there is a database.
func heardOnceConfigured(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		if !p.cluster.Status.Configured {
			return decide(p)
		}
		return heard(decide)(p)
	}
}

// When a link is looked at again.
const (
	silentAgain  = 10 * time.Second
	startAgain   = 15 * time.Second
	upgradeAgain = 5 * time.Second
	replaceAgain = 5 * time.Minute
	lockAgain    = 10 * time.Second
	settleAgain  = 10 * time.Second
	removalAgain = 30 * time.Second
	clientsAgain = time.Minute
)

func later(after time.Duration, reason, format string, args ...any) decision {
	return decision{Outcome: outcome.Later(after, reason, format, args...)}
}

func waits(after time.Duration, reason, format string, args ...any) decision {
	return decision{Outcome: outcome.Wait(after, reason, format, args...)}
}

// acts returns a decision to do something and then report an outcome.
func acts(out outcome.Outcome, list ...act) decision { return decision{Acts: list, Outcome: out} }
