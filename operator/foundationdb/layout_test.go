package foundationdb

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// A pod that is made for a claim has the image and the servers of the data in it, where it would not find them with
// those of the spec.
func TestPodsFindTheirData(t *testing.T) {
	for _, row := range []struct {
		name, made, now string
		image           v1beta2.ImageType
		servers         int
	}{
		{"nothing has changed", `{imageType: split}`, `{imageType: split}`, "split", 1},
		{"another image", `{imageType: unified}`, `{imageType: split}`, "unified", 1},
		{"another image, whose folders are the same", `{imageType: split, storageServersPerPod: 2}`, `{imageType: unified, storageServersPerPod: 2}`, "unified", 2},
		{"fewer servers", `{storageServersPerPod: 2}`, `{}`, "unified", 2},
		{"more servers of the split image", `{imageType: split}`, `{imageType: split, storageServersPerPod: 2}`, "split", 1},
		{"servers of another class", `{}`, `{logServersPerPod: 2}`, "unified", 1},
	} {
		claim := claimOf(t, clusterOf(t, `spec: `+row.made), storage1)
		now := clusterOf(t, `spec: `+row.now)
		now.Spec = Effective(now.Spec)
		pod := podOf(t, WithDataOf(now, fdb.ClassStorage, claim), storage1)
		equal(t, row.name+": image", ImageTypeOf(pod), row.image)
		base := "foundationdb/fdb-kubernetes-monitor:"
		if row.image == v1beta2.ImageTypeSplit {
			base = "foundationdb/foundationdb:"
		}
		equal(t, row.name+": repository", strings.HasPrefix(pod.Spec.Containers[0].Image, base), true)
		equal(t, row.name+": servers", ServersIn(pod), row.servers)

		claim.Annotations = nil // another operator's
		equal(t, row.name+": a claim that tells nothing", WithDataOf(now, fdb.ClassStorage, claim), now)
		before := podOf(t, clusterOf(t, `spec: `+row.made), storage1)
		claim.Annotations = DataAnnotations(now, fdb.ClassStorage, claim, before)
		pod = podOf(t, WithDataOf(now, fdb.ClassStorage, claim), storage1)
		equal(t, row.name+": image, told by the pod", ImageTypeOf(pod), row.image)
		equal(t, row.name+": servers, told by the pod", ServersIn(pod), row.servers)
	}
}

// The images of the other type are not known where the spec names those of its own.
func TestPodsOfNamedImages(t *testing.T) {
	claim := claimOf(t, clusterOf(t, `spec: {imageType: split}`), storage1)
	for _, named := range []string{
		`{mainContainer: {imageConfigs: [{baseImage: example.com/fdb}]}}`,
		`{processes: {general: {podTemplate: {spec: {containers: [{name: foundationdb, image: example.com/fdb}]}}}}}`,
	} {
		c := clusterOf(t, `spec: `+named)
		equal(t, named, WithDataOf(c, fdb.ClassStorage, claim), c)
	}
}

func TestLacksVariable(t *testing.T) {
	for _, row := range []struct{ name, made, now, lacks string }{
		{"nothing has changed", `{}`, `{}`, ""},
		{"names are switched on", `{routing: {useDNSInClusterFile: false}}`, `{}`, "FDB_DNS_NAME"},
		{"names are switched on, and the image type changes", `{routing: {useDNSInClusterFile: false}}`, `{imageType: split}`, "FDB_DNS_NAME"},
		{"names are switched off", `{}`, `{routing: {useDNSInClusterFile: false}}`, ""},
		{"the sidecar copies the file all the same", `{imageType: split, routing: {useDNSInClusterFile: false}}`, `{imageType: split}`, ""},
		{
			"a parameter with a variable of the template", `{}`,
			`{processes: {general: {customParameters: [knob_x=$SIZE], podTemplate: {spec: {containers: [{name: foundationdb, env: [{name: SIZE, value: "1"}]}]}}}}}`, "SIZE",
		},
		{"a variable that a new pod does not have either", `{}`, `{processes: {general: {customParameters: [knob_x=$SIZE]}}}`, ""},
	} {
		pod := podOf(t, clusterOf(t, `spec: `+row.made), storage1)
		equal(t, row.name, LacksVariable(clusterOf(t, `spec: `+row.now), storage1, pod), row.lacks)
	}
}
