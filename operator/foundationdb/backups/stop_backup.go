package backups

import (
	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
)

// stopBackup lets a backup that is not wanted end at its next restorable version.
func stopBackup(p *pass) chain.Decision[*pass] {
	if !p.heard() || p.wish().Run || !p.live.State.Running() || p.live.State == fdb.BackupAborting {
		return nothing()
	}
	return decided(effect{
		name: "stop backup", target: p.tag(), call: fdb.DiscontinueBackup(p.tag()),
		event: "BackupStopped", told: "the backup " + p.tag() + " ends at its next restorable version",
		assume: func(p *pass) {
			p.live.State = fdb.BackupCompleted
			p.observe()
		},
	})
}
