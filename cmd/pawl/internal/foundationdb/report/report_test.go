package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestKindOf(t *testing.T) {
	for word, want := range map[string]string{
		"fdb": ClusterKind, "FoundationDBCluster": ClusterKind, "foundationdbclusters.apps.foundationdb.org": ClusterKind,
		"fdbbackup": BackupKind, "FoundationDBRestore": RestoreKind, "etcd": "", "": "",
	} {
		if got := KindOf(word); got != want {
			t.Errorf("%q is %q, want %q", word, got, want)
		}
	}
}

// The other data center gets the highest priority, the old primary a lower one, and satellites keep theirs.
func TestFailOver(t *testing.T) {
	c := &v1beta2.FoundationDBCluster{}
	c.Spec.DatabaseConfiguration.Regions = []v1beta2.Region{
		{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}, {ID: "sat1", Satellite: 1, Priority: 2}}},
		{Datacenters: []v1beta2.Datacenter{{ID: "dc2"}}},
	}
	regions, err := FailOver(c, "dc2")
	if err != nil {
		t.Fatal(err)
	}
	if a, s, b := regions[0].Datacenters[0], regions[0].Datacenters[1], regions[1].Datacenters[0]; a.Priority != 0 || s.Priority != 2 || b.Priority != 1 {
		t.Errorf("%+v", regions)
	}
	if c.Spec.DatabaseConfiguration.Regions[1].Datacenters[0].Priority != 0 {
		t.Error("the spec was changed")
	}
	for _, dc := range []string{"sat1", "dc3", ""} {
		if _, err := FailOver(c, dc); err == nil {
			t.Errorf("fails over to %q", dc)
		}
	}
}

// A cluster tells in a word how it is.
func TestStates(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	tests := map[string]func(c *v1beta2.FoundationDBCluster){
		"New":      func(*v1beta2.FoundationDBCluster) {},
		"Paused":   func(c *v1beta2.FoundationDBCluster) { c.Spec.Skip = true },
		"Deleting": func(c *v1beta2.FoundationDBCluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"Creating": func(c *v1beta2.FoundationDBCluster) {
			c.Status.Conditions = []metav1.Condition{condition("Ready", "False", "NotConfigured")}
		},
		"Refused": func(c *v1beta2.FoundationDBCluster) {
			c.Status.Conditions = []metav1.Condition{condition("Reconciled", "False", "FdbSpecInvalid")}
		},
		"Unavailable": func(c *v1beta2.FoundationDBCluster) {
			c.Status.Configured = true
			c.Status.Conditions = []metav1.Condition{condition("Available", "Unknown", fdb.DatabaseSilent)}
		},
		"Reconciled":  func(c *v1beta2.FoundationDBCluster) { serve(c); c.Status.Generations.Reconciled = 3 },
		"Progressing": func(c *v1beta2.FoundationDBCluster) { serve(c); c.Status.Generations.Reconciled = 2 },
	}
	for want, change := range tests {
		c := &v1beta2.FoundationDBCluster{}
		c.Generation = 3
		change(c)
		if v := Of(Facts{Cluster: c, Now: time.Unix(100, 0)}); v.State != want {
			t.Errorf("%s, want %s", v.State, want)
		}
	}
}

func serve(c *v1beta2.FoundationDBCluster) {
	c.Status.Configured, c.Status.Health.Available = true, true
	c.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True"}}
}

func TestOrderAndBytes(t *testing.T) {
	if natural("storage-2", "storage-10") >= 0 || natural("log-9", "storage-1") >= 0 || natural("a-1", "a-1") != 0 {
		t.Error("order")
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 40: "1.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// A group that fails is replaced by itself, and one that a person has marked is not explained so.
func TestExplainReplaced(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	group := v1beta2.ProcessGroupStatus{ProcessGroupID: "storage-1", ProcessClass: "storage", ProcessGroupConditions: []v1beta2.ProcessGroupCondition{
		{Type: v1beta2.MissingProcesses, Timestamp: began.Unix()},
	}}
	c := &v1beta2.FoundationDBCluster{}
	for what, test := range map[string]struct {
		change func(*v1beta2.ProcessGroupStatus)
		want   time.Time
	}{
		"fails":     {func(*v1beta2.ProcessGroupStatus) {}, began.Add(2 * time.Hour)},
		"is marked": {func(g *v1beta2.ProcessGroupStatus) { g.RemovalTimestamp = &metav1.Time{Time: began} }, time.Time{}},
		"is ready": {func(g *v1beta2.ProcessGroupStatus) {
			g.ProcessGroupConditions[0].Type = v1beta2.ProcessGroupConditionReady
		}, time.Time{}},
		"is switched off": {func(*v1beta2.ProcessGroupStatus) { c.Spec.AutomationOptions.Replacements.Enabled = new(false) }, time.Time{}},
	} {
		c.Spec.AutomationOptions.Replacements.Enabled = nil
		g := *group.DeepCopy()
		test.change(&g)
		c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{g}
		v, err := Explain(Facts{Cluster: c, Now: began}, "storage-1")
		if err != nil {
			t.Fatal(err)
		}
		if !v.ReplacedAt.Equal(test.want) {
			t.Errorf("%s: replaced at %s, want %s", what, v.ReplacedAt, test.want)
		}
	}
}
