package backups

import "github.com/pawl-dev/pawl/fault"

var (
	// TagTaken says that an older backup of the cluster has the same tag.
	TagTaken = fault.Declare(fault.Kind{
		Code: "FDB_BACKUP_TAG_TAKEN", Class: fault.Invalid,
		Title:  "another backup of the cluster has the same tag",
		Remedy: "Delete one of the two objects. A second backup needs its own spec.tag and its own place.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// PauseRefused says that a backup cannot be paused because others run.
	PauseRefused = fault.Declare(fault.Kind{
		Code: "FDB_PAUSE_IS_GLOBAL", Class: fault.Blocked,
		Title:  "a pause would stop the other backups of the cluster as well",
		Remedy: "Set backupState: Paused in all backups of the cluster, or stop this one instead.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// AgentsUnauthenticated says that the agents have no credentials for the account.
	AgentsUnauthenticated = fault.Declare(fault.Kind{
		Code: "FDB_AGENTS_UNAUTHENTICATED", Class: fault.Blocked,
		Title:  "the account holds a secret that the agents would not know",
		Remedy: "Mount a credentials file into the container foundationdb of spec.podTemplateSpec and name it in FDB_BLOB_CREDENTIALS: no secret is written into the database.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// StillUsed says that what a backup has written cannot be deleted yet.
	StillUsed = fault.Declare(fault.Kind{
		Code: "FDB_BACKUP_STILL_USED", Class: fault.Blocked,
		Title:  "another backup or a restore uses the place of the backup",
		Remedy: "Delete the other object or wait until the restore has ended, or set deletionPolicy: stop to keep what was written.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// DeploymentForeign says that a deployment with the name of the agents' belongs to something else.
	DeploymentForeign = fault.Declare(fault.Kind{
		Code: "FDB_AGENTS_FOREIGN", Class: fault.Blocked,
		Title:  "the deployment of the agents belongs to something else",
		Remedy: "Rename the deployment or the backup.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
)
