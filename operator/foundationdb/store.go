package foundationdb

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// BackupStore returns where a backup lies: the URL without secrets, as tools, status and log may show it, and the
// content of the credentials file if the account holds a secret. name stands in for an empty backupName. It fails
// with fdb.BlobStoreInvalid.
func BackupStore(c *v1beta2.BlobStoreConfiguration, name string) (url string, credentials fdb.Secret, err error) {
	store := fdb.BlobStore{}
	if c != nil {
		store = blobStore(*c)
	}
	url, err = fdb.BackupURL(store, name)
	if err != nil {
		return "", "", err
	}
	content, _ := store.Credentials()
	return fdb.WithoutSecret(url), fdb.Secret(content), nil
}
