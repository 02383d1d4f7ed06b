package foundationdb

import (
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestNames(t *testing.T) {
	c := clusterOf(t, `spec: {processes: {log: {volumeClaimTemplate: {metadata: {name: wal}}}, storage: {podTemplate: {}}}}`)
	for id, want := range map[fdb.GroupID][2]string{
		{Class: fdb.ClassStorage, Number: 1}:                                    {"sample-storage-1", "sample-storage-1-data"},
		{Prefix: "dc1", Class: fdb.ClassLog, Number: 99999}:                     {"sample-log-99999", "sample-log-99999-wal"},
		{Class: fdb.ClassTransaction, Number: 3}:                                {"sample-transaction-3", "sample-transaction-3-data"},
		{Class: fdb.ClassCoordinator, Number: 3}:                                {"sample-coordinator-3", "sample-coordinator-3-data"},
		{Prefix: "a_b-storage-c", Class: fdb.ClassClusterController, Number: 7}: {"sample-cluster-controller-7", ""},
		{Class: fdb.ClassStateless, Number: 2}:                                  {"sample-stateless-2", ""},
	} {
		equal(t, id.String(), [2]string{PodName(c, id), ClaimName(c, id)}, want)
	}
	c = clusterOf(t, `spec: {processes: {general: {volumeClaimTemplate: {metadata: {name: disk}}}}}`)
	if got := ClaimName(c, fdb.GroupID{Class: fdb.ClassLog, Number: 1}); got != "sample-log-1-disk" {
		t.Errorf("the template of general: %s", got)
	}
	if got := ClaimName(c, fdb.GroupID{Class: fdb.ClassStateless, Number: 1}); got != "" {
		t.Errorf("a stateless group has the claim %s", got)
	}
}

func TestSettings(t *testing.T) {
	s := specOf(t, `
processes:
  general: {customParameters: [a=1, b=2], podTemplate: {metadata: {name: general}}, volumeClaimTemplate: {metadata: {name: general}}}
  log: {customParameters: [c=3]}
  storage: {customParameters: [], podTemplate: {metadata: {name: storage}}}
`)
	type row struct {
		parameters v1beta2.CustomParameters
		pod, claim string
	}
	for class, want := range map[fdb.Class]row{
		fdb.ClassLog:       {v1beta2.CustomParameters{"c=3"}, "general", "general"}, // lists do not merge
		fdb.ClassStorage:   {v1beta2.CustomParameters{}, "storage", "general"},
		fdb.ClassStateless: {v1beta2.CustomParameters{"a=1", "b=2"}, "general", ""},
	} {
		got := settingsOf(s, class)
		if got.PodTemplate.Name != want.pod || (got.VolumeClaimTemplate == nil) != (want.claim == "") || got.VolumeClaimTemplate != nil && got.VolumeClaimTemplate.Name != want.claim {
			t.Errorf("%s: %v", class, got)
		}
		equal(t, string(class), got.CustomParameters, want.parameters)
	}
}

func TestImageOf(t *testing.T) {
	type configs = []v1beta2.ImageConfig
	for name, x := range map[string]struct {
		configs configs
		version string
		want    string // empty: refused
	}{
		"default of the unified image":    {Effective(v1beta2.FoundationDBClusterSpec{}).MainContainer.ImageConfigs, "7.3.69", "foundationdb/fdb-kubernetes-monitor:7.3.69"},
		"default of the split image":      {Effective(specOf(t, `imageType: split`)).MainContainer.ImageConfigs, "7.3.69", "foundationdb/foundationdb:7.3.69"},
		"default of its sidecar":          {Effective(specOf(t, `imageType: split`)).SidecarContainer.ImageConfigs, "7.3.69", "foundationdb/foundationdb-kubernetes-sidecar:7.3.69-1"},
		"each field from the first":       {configs{{TagSuffix: "-a"}, {BaseImage: "b", TagSuffix: "-b"}, {BaseImage: "c"}}, "7.3.69", "b:7.3.69-a"},
		"a tag makes the suffix void":     {configs{{BaseImage: "b", TagSuffix: "-b"}, {Tag: "latest"}}, "7.3.69", "b:latest"},
		"entries of other versions":       {configs{{Version: "7.1.26", BaseImage: "old", Tag: "old"}, {Version: "7.3.69", Tag: "new"}, {BaseImage: "b"}}, "7.3.69", "b:new"},
		"entries of this version":         {configs{{Version: "7.1.26", BaseImage: "old", Tag: "old"}, {BaseImage: "b"}}, "7.1.26", "old:old"},
		"nothing":                         {nil, "7.3.69", ""},
		"no base image for this version":  {configs{{Version: "7.1.26", BaseImage: "b"}, {Tag: "x"}}, "7.3.69", ""},
		"a tag needs no version":          {configs{{BaseImage: "b", Tag: "x"}}, "", "b:x"},
		"neither version nor tag":         {configs{{BaseImage: "b"}}, "", ""},
		"the registry has a port and all": {configs{{BaseImage: "localhost:5000/fdb"}}, "7.3.69", "localhost:5000/fdb:7.3.69"},
	} {
		got, err := ImageOf(x.configs, x.version)
		if got != x.want || (err != nil) != (x.want == "") || err != nil && fault.Of(err) != SpecInvalid {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestFirstConditions(t *testing.T) {
	type list = []v1beta2.ProcessGroupConditionType
	for class, want := range map[fdb.Class]list{
		fdb.ClassStorage:   {v1beta2.MissingProcesses, v1beta2.MissingPod, v1beta2.MissingPVC},
		fdb.ClassLog:       {v1beta2.MissingProcesses, v1beta2.MissingPod, v1beta2.MissingPVC},
		fdb.ClassStateless: {v1beta2.MissingProcesses, v1beta2.MissingPod},
	} {
		equal(t, string(class), FirstConditions(class), want)
	}
}
