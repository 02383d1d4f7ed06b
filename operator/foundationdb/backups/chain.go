package backups

import "github.com/pawl-dev/pawl/chain"

// backup is a pass over an object that is there to stay.
var backup = chain.Chain[*pass]{
	{Name: "UpdateBackupStatus", Decide: updateBackupStatus},
	{Name: "UpdateBackupAgents", Decide: updateBackupAgents},
	{Name: "StartBackup", Decide: startBackup},
	{Name: "StopBackup", Decide: stopBackup},
	{Name: "ToggleBackupPaused", Decide: toggleBackupPaused},
	{Name: "ModifyBackup", Decide: modifyBackup},
	{Name: "UpdateBackupStatus", Decide: readAgain},
}

// deletion is a pass over an object that is being deleted, as its deletionPolicy says.
var deletion = chain.Chain[*pass]{
	{Name: "AbortBackup", Decide: abortBackup},
	{Name: "DeleteBackup", Decide: deleteBackup},
	{Name: "RemoveFinalizer", Decide: removeFinalizer},
}
