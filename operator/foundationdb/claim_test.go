package foundationdb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func claimOf(t *testing.T, c *v1beta2.FoundationDBCluster, id fdb.GroupID) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim, err := Claim(c, id)
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// claimTemplate is a cluster whose claims have this spec.
func claimTemplate(t *testing.T, spec string) *v1beta2.FoundationDBCluster {
	t.Helper()
	if spec == "" {
		return clusterOf(t, "{}")
	}
	return clusterOf(t, `spec: {processes: {general: {volumeClaimTemplate: {spec: `+spec+`}}}}`)
}

// stored is a claim as the API server keeps it: with what it fills in.
func stored(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	s := claim.DeepCopy()
	if s.Spec.StorageClassName == nil {
		s.Spec.StorageClassName = new("standard")
	}
	s.Spec.VolumeMode, s.Spec.VolumeName = new(corev1.PersistentVolumeFilesystem), "pvc-1234"
	return s
}

func TestClaim(t *testing.T) {
	if claim := claimOf(t, clusterOf(t, "{}"), fdb.GroupID{Class: fdb.ClassStateless, Number: 1}); claim != nil {
		t.Errorf("a stateless group has %v", claim)
	}
	golden(t, "claim-default.yaml", asText(t, claimOf(t, clusterOf(t, "{}"), storage1)))
	golden(t, "claim-template.yaml", asText(t, claimOf(t, clusterOf(t, `
spec:
  labels: {resourceLabels: {team: b}}
  processes: {storage: {volumeClaimTemplate: {
    metadata: {name: disk, labels: {mine: "1", team: mine}, annotations: {note: kept}},
    spec: {accessModes: [ReadWriteOncePod], storageClassName: fast, resources: {requests: {storage: 16G}}}, status: {phase: Bound}}}}`), storage1)))
	if _, err := Claim(claimTemplate(t, `{resources: {requests: {storage: -1G}}}`), storage1); fault.Of(err) != SpecInvalid {
		t.Errorf("a negative size: %v", err)
	}
	// Computed by fdb-kubernetes-operator 2.33.0, internal.GetPvc, of {resources: {requests: {storage: 16G}}} and of {}.
	equal(t, "the published hash", claimOf(t, claimTemplate(t, `{resources: {requests: {storage: 16G}}}`), log2).Annotations[SpecAnnotation], publishedClaim16G)
	equal(t, "the published hash of the default", ClaimHash(withSize(claimOf(t, clusterOf(t, "{}"), log2).Spec, publishedSize)), publishedClaimDefault)
}

func TestClaimDiffers(t *testing.T) {
	const keep, replace = "keep", "replace"
	size := func(text string) string { return `{resources: {requests: {storage: ` + text + `}}}` }
	fast := func(text string) string {
		return `{storageClassName: fast, resources: {requests: {storage: ` + text + `}}}`
	}
	source := func(field, name string) string {
		return `{` + field + `: {kind: PersistentVolumeClaim, name: ` + name + `}}`
	}
	for _, row := range []struct {
		name, before, after string
		change              func(*corev1.PersistentVolumeClaim)
		want                string // keep, replace, or the size to grow to
	}{
		{name: "nothing", before: size("16G"), after: size("16G"), want: keep},
		{name: "the same size in other words", before: size("1024Mi"), after: size("1Gi"), want: keep},
		{name: "more", before: size("16G"), after: size("32G"), want: "32G"},
		{name: "a byte more", before: size("16G"), after: size("16000000001"), want: "16000000001"},
		{name: "a byte less", before: size("16G"), after: size("15999999999"), want: replace},
		{name: "another storage class", before: `{storageClassName: fast}`, after: `{storageClassName: slow}`, want: replace},
		{name: "no storage class any more", before: `{storageClassName: fast}`, after: `{}`, want: replace},
		{name: "a storage class for the first time", before: `{}`, after: `{storageClassName: fast}`, want: replace},
		{name: "that which it has by default", before: `{}`, after: `{storageClassName: standard}`, want: keep},
		{name: "more, and another storage class", before: size("16G"), after: `{storageClassName: slow, resources: {requests: {storage: 32G}}}`, want: replace},
		{name: "another access mode", before: `{}`, after: `{accessModes: [ReadWriteMany]}`, want: replace},
		{name: "a size for the first time, more", before: ``, after: size("256Gi"), want: "256Gi"},
		{name: "a size for the first time, less", before: ``, after: size("16Gi"), want: replace},
		{name: "a size for the first time, the same", before: ``, after: size("128Gi"), want: keep},
		{name: "no size any more: it keeps its own", before: size("16G"), after: `{}`, want: keep},
		{name: "no template any more", before: size("16G"), after: ``, want: keep},
		{name: "of another operator, with its default", before: size("128G"), after: ``, want: keep},
		{name: "enlarged by hand", before: size("16G"), after: size("16G"), want: keep, change: func(c *corev1.PersistentVolumeClaim) { setSize(&c.Spec, resource.MustParse("64G")) }},
		{name: "enlarged by hand, then in the spec", before: fast("16G"), after: fast("64G"), want: keep, change: func(c *corev1.PersistentVolumeClaim) { setSize(&c.Spec, resource.MustParse("64G")) }},
		{name: "enlarged by hand, then more in the spec", before: fast("16G"), after: fast("65G"), want: "65G", change: func(c *corev1.PersistentVolumeClaim) { setSize(&c.Spec, resource.MustParse("64G")) }},
		{name: "the annotation is lost", before: size("16G"), after: size("16G"), want: keep, change: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }},
		{name: "the annotation is lost, more", before: size("16G"), after: size("17G"), want: "17G", change: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }},
		{name: "the annotation is lost, another class", before: size("16G"), after: `{storageClassName: fast}`, want: replace, change: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }},
		{name: "the annotation is another's", before: `{storageClassName: fast}`, after: `{storageClassName: fast}`, want: keep, change: func(c *corev1.PersistentVolumeClaim) { c.Annotations[SpecAnnotation] = "1234" }},
		{name: "the server repeats the source", before: source("dataSource", "a"), after: source("dataSource", "a"), want: keep, change: func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = nil
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
		}},
		{name: "the server repeats the other source", before: source("dataSourceRef", "a"), after: source("dataSourceRef", "a"), want: keep, change: func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = nil
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
		}},
		{name: "another source", before: source("dataSource", "a"), after: source("dataSource", "b"), want: replace},
		{name: "another source, the annotation is lost", before: source("dataSourceRef", "a"), after: source("dataSourceRef", "b"), want: replace, change: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }},
		{name: "another name", before: ``, after: ``, want: replace, change: func(c *corev1.PersistentVolumeClaim) { c.Name = "sample-storage-1-disk" }},
	} {
		claim := stored(claimOf(t, claimTemplate(t, row.before), storage1))
		if row.change != nil {
			row.change(claim)
		}
		c := claimTemplate(t, row.after)
		replaced, grow, why := ClaimDiffers(c, claim, storage1)
		got := keep
		switch {
		case replaced:
			got = replace
		case grow != nil:
			got = grow.String()
		}
		if got != row.want || (why == "") != (got == keep) || replaced && grow != nil {
			t.Errorf("%s: %s (%s), expected %s", row.name, got, why, row.want)
		}
		if grow == nil {
			continue
		}
		wanted := claimOf(t, c, storage1) // what the caller patches
		setSize(&claim.Spec, *grow)
		claim.Annotations = wanted.Annotations
		if replaced, grow, why := ClaimDiffers(c, claim, storage1); replaced || grow != nil {
			t.Errorf("%s: after it has grown: %s", row.name, why)
		}
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{nil, claimOf(t, clusterOf(t, "{}"), storage1)} {
		id := storage1
		if claim != nil {
			id.Class = fdb.ClassStateless
		}
		if replaced, grow, why := ClaimDiffers(clusterOf(t, "{}"), claim, id); replaced || grow != nil || why != "" {
			t.Errorf("no claim, or none wanted: %v %v %s", replaced, grow, why)
		}
	}
}
