package clusters

import "github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/upgrades"

// checkClientCompatibility reports an upgrade that waits for its clients. It was held when the pass
// began, so that all is judged by the version that holds: replacements and removals go on.
func checkClientCompatibility(p *pass) decision {
	if p.held.Reason == "" {
		return decision{}
	}
	return later(p.held.Again, p.held.Reason, "%s", p.held.Message)
}

// holdUpgrade keeps the running version for this pass while an upgrade is held back.
func (p *pass) holdUpgrade() {
	hold, held := upgrades.Judge(p.servers(), p.desired, p.database.Versions)
	if hold.Reason != "" {
		p.held = hold
	}
	if held {
		p.cluster.Spec.Version = p.cluster.Status.RunningVersion
	}
}
