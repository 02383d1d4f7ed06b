package foundationdb

import (
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

var (
	// StoreRefused says that the blob store has refused a tool, or that its URL is not understood.
	StoreRefused = fault.Declare(fault.Kind{
		Code: "FDB_BLOB_STORE_REFUSED", Class: fault.Blocked,
		Title:  "the blob store refuses",
		Remedy: "Check accountName, bucket and urlParameters, and whether the operator reaches the blob store. It tries again by itself.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// CredentialsRefused says that the blob store needs credentials, or others.
	CredentialsRefused = fault.Declare(fault.Kind{
		Code: "FDB_BLOB_CREDENTIALS_REFUSED", Class: fault.Blocked,
		Title:  "the blob store does not accept the credentials",
		Remedy: "Put the account into the credentials file that FDB_BLOB_CREDENTIALS of the operator and of the agents names, or correct its secret. The operator tries again by itself.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// RangeNotEmpty says that a restore would overwrite keys.
	RangeNotEmpty = fault.Declare(fault.Kind{
		Code: "FDB_RESTORE_RANGE_NOT_EMPTY", Class: fault.Blocked,
		Title:  "the key ranges of the restore are not empty",
		Remedy: "Clear the key ranges, or restore into another cluster. The restore starts by itself once they are empty.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// DatabaseLocked says that something else holds the lock of the database.
	DatabaseLocked = fault.Declare(fault.Kind{
		Code: "FDB_DATABASE_LOCKED", Class: fault.Blocked,
		Title:  "the database is locked",
		Remedy: "Wait until the other restore has ended, or unlock the database with fdbcli. The restore starts by itself afterwards.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// VersionNotRestorable says that the backup does not hold the version.
	VersionNotRestorable = fault.Declare(fault.Kind{
		Code: "FDB_VERSION_NOT_RESTORABLE", Class: fault.Blocked,
		Title:  "the backup cannot be restored to that version",
		Remedy: "Look at the backup with fdbbackup describe, and make a restore with a backupVersion between the minimum and the maximum restorable version.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// ToolRefused is any other refusal.
	ToolRefused = fault.Declare(fault.Kind{
		Code: "FDB_TOOL_REFUSED", Class: fault.Blocked,
		Title:  "a tool of FoundationDB has refused",
		Remedy: "Read in the message what the tool said. The operator tries again by itself.",
		Guide:  "foundationdb.md#if-it-does-not-go-on",
	})
)

var refusals = map[fdb.Reason]*fault.Kind{
	fdb.StoreRefused: StoreRefused, fdb.BackupMissing: StoreRefused, fdb.BackupEncrypted: StoreRefused,
	fdb.CredentialsMissing: CredentialsRefused, fdb.CredentialsRefused: CredentialsRefused,
	fdb.RangeNotEmpty: RangeNotEmpty, fdb.DatabaseLocked: DatabaseLocked, fdb.VersionNotRestorable: VersionNotRestorable,
}

// Refusal returns the fault of a call that a tool, the blob store or the database has refused. what says what was
// tried: "start backup default".
func Refusal(what string, r fdb.Result) error {
	kind := refusals[r.Reason]
	if kind == nil {
		kind = ToolRefused
	}
	return kind.Errorf("%s: %s: %s", what, r.Reason, r.Text)
}
