package foundationdb

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestValidateBackup(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  "",
		`{version: 7.0.9, clusterName: ""}`: "version clusterName",
		`version: new`:                      "version",
		`{backupState: Running, backupType: partitioned_log, backupMode: oneTime, deletionPolicy: stop, imageType: split}`: "",
		`{backupState: a, backupType: b, backupMode: c, deletionPolicy: d, imageType: e}`:                                  "backupState backupType backupMode deletionPolicy imageType",
		`{agentCount: 0, snapshotPeriodSeconds: 1}`:                                                                        "",
		`{agentCount: -1, snapshotPeriodSeconds: 0}`:                                                                       "agentCount snapshotPeriodSeconds",
		`blobStoreConfiguration: null`:                                                                                     "blobStoreConfiguration",
		`{blobStoreConfiguration: null, backupType: unmanaged}`:                                                            "",
		`blobStoreConfiguration: {accountName: nowhere}`:                                                                   "blobStoreConfiguration",
		`blobStoreConfiguration: {accountName: a@b, bucket: abc}`:                                                          "",
		`blobStoreConfiguration: {accountName: a@b, bucket: ab}`:                                                           "blobStoreConfiguration.bucket",
		`blobStoreConfiguration: {accountName: a@b, bucket: ` + strings.Repeat("a", 63) + `}`:                              "",
		`blobStoreConfiguration: {accountName: a@b, bucket: ` + strings.Repeat("a", 64) + `}`:                              "blobStoreConfiguration.bucket",
		`blobStoreConfiguration: {accountName: a@b, urlParameters: ["a=b;c"]}`:                                             "blobStoreConfiguration",
		`tag: nightly-1`:                  "",
		`tag: "a;b"`:                      "tag",
		`customParameters: [knob_a=1]`:    "",
		`customParameters: [a=1, "a =2"]`: "customParameters[1]",
		`encryptionKeyPath: /keys/a b`:    "",
		`encryptionKeyPath: "/keys/a\nb"`: "encryptionKeyPath",
	} {
		b := &v1beta2.FoundationDBBackup{}
		b.Name = "nightly"
		b.Spec = v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "orders", BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "a@b"}}
		if err := yaml.UnmarshalStrict([]byte(text), &b.Spec); err != nil {
			t.Fatal(err)
		}
		if got := ValidateBackup(b); paths(got) != want {
			t.Errorf("%s\n%v, expected %s", text, got, want)
		}
	}
}

func TestValidateRestore(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "",
		`destinationClusterName: ""`: "destinationClusterName",
		`keyRanges: [{start: a, end: b}, {start: '\x00', end: '\xff'}]`: "",
		`keyRanges: [{start: a, end: b}, {start: "a b", end: ""}]`:      "keyRanges[1].start keyRanges[1].end",
		`keyRanges: [{start: "a;b", end: 'a"b'}]`:                       "keyRanges[0].start keyRanges[0].end",
		`blobStoreConfiguration: null`:                                  "blobStoreConfiguration",
		`tag: restore-12345678`:                                         "",
		`tag: "a b"`:                                                    "tag",
		`backupVersion: 0`:                                              "",
		`backupVersion: -1`:                                             "backupVersion",
		`customParameters: [datadir=1]`:                                 "customParameters[0]",
		`encryptionKeyPath: "\0"`:                                       "encryptionKeyPath",
	} {
		r := &v1beta2.FoundationDBRestore{}
		r.Name = "orders"
		r.Spec = v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "orders", BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "a@b"}}
		if err := yaml.UnmarshalStrict([]byte(text), &r.Spec); err != nil {
			t.Fatal(err)
		}
		if got := ValidateRestore(r); paths(got) != want {
			t.Errorf("%s\n%v, expected %s", text, got, want)
		}
	}
}
