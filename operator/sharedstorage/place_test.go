package sharedstorage_test

import (
	"testing"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// A backup is expired only by the repository that had it: another folder or bucket under the same
// stanza says nothing of it.
func TestPlaceOf(t *testing.T) {
	folder := v1alpha1.RepositorySpec{Stanza: "a-b", Folder: "/srv/one"}
	store := v1alpha1.RepositorySpec{Stanza: "a-b", Folder: "/one", S3: &v1alpha1.S3Spec{Bucket: "one", Endpoint: "s3.example"}}
	bucket, key := *store.DeepCopy(), *store.DeepCopy()
	bucket.S3.Bucket, key.S3.Region = "two", "eu-1"
	for name, c := range map[string]struct {
		was, is v1alpha1.RepositorySpec
		same    bool
	}{
		"as it was":         {folder, folder, true},
		"a slash":           {folder, v1alpha1.RepositorySpec{Stanza: "a-b", Folder: "/srv/one/"}, true},
		"another folder":    {folder, v1alpha1.RepositorySpec{Stanza: "a-b", Folder: "/srv/two"}, false},
		"another stanza":    {folder, v1alpha1.RepositorySpec{Stanza: "a-c", Folder: "/srv/one"}, false},
		"to a store":        {folder, store, false},
		"another bucket":    {store, bucket, false},
		"its region is set": {store, key, true},
	} {
		if got := sharedstorage.PlaceOf(c.was, "").Same(sharedstorage.PlaceOf(c.is, "")); got != c.same {
			t.Errorf("%s: the same place: %t", name, got)
		}
	}
}
