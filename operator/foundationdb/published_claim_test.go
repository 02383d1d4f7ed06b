package foundationdb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
)

// Release 2.33.0 names a claim by its pod, whatever the name in its template: a group that it has made keeps that
// claim, and its pod has the hash that it has computed.
func TestPublishedClaimNames(t *testing.T) {
	const named = `, processes: {storage: {volumeClaimTemplate: {metadata: {name: disk}, spec: {resources: {requests: {storage: 16G}}}}}}`
	row := publishedHashes[0] // storage-1
	for image, published := range map[string]string{"split": row.split, "unified": row.unified} {
		c := clusterOf(t, `spec: {imageType: `+image+`, `+row.spec+named+`}`)
		other := storage1
		other.Number = 2
		claim := stored(claimOf(t, c, storage1))
		claim.Name = "sample-storage-1-data"
		equal(t, "the published hash of the claim", claim.Annotations[SpecAnnotation], publishedClaim16G)

		ours, foreign := WantedOf(c), WantedOf(c)
		foreign.KeepClaim(storage1, claim)
		equal(t, "the name of its claim", foreign.ClaimName(storage1), "sample-storage-1-data")
		if replace, grow, why := foreign.ClaimDiffers(claim, storage1); replace || grow != nil {
			t.Errorf("%s: its claim does not stay: %s", image, why)
		}
		hash, err := foreign.PodHash(storage1)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the published hash of its pod", hash, published)
		pod, err := Pod(c, storage1, PodFacts{ClaimName: foreign.ClaimName(storage1)})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "the hash of a pod that is made anew", pod.Annotations[SpecAnnotation], published)
		if why, replace := foreign.Misconfigured(storage1, pod, claim, MisconfiguredOptions{}); replace || why != "" {
			t.Errorf("%s: %s", image, why)
		}

		equal(t, "the claim of a new group", foreign.ClaimName(other), "sample-storage-2-disk")
		if replace, _, _ := ours.ClaimDiffers(claim, storage1); !replace {
			t.Errorf("%s: a claim of our own that has another name stays", image)
		}
		foreign.KeepClaim(other, &corev1.PersistentVolumeClaim{})
		equal(t, "a claim of any other name", foreign.ClaimName(other), "sample-storage-2-disk")
	}
	w := WantedOf(clusterOf(t, "{}"))
	w.KeepClaim(fdb.GroupID{Class: fdb.ClassStateless, Number: 1}, &corev1.PersistentVolumeClaim{})
	equal(t, "a group that keeps no data", w.ClaimName(fdb.GroupID{Class: fdb.ClassStateless, Number: 1}), "")
}
