package kube

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// The fields of an MPDCluster have the meaning of section 1 of the specification.
func TestSpecOfMPDCluster(t *testing.T) {
	obj := &mpd.MPDCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: mpd.MPDClusterSpec{
		DBClusterType: "share", FollowerNum: 3, ClassInfo: mpd.ClassInfo{ClassName: "small"}, ClassInfoModifyTo: mpd.ClassInfo{ClassName: "large"},
		VersionCfg: mpd.VersionInfo{VersionName: "15.17", EngineImage: "old"}, VersionCfgModifyTo: mpd.VersionInfo{VersionName: "15.18", EngineImage: "new"},
		ShareStore: &mpd.ShareStore{SharePvcName: "data", VolumeID: "v1", DiskQuota: "15000"}, NetCfg: mpd.NetConfiguration{EngineStartPort: 5500},
	}}
	s, refused := specOf(obj)
	if refused != nil {
		t.Fatal(refused)
	}
	if *s.Readers != 3 || s.Class.Name != "large" || s.Engine.Version != "15.18" || s.Images["15.18"] != "new" || s.Ports.Start != 5500 || s.Ports.Step != 5 {
		t.Errorf("the spec is %+v", s)
	}
	if s.Storage.Size.Value() != 20<<30 || s.Storage.Claim != "data" || s.Storage.OnDelete != "Retain" {
		t.Errorf("the storage is %+v", s.Storage)
	}
	for what, change := range map[string]func(){
		"a quota that is no number":     func() { obj.Spec.ShareStore.DiskQuota = "much" },
		"a claim elsewhere":             func() { obj.Spec.ShareStore = &mpd.ShareStore{SharePvcName: "data", SharePvcNamespace: "other"} },
		"a cluster on volumes of nodes": func() { obj.Spec.ShareStore, obj.Spec.DBClusterType = nil, "local" },
	} {
		before := obj.DeepCopy()
		change()
		if _, refused := specOf(obj); refused == nil {
			t.Errorf("%s is not refused", what)
		} else if what == "a cluster on volumes of nodes" && !errors.Is(refused, sharedstorage.ClusterTypeUnsupported) {
			t.Errorf("%s: %v", what, refused)
		}
		obj = before
	}
}

// Requests are read under their MPDCluster names; a value that means no is not a request.
func TestRequestsOfMPDCluster(t *testing.T) {
	for _, q := range []struct{ key, value, ours, translated string }{
		{"restartCluster", "T", "pawl.dev/restart", "cluster"}, {"restartCluster", "1", "pawl.dev/restart", "cluster"}, {"restartCluster", "T#x", "pawl.dev/restart", "cluster#x"},
		{"restartIns", "1", "pawl.dev/restart", "1"}, {"switchRw", "2", "pawl.dev/switch-writer", "2"}, {"migrate", "2|node-1", "pawl.dev/migrate", "2|node-1"},
		{"removeIns", "3#y", "pawl.dev/remove-reader", "3#y"}, {"forceRebuild", "true", "pawl.dev/rebuild", "cluster"}, {"flushParams", "T", "pawl.dev/flush-parameters", "T"},
		{"extendStorage", "T", "pawl.dev/extend-storage", "T"}, {"extendStorage", "T#z", "pawl.dev/extend-storage", "T#z"}, {"extendStorage", "F", "", ""},
		{"restartCluster", "F", "", ""}, {"switchRw", "", "", ""}, {"other", "T", "", ""},
	} {
		if ours, translated, _ := requestOf(q.key, q.value); ours != q.ours || translated != q.translated {
			t.Errorf("%s=%s is %s=%s, want %s=%s", q.key, q.value, ours, translated, q.ours, q.translated)
		}
	}
}

// States have the names of PolarDB Stack.
func TestStatesOfMPDCluster(t *testing.T) {
	working := func(kind, args string) *v1alpha1.SharedStorageClusterStatus {
		return &v1alpha1.SharedStorageClusterStatus{Writer: "1", Requests: []v1alpha1.RequestStatus{{ID: "x", Kind: kind, Args: args, State: sharedstorage.InWork}}}
	}
	moving := func(writer, position, flow string) *v1alpha1.SharedStorageClusterStatus {
		s := working("migrate", "1|node-1")
		s.Writer, s.Position = writer, []byte(position)
		if flow != "" {
			s.Run = &v1alpha1.CurrentRun{ID: "r", Flow: flow}
		}
		return s
	}
	none := &v1alpha1.SharedStorageClusterStatus{}
	for _, q := range []struct {
		status      *v1alpha1.SharedStorageClusterStatus
		state, want string
	}{
		{none, "Running", "Running"}, {none, "Creating", "Creating"}, {none, "Interrupted", "Interrupt"}, {none, "Recreating", "Rebuild"}, {none, "ChangingSpecification", "ModifyClass"},
		{none, "Upgrading", "UpgradeMinorVersion"}, {none, "Locking", "AddRo"}, {none, "ScalingOut", "AddRo"}, {none, "ScalingIn", "RemoveRo"}, {none, "ExtendingStorage", "ExtendStorage"},
		{working("restart", "cluster"), "Restarting", "RestartCluster"}, {working("restart", "2"), "Restarting", "RestartIns"},
		{none, "Switching", "SwitchRw"}, {none, "ModifyingParameters", "FlushParams"}, {none, "RebuildingReader", "RebuildRo"},
		{moving("1", `{"state":"Migrating","flow":"MigrateWriter"}`, ""), "Migrating", "MigrateRw"}, // its run does not exist yet
		{moving("1", `{"state":"Migrating","flow":"MigrateWriter"}`, "MigrateWriter"), "Migrating", "MigrateRw"},
		{moving("t-7", `{"state":"Migrating","flow":"MigrateWriter"}`, "MigrateWriter"), "Migrating", "MigrateRw"}, // promoted, but not in its place yet
		{moving("", `{"state":"Migrating","flow":"MigrateWriter"}`, "MigrateWriter"), "Migrating", "MigrateRw"},
		{moving("", "", "MigrateWriter"), "Migrating", "MigrateRw"},
		{moving("2", `{"state":"Migrating"}`, "MigrateReader"), "Migrating", "MigrateRo"}, {moving("2", `{"state":"Migrating"}`, ""), "Migrating", "MigrateRo"},
		{moving("1", `{"state":"Migrating"}`, "MigrateReader"), "Migrating", "MigrateRo"}, // a failover made it the writer meanwhile
	} {
		if got := stateOf(q.status, q.state); got != q.want {
			t.Errorf("%s is %s, want %s", q.state, got, q.want)
		}
	}
}
