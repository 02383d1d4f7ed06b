package foundationdb

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestBackupWish(t *testing.T) {
	const url = "blobstore://seaweedfs@seaweedfs:8333/nightly?bucket=fdb-backups&secure_connection=0"
	type generations = v1beta2.BackupGenerationStatus
	for name, x := range map[string]struct {
		spec, details string
		want          string // r: run, p: pause, m: modify
		generations   generations
	}{
		"new":                                {``, ``, "r", generations{NeedsBackupStart: 3}},
		"running":                            {``, `running: true`, "r", generations{}},
		"to be stopped":                      {`backupState: Stopped`, `running: true`, "", generations{NeedsBackupStop: 3}},
		"stopped":                            {`backupState: Stopped`, ``, "", generations{}},
		"to be paused":                       {`backupState: Paused`, `running: true`, "rp", generations{NeedsBackupPauseToggle: 3}},
		"paused":                             {`backupState: Paused`, `{running: true, paused: true}`, "rp", generations{}},
		"to be started and paused":           {`backupState: Paused`, ``, "rp", generations{NeedsBackupStart: 3, NeedsBackupPauseToggle: 3}},
		"to be resumed":                      {`backupState: Running`, `{running: true, paused: true}`, "r", generations{NeedsBackupPauseToggle: 3}},
		"another period":                     {`snapshotPeriodSeconds: 3600`, `{running: true, snapshotTime: 3601}`, "rm", generations{NeedsBackupModification: 3}},
		"the default period":                 {``, `{running: true, snapshotTime: 864000}`, "r", generations{}},
		"another period than the default":    {``, `{running: true, snapshotTime: 863999}`, "rm", generations{NeedsBackupModification: 3}},
		"the same URL":                       {``, `{running: true, url: "` + url + `"}`, "r", generations{}},
		"another URL":                        {``, `{running: true, url: "` + url + `&x=1"}`, "rm", generations{NeedsBackupModification: 3}},
		"another URL of a stopped one":       {`backupState: Stopped`, `{running: true, url: "` + url + `&x=1"}`, "", generations{NeedsBackupStop: 3}},
		"another URL, not running":           {``, `{url: "` + url + `&x=1", snapshotTime: 1}`, "r", generations{NeedsBackupStart: 3}},
		"a secret is no difference":          {`blobStoreConfiguration: {accountName: "seaweedfs:secret@seaweedfs:8333", urlParameters: [secure_connection=0]}`, `{running: true, url: "` + url + `"}`, "r", generations{}},
		"no URL can be made":                 {`blobStoreConfiguration: {accountName: nowhere}`, `{running: true, url: "` + url + `"}`, "r", generations{}},
		"once, new":                          {`backupMode: oneTime`, ``, "r", generations{NeedsBackupStart: 3}},
		"once, running and restorable":       {`backupMode: oneTime`, `{running: true, restorable: true}`, "r", generations{}},
		"once, ended":                        {`backupMode: oneTime`, `{restorable: true, url: "` + url + `"}`, "", generations{}},
		"once, ended, no URL told":           {`backupMode: oneTime`, `restorable: true`, "", generations{}},
		"once, ended without being complete": {`backupMode: oneTime`, `url: "` + url + `"`, "r", generations{NeedsBackupStart: 3}},
		"once, and another one of its tag":   {`backupMode: oneTime`, `{restorable: true, url: "blobstore://a@b:1/c?bucket=d"}`, "r", generations{NeedsBackupStart: 3}},
		"once, never modified":               {`{backupMode: oneTime, snapshotPeriodSeconds: 1}`, `{running: true, snapshotTime: 2}`, "r", generations{}},
		"continuous, ended":                  {`backupMode: continuous`, `restorable: true`, "r", generations{NeedsBackupStart: 3}},
		"unmanaged":                          {`backupType: unmanaged`, `{running: true, paused: true, snapshotTime: 1}`, "", generations{}},
		"unmanaged, agents":                  {`{backupType: unmanaged, agentCount: 3}`, ``, "", generations{NeedsBackupAgentUpdate: 3}},
		"agents":                             {`agentCount: 3`, `running: true`, "r", generations{NeedsBackupAgentUpdate: 3}},
		"no agents":                          {`agentCount: 0`, `running: true`, "r", generations{NeedsBackupAgentUpdate: 3}},
		"two agents are the default":         {`agentCount: 2`, `running: true`, "r", generations{}},
	} {
		b := &v1beta2.FoundationDBBackup{}
		b.Name, b.Generation = "nightly", 3
		b.Spec.BlobStoreConfiguration = &v1beta2.BlobStoreConfiguration{AccountName: "seaweedfs@seaweedfs:8333", URLParameters: []v1beta2.URLParameter{"secure_connection=0"}}
		b.Status = v1beta2.FoundationDBBackupStatus{AgentCount: 2, DeploymentConfigured: true, Generations: generations{Reconciled: 2, NeedsBackupStop: 2}}
		if err := yaml.UnmarshalStrict([]byte(x.spec), &b.Spec); err != nil {
			t.Fatal(err)
		}
		if x.details != "" {
			b.Status.BackupDetails = &v1beta2.BackupDetails{}
			if err := yaml.UnmarshalStrict([]byte(x.details), b.Status.BackupDetails); err != nil {
				t.Fatal(err)
			}
		}
		v := BackupWish(b)
		got := ""
		if v.Run {
			got += "r"
		}
		if v.Pause {
			got += "p"
		}
		if v.Modify {
			got += "m"
		}
		reconciled := x.generations == generations{}
		x.generations.Reconciled = 2
		if reconciled {
			x.generations.Reconciled = 3
		}
		equal(t, name, got, x.want)
		equal(t, name+", generations", v.Generations, x.generations)
		equal(t, name+", reconciled", v.Reconciled, reconciled)
	}

	b := &v1beta2.FoundationDBBackup{}
	b.Generation, b.Spec.BackupState, b.Status.AgentCount = 1, v1beta2.BackupStopped, 2
	if v := BackupWish(b); v.Generations.NeedsBackupAgentUpdate != 1 || v.Reconciled {
		t.Errorf("a deployment that is not as it should be: %+v", v)
	}
}
