package backups

import (
	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
)

// toggleBackupPaused has all agents of the cluster rest, or go on. It refuses to pause what other backups need.
func toggleBackupPaused(p *pass) chain.Decision[*pass] {
	if !p.heard() {
		return nothing()
	}
	if p.pauseRefused() {
		return blocked(PauseRefused.Errorf("the backups %s of the cluster %s want to run", list(p.running()), p.backup.Spec.ClusterName))
	}
	rests := p.wish().Pause
	if rests == p.live.Paused {
		return nothing()
	}
	e := effect{
		name: "resume backups", target: p.backup.Spec.ClusterName, call: fdb.ResumeBackups(),
		event: "BackupsResumed", told: "resumed the agents of the cluster " + p.backup.Spec.ClusterName,
		assume: func(p *pass) {
			p.live.Paused = rests
			p.observe()
		},
	}
	if rests {
		e.name, e.call = "pause backups", fdb.PauseBackups()
		e.event, e.told = "BackupsPaused", "paused the agents of the cluster "+p.backup.Spec.ClusterName
	}
	return decided(e)
}
