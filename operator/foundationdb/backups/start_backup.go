package backups

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// startBackup starts a backup that is wanted and does not run.
func startBackup(p *pass) chain.Decision[*pass] {
	if !p.heard() || !p.wish().Run || p.live.State.Running() {
		return nothing()
	}
	if p.credentials != "" && !p.agentsKnowCredentials() {
		return blocked(AgentsUnauthenticated.Errorf("spec.blobStoreConfiguration.accountName holds a secret"))
	}
	wanted := p.described()
	return decided(effect{
		name: "start backup", target: p.tag(), call: fdb.StartBackup(wanted),
		event: "BackupStarted", told: "started the backup " + p.tag() + " to " + p.url,
		assume: func(p *pass) {
			p.live.State, p.live.URL, p.live.SnapshotPeriodSeconds = fdb.BackupSubmitted, p.url, p.period()
			p.observe()
		},
	})
}

// heard reports whether the backup is started and stopped by us, and the database has said what it does.
func (f *facts) heard() bool { return f.managed() && f.silence == nil }

// described is the backup as the tools are told.
func (f *facts) described() fdb.Backup {
	s := f.backup.Spec
	return fdb.Backup{
		Tag: f.tag(), URL: f.url, SnapshotPeriodSeconds: f.period(), OneTime: s.BackupMode == v1beta2.BackupOneTime,
		PartitionedLog: s.BackupType == v1beta2.BackupTypePartitionedLog, EncryptionKeyPath: s.EncryptionKeyPath,
	}
}

func (f *facts) period() int {
	if period := f.backup.Spec.SnapshotPeriodSeconds; period != nil {
		return *period
	}
	return fdb.DefaultSnapshotPeriod
}

// agentsKnowCredentials reports whether the template gives the agents a credentials file: the URL in the database has
// no secret. What comes from elsewhere (envFrom) is believed.
func (f *facts) agentsKnowCredentials() bool {
	for _, p := range f.backup.Spec.CustomParameters {
		if strings.ReplaceAll(fdb.ParameterName(string(p)), "-", "_") == "blob_credentials" {
			return true
		}
	}
	if f.wanted == nil {
		return f.agentCount() == 0 // others run agents
	}
	for _, c := range f.wanted.Spec.Template.Spec.Containers {
		if c.Name == mainContainer {
			return len(c.EnvFrom) > 0 || hasEnv(c.Env, "FDB_BLOB_CREDENTIALS")
		}
	}
	return false
}

func hasEnv(env []corev1.EnvVar, name string) bool {
	for _, e := range env {
		if e.Name == name {
			return true
		}
	}
	return false
}
