package foundationdb

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Each refusal that a user can mend has a remedy of its own; any other says what the tool said.
func TestRefusal(t *testing.T) {
	for reason, want := range map[fdb.Reason]*fault.Kind{
		fdb.StoreRefused: StoreRefused, fdb.CredentialsMissing: CredentialsRefused, fdb.RangeNotEmpty: RangeNotEmpty,
		fdb.DatabaseLocked: DatabaseLocked, fdb.VersionNotRestorable: VersionNotRestorable, fdb.ClockBehind: ToolRefused,
	} {
		err := Refusal("start backup default", fdb.Result{Outcome: fdb.Refused, Reason: reason, Text: "ERROR: no"})
		if fault.Of(err) != want || !strings.Contains(fault.Message(err), "start backup default: "+string(reason)+": ERROR: no") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// The secret of an account is in the credentials and nowhere else.
func TestBackupStoreKeepsTheSecretApart(t *testing.T) {
	for account, want := range map[string]struct{ url, credentials string }{
		"key@host":               {"blobstore://key@host:443/b?bucket=fdb-backups", ""},
		"key:hunter2@host:9":     {"blobstore://key@host:9/b?bucket=fdb-backups", `{"accounts":{"key@host":{"secret":"hunter2"}}}`},
		"key:hunter2:token@host": {"blobstore://key@host:443/b?bucket=fdb-backups", `{"accounts":{"key@host":{"secret":"hunter2","token":"token"}}}`},
	} {
		url, credentials, err := BackupStore(&v1beta2.BlobStoreConfiguration{AccountName: account}, "b")
		if err != nil || url != want.url || string(credentials) != want.credentials {
			t.Errorf("%s: %s, %s, %v", account, url, string(credentials), err)
		}
	}
	if _, _, err := BackupStore(nil, "b"); fault.Of(err) != fdb.BlobStoreInvalid {
		t.Error(err)
	}
}
