package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/outcome"
)

const reasonMaintenance = "MaintenanceWaits"

// checkMaintenance ends the maintenance of a zone once its servers have restarted, and tidies the list
// of groups that operators share.
func checkMaintenance(p *pass) decision {
	options := p.cluster.Spec.AutomationOptions.MaintenanceModeOptions
	zone := p.status.Cluster.MaintenanceZone
	if !*options.ResetMaintenanceMode || !p.cluster.Status.Configured || zone == "" && len(p.cluster.Status.MaintenanceModeInfo.ProcessGroups) == 0 {
		return decision{}
	}
	if v := p.open(fdb.GateMaintenanceOff); !v.Open {
		return closed(v, startAgain)
	}
	return acts(outcome.Done(), locked(act{
		Name: "look after the maintenance of", Targets: []string{zone},
		Assume: func(p *pass) { p.status.Cluster.MaintenanceZone = "" },
		Do:     func(ctx context.Context, p *pass) outcome.Outcome { return p.tidyMaintenance(ctx, zone) },
	}))
}

// tidyMaintenance drops the entries of the list that are finished or stale, and ends the maintenance
// when nothing is waited for.
func (p *pass) tidyMaintenance(ctx context.Context, zone string) outcome.Outcome {
	var groups []string
	for id := range p.ours {
		groups = append(groups, string(id))
	}
	verdict, result := p.locks().TidyMaintenance(ctx, func(entries map[string]time.Time) fdb.MaintenanceVerdict {
		return fdb.JudgeMaintenance(entries, zone, p.cluster.Spec.ProcessGroupIDPrefix, groups, p.status, p.now, p.limits)
	})
	switch {
	case result.Outcome != fdb.Ok:
		return outcome.Later(startAgain, reasonOf(result), "the maintenance list could not be read: %s", result)
	case len(verdict.Waiting) > 0:
		return outcome.Later(startAgain, reasonMaintenance, "%s have not restarted yet", some(verdict.Waiting))
	case zone == "":
		p.cluster.Status.MaintenanceModeInfo.ProcessGroups = nil
		return outcome.Done()
	}
	if result := p.run(ctx, fdb.MaintenanceOff()); result.Outcome != fdb.Ok {
		return outcome.Later(startAgain, reasonOf(result), "maintenance off: %s", result)
	}
	p.status.Cluster.MaintenanceZone = ""
	p.cluster.Status.MaintenanceModeInfo.StartTimestamp, p.cluster.Status.MaintenanceModeInfo.ZoneID, p.cluster.Status.MaintenanceModeInfo.ProcessGroups = nil, "", nil
	p.event("MaintenanceEnded", "zone %s", zone)
	return outcome.Done()
}

// beginMaintenance enters the storage groups of a zone into the list, and then puts it under maintenance.
func (p *pass) beginMaintenance(ctx context.Context, zone string, groups []string) outcome.Outcome {
	if result := p.locks().Maintain(ctx, groups); result.Outcome != fdb.Ok {
		return outcome.Later(startAgain, reasonOf(result), "the maintenance list could not be written: %s", result)
	}
	length := time.Duration(*p.cluster.Spec.AutomationOptions.MaintenanceModeOptions.MaintenanceModeTimeSeconds) * time.Second
	if result := p.run(ctx, fdb.MaintenanceOn(zone, length)); result.Outcome != fdb.Ok {
		return outcome.Later(startAgain, reasonOf(result), "maintenance on %s: %s", zone, result)
	}
	at := metaTime(p.now)
	info := &p.cluster.Status.MaintenanceModeInfo
	info.StartTimestamp, info.ZoneID, info.ProcessGroups = &at, zone, groups
	p.event("MaintenanceBegun", "zone %s for %s", zone, length)
	return outcome.Fail(p.save(ctx))
}
