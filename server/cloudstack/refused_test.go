package cloudstack_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
)

// SDKs and provisioning tools recognize a missing cluster by its text: each command with
// an id uses it, whether the id is unknown, removed, or malformed.
func TestRemovedClusterIsKnownByItsText(t *testing.T) {
	o := newFixture(t, nil)
	removed := o.create("uma", "blue")
	o.set(removed, func(c *cluster.Cluster) { c.State, c.Desired = cluster.Destroyed, cluster.WantDestroyed })
	for _, id := range []string{removed, "00000000-0000-4000-8000-00000000ffff", "blue"} {
		want := "Invalid parameter id value=" + id + " due to incorrect long value format, or entity does not exist"
		for command, more := range map[string][]string{
			"listContainerCluster": nil, "listContainerClusters": nil, "listKubernetesClusters": nil,
			"deleteContainerCluster": nil, "deleteKubernetesCluster": nil, "startKubernetesCluster": nil, "stopContainerCluster": nil, "stopKubernetesCluster": {"forced", "true"},
			"scaleContainerCluster": {"size", "3"}, "scaleKubernetesCluster": {"size", "3"}, "upgradeKubernetesCluster": {"kubernetesversionid", "v1"}, "recoverContainerCluster": nil,
		} {
			r := o.call("uma", command, append([]string{"id", id}, more...)...)
			r.fails(command, 431)
			if !strings.Contains(r.text("errortext"), want) {
				t.Errorf("%s %s: %s", command, id, r.raw)
			}
		}
	}
	job := "00000000-0000-4000-8000-00000000eeee"
	r := o.call("uma", "queryAsyncJobResult", "jobid", job)
	r.fails("a job", 431)
	if !strings.Contains(r.text("errortext"), "Invalid parameter jobid value="+job+" due to incorrect long value format, or entity does not exist") {
		t.Error(r.raw)
	}
}

// A parameter that the command does not have is refused by its name. Parameters of every
// request, or for the client's own use, are not.
func TestNoParameterIsIgnored(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	create := []string{"name", "x", "zoneid", "z1", "serviceofferingid", "o1", "size", "1"}
	const project = "00000000-0000-4000-8000-00000000aaaa"
	for _, c := range []struct {
		command string
		pairs   []string
		name    string // of the refused parameter; empty: none
	}{
		{"listKubernetesClusters", []string{"projectid", project}, "projectid"},
		{"listKubernetesClusters", []string{"PROJECTID", "-1"}, "projectid"},
		{"listKubernetesClusters", []string{"projectid", ""}, ""},
		{"createContainerCluster", slices.Concat(create, []string{"projectid", project}), "projectid"},
		{"createKubernetesCluster", slices.Concat(create, []string{"kubernetesversionid", "v1", "hypervisor", "KVM"}), "hypervisor"},
		{"createKubernetesCluster", slices.Concat(create, []string{"kubernetesversionid", "v1", "asnumber", "65000"}), "asnumber"},
		{"createKubernetesCluster", slices.Concat(create, []string{"kubernetesversionid", "v1", "cniconfigdetails[0].mtu", "1400"}), "cniconfigdetails"},
		{"createKubernetesCluster", slices.Concat(create, []string{"kubernetesversionid", "v1", "clustertype", "CloudManaged"}), ""},
		{"createContainerCluster", slices.Concat(create, []string{"kubernetesversionid", "v1"}), "kubernetesversionid"},
		{"startContainerCluster", []string{"id", id, "dryrun", "true"}, "dryrun"},
		{"deleteKubernetesCluster", []string{"id", id, "cleanup", "true"}, "cleanup"},
		{"listTemplates", []string{"templatefilter", "executable", "listall", "true"}, ""},
		{"listTemplates", []string{"templatefilter", "featured"}, "templatefilter"},
		{"listZones", []string{"listall", "true", "filter", "id,name", "exclude", "id", "_", "1700000000"}, ""},
		{"listZones", []string{"sessionkey", "x"}, ""},
		{"listServiceOfferings", []string{"issystem", "true"}, "issystem"},
	} {
		r := o.call("uma", c.command, c.pairs...)
		if c.name == "" {
			if r.status != 200 {
				t.Errorf("%s %q: %s", c.command, c.pairs, r.raw)
			}
			continue
		}
		r.fails(c.command, 431)
		if !strings.Contains(r.text("errortext"), c.command+": parameter "+c.name+": ") {
			t.Errorf("%s %q: %s", c.command, c.pairs, r.raw)
		}
	}
}

// CLIs complete the id of a command such as startContainerCluster with the list command
// for the rest of its name and an s: listContainerClusters.
func TestCompletionFindsTheListOfClusters(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	apis := map[string]map[string]any{}
	for _, api := range o.must("uma", "listApis").items("api") {
		apis[strings.ToLower(api["name"].(string))] = api
	}
	for name, api := range apis {
		noun, ok := strings.CutPrefix(name, "start")
		for _, verb := range []string{"delete", "stop", "scale", "upgrade", "recover"} {
			if rest, found := strings.CutPrefix(name, verb); found {
				noun, ok = rest, true
			}
		}
		takesID := slices.ContainsFunc(api["params"].([]any), func(p any) bool { return p.(map[string]any)["name"] == "id" })
		if !ok || !takesID {
			continue
		}
		if apis["list"+noun+"s"] == nil {
			t.Errorf("nothing completes the id of %s", api["name"])
		}
	}
	for _, command := range []string{"listContainerClusters", "listContainerCluster"} {
		if items := o.must("uma", command, "listall", "true").items("containercluster"); len(items) != 1 || items[0]["id"] != id {
			t.Errorf("%s: %v", command, items)
		}
	}
}

// Lists and jobs contain what a run waits for, and that a provider cannot be read. Only
// operators see internal messages of a provider.
func TestWaitsAreReported(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "2")
	id, job := created.text("id"), created.text("jobid")
	o.fake.Stands = map[string]api.Explanation{id: {
		Waiting: &api.Waiting{Run: "r", Step: "nodes", For: "the provider creates VMs: 2, blue-1, blue-2", Code: "CAPACITY_EXHAUSTED", Error: "host h7 is full", Tries: 3,
			Since: o.now, Until: o.now.Add(time.Minute), Next: o.now.Add(time.Second)},
		Unseen: &api.Unseen{Code: "PROVIDER_UNREACHABLE", Text: "connection refused", Since: o.now},
	}}
	for who, inside := range map[string]bool{"uma": false, "op": true} {
		all := map[string]map[string]any{
			"list": o.must(who, "listContainerCluster", "listall", "true").items("containercluster")[0],
			"one":  o.must(who, "listContainerCluster", "id", id).items("containercluster")[0],
			"kube": o.must(who, "listKubernetesClusters", "listall", "true").items("kubernetescluster")[0],
			"job":  o.must(who, "queryAsyncJobResult", "jobid", job).body,
		}
		for name, body := range all {
			text, _ := body["waitingfor"].(string)
			if body["waitingstep"] != "nodes" || body["waitingsince"] != "2030-01-01T00:00:00+0000" || body["waitinguntil"] != "2030-01-01T00:01:00+0000" ||
				!strings.Contains(text, "blue-1, blue-2; CAPACITY_EXHAUSTED: ") || !strings.Contains(text, "attempt 3") || strings.Contains(text, "h7") != inside {
				t.Errorf("%s tells %s %v", name, who, body)
			}
			if reason, _ := body["reason"].(string); body["reasoncode"] != "PROVIDER_UNREACHABLE" || !strings.Contains(reason, "connection refused") {
				t.Errorf("%s tells %s of the provider %v", name, who, body)
			}
		}
	}
}
