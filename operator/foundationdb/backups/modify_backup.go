package backups

import (
	"fmt"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
)

// modifyBackup gives a continuous backup that runs its period and its place.
func modifyBackup(p *pass) chain.Decision[*pass] {
	if !p.heard() || !p.wish().Modify {
		return nothing()
	}
	if p.credentials != "" && !p.agentsKnowCredentials() {
		return blocked(AgentsUnauthenticated.Errorf("spec.blobStoreConfiguration.accountName holds a secret"))
	}
	return decided(effect{
		name: "modify backup", target: p.tag(), call: fdb.ModifyBackup(p.described()),
		event: "BackupModified", told: fmt.Sprintf("the backup %s takes a snapshot every %d s to %s", p.tag(), p.period(), p.url),
		assume: func(p *pass) {
			p.live.URL, p.live.SnapshotPeriodSeconds = p.url, p.period()
			p.observe()
		},
	})
}
