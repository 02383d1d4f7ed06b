package cloudstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/server/cloudstack"
)

// A cluster from create to delete, as a tenant's program does it.
func TestLifeOfACluster(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "3", "controlnodes", "3")
	id, job := created.text("id"), created.text("jobid")
	if id == "" || job == "" || len(created.body) != 2 {
		t.Fatalf("create: %s", created.raw)
	}
	open := o.must("uma", "queryAsyncJobResult", "jobid", job)
	if open.body["jobstatus"] != 0.0 || open.body["jobresult"] != nil || open.text("cmd") != "createContainerCluster" || open.text("account") != "uma" ||
		open.text("domain") != "ROOT/dev" || open.text("jobinstanceid") != id || open.text("created") != "2030-01-01T00:00:00+0000" || open.body["completed"] != nil {
		t.Errorf("an open job: %s", open.raw)
	}
	listed := o.must("uma", "listContainerCluster", "id", id)
	if one := listed.items("containercluster"); len(one) != 1 || one[0]["state"] != "Starting" || one[0]["jobid"] != job {
		t.Errorf("while it starts: %s", listed.raw)
	}
	if err := o.fake.End(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	done := o.must("uma", "queryAsyncJobResult", "jobid", job)
	result, _ := done.body["jobresult"].(map[string]any)
	c, _ := result["containercluster"].(map[string]any)
	if done.body["jobstatus"] != 1.0 || done.text("jobresulttype") != "object" || done.body["jobresultcode"] != 0.0 || done.text("completed") == "" || c["password"] != "planted-password" {
		t.Errorf("a done job: %s", done.raw)
	}
	for name, want := range map[string]any{
		"id": id, "name": "blue", "zoneid": "z1", "zonename": "Zone One", "serviceofferingid": "o1", "serviceofferingname": "Small", "templateid": "t1",
		"networkid": "n1", "associatednetworkname": "net", "size": "3", "clustersize": 3.0, "controlnodes": 3.0, "state": "Running", "cpunumber": "12", "memory": "12288",
		"endpoint": "https://10.1.1.9:6443/", "account": "uma", "domain": "ROOT/dev", "domainid": o.who["uma"].DomainID, "created": "2030-01-01T00:00:00+0000",
		"desired": "Running", "username": "admin",
	} {
		if c[name] != want {
			t.Errorf("%s is %v, want %v", name, c[name], want)
		}
	}
	if ids, _ := c["virtualmachineids"].([]any); len(ids) != 6 {
		t.Errorf("VMs: %v", c["virtualmachineids"])
	}
	for _, absent := range []string{"description", "keypair", "reason", "reasoncode", "jobid", "nextattempt", "consoleendpoint", "masternodes"} {
		if _, there := c[absent]; there {
			t.Errorf("%s is there: %v", absent, c[absent])
		}
	}
	if again := o.must("op", "queryAsyncJobResult", "jobid", job); strings.Contains(again.raw, "planted") {
		t.Error("an operator sees the owner's password")
	}
	config := o.must("uma", "getContainerClusterConfig", "id", id)
	if config.raw != `{"getcontainerclusterconfigresponse":{"clusterconfig":{"configdata":"apiVersion: v1\n","id":"`+id+`","name":"blue"}}}` {
		t.Errorf("config: %s", config.raw)
	}
	if d := o.must("uma", "getContainerClusterDrift", "id", id); d.body["drift"] == nil {
		t.Errorf("drift: %s", d.raw)
	}
	stop := o.must("uma", "stopContainerCluster", "id", id)
	if err := o.fake.End(t.Context(), stop.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	if r := o.must("uma", "queryAsyncJobResult", "jobid", stop.text("jobid")); fmt.Sprint(r.body["jobresult"]) != "map[success:true]" {
		t.Errorf("stop: %s", r.raw)
	}
	o.call("uma", "scaleContainerCluster", "id", id, "size", "4").fails("scale on Stopped", 531)
	end := o.must("uma", "deleteContainerCluster", "id", id)
	if err := o.fake.End(t.Context(), end.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	if r := o.must("uma", "listContainerCluster"); r.raw != `{"listcontainerclusterresponse":{}}` {
		t.Errorf("an empty list: %s", r.raw)
	}
	if r := o.must("uma", "listContainerCluster", "state", "destroyed"); len(r.items("containercluster")) != 1 {
		t.Errorf("destroyed ones: %s", r.raw)
	}
	o.call("uma", "listContainerCluster", "id", id).fails("a removed id", 431)
	o.call("uma", "startContainerCluster", "id", id).fails("start of a removed id", 431)
}

// The results of start, scale, upgrade and recover are the cluster; those of delete, stop and forget are success.
func TestResultsOfJobs(t *testing.T) {
	o := newFixture(t, nil)
	for i, c := range []struct{ command, result, args string }{
		{"startContainerCluster", "containercluster", ""}, {"scaleContainerCluster", "containercluster", "size=5"},
		{"upgradeContainerCluster", "containercluster", "versionid=v1"}, {"upgradeContainerCluster", "containercluster", "KubernetesVersionID=v1&surge=2"},
		{"recoverContainerCluster", "containercluster", "recovery=restart,adopt"}, {"scaleContainerCluster", "containercluster", "autoscalingenabled=true&minsize=1&maxsize=4"},
		{"startKubernetesCluster", "kubernetescluster", ""}, {"scaleKubernetesCluster", "kubernetescluster", "size=4&serviceofferingid=o1"},
		{"upgradeKubernetesCluster", "kubernetescluster", "kubernetesversionid=v1"}, {"upgradeKubernetesCluster", "kubernetescluster", "versionid=v1"},
		{"stopKubernetesCluster", "success", "forced=true"}, {"deleteKubernetesCluster", "success", ""}, {"deleteContainerCluster", "success", "force=true"},
		{"forgetContainerCluster", "leaks", "confirm=blue13"},
	} {
		id := o.create("uma", fmt.Sprint("blue", i))
		pairs := []string{"id", id}
		args, _ := url.ParseQuery(c.args)
		for name := range args {
			pairs = append(pairs, name, args.Get(name))
		}
		r := o.must("op", c.command, pairs...)
		if err := o.fake.End(t.Context(), r.text("jobid"), nil); err != nil {
			t.Fatal(err)
		}
		job := o.must("op", "queryAsyncJobResult", "jobid", r.text("jobid"))
		if result, _ := job.body["jobresult"].(map[string]any); result[c.result] == nil {
			t.Errorf("%s: %s", c.command, job.raw)
		}
	}
}

// The HTTP status of failed jobs is 200. The result has the code of the fault, and a text with command, step and remedy.
func TestFailedJob(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "3")
	why := cluster.CapacityExhausted.Errorf("host h7 of rack 3 is full")
	if err := o.fake.End(t.Context(), created.text("jobid"), why); err != nil {
		t.Fatal(err)
	}
	for who, tells := range map[string]bool{"uma": false, "op": true} {
		r := o.must(who, "queryAsyncJobResult", "jobid", created.text("jobid"))
		result, _ := r.body["jobresult"].(map[string]any)
		text, _ := result["errortext"].(string)
		if r.body["jobstatus"] != 2.0 || r.body["jobresultcode"] != 533.0 || result["errorcode"] != 533.0 ||
			!strings.HasPrefix(text, "createContainerCluster: ") || !strings.Contains(text, "step network") || !strings.Contains(text, cluster.CapacityExhausted.Remedy) {
			t.Errorf("%s: %s", who, r.raw)
		}
		// Only operators see messages about the provider's capacity.
		list := o.must(who, "listContainerCluster")
		if strings.Contains(r.raw, "rack 3") != tells || strings.Contains(list.raw, "rack 3") != tells || !strings.Contains(list.raw, "CAPACITY_EXHAUSTED") {
			t.Errorf("%s gets %s and %s", who, r.raw, list.raw)
		}
	}
}

// Jobs are visible to their owner and to operators.
func TestJobsBelongToOwners(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "3")
	o.create("eve", "red")
	for who, code := range map[string]int{"uma": 200, "op": 200, "dan": 531, "eve": 531} {
		if r := o.call(who, "queryAsyncJobResult", "jobid", created.text("jobid")); r.status != code {
			t.Errorf("%s: %d %s", who, r.status, r.raw)
		}
	}
	o.call("uma", "queryAsyncJobResult", "jobid", "00000000-0000-4000-8000-00000000ffff").fails("an unknown job", 431)
	o.call("uma", "queryAsyncJobResult", "jobid", "17").fails("no id of a job", 431)
	for who, want := range map[string]int{"uma": 1, "eve": 1, "dan": 0, "op": 2} {
		if got := o.must(who, "listAsyncJobs", "listall", "true").items("asyncjobs"); len(got) != want {
			t.Errorf("%s lists %v", who, got)
		}
	}
	dev := o.who["uma"].DomainID
	o.call("dan", "listAsyncJobs", "account", "uma", "domainid", dev).fails("jobs of others", 531)
	if got := o.must("op", "listAsyncJobs", "account", "uma", "domainid", dev).items("asyncjobs"); len(got) != 1 {
		t.Errorf("of uma: %v", got)
	}
	if got := o.must("op", "listAsyncJobs", "domainid", dev).items("asyncjobs"); len(got) != 1 {
		t.Errorf("of dev: %v", got)
	}
}

// A keyword selects from all jobs, not only from those of a page.
func TestKeywordOfJobsCountsBeforePages(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "3")
	if err := o.fake.End(t.Context(), created.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	o.must("uma", "stopContainerCluster", "id", created.text("id")) // newer: alone on the first page
	r := o.must("uma", "listAsyncJobs", "keyword", "CREATE", "page", "1", "pagesize", "1")
	if got := r.items("asyncjobs"); len(got) != 1 || got[0]["jobid"] != created.text("jobid") || !strings.Contains(r.raw, `"count":1`) {
		t.Errorf("the first page of creates: %s", r.raw)
	}
	if r := o.must("uma", "listAsyncJobs", "keyword", "create", "page", "2", "pagesize", "1"); len(r.items("asyncjobs")) != 0 {
		t.Errorf("the second page of creates: %s", r.raw)
	}
}

// customjobid: a repeated request returns the same job, another request is refused.
func TestCustomJobID(t *testing.T) {
	o := newFixture(t, nil)
	const job = "6f1d7c5e-0000-4000-8000-00000000abcd"
	request := func(size string) reply {
		return o.call("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", size, "customjobid", job)
	}
	first, second := request("3"), request("3")
	if first.text("jobid") != job || first.raw != second.raw {
		t.Errorf("%s, then %s", first.raw, second.raw)
	}
	request("4").fails("another request", 431)
	o.call("uma", "startContainerCluster", "id", first.text("id"), "customjobid", "mine").fails("no uuid", 431)
	if got := o.must("uma", "listContainerCluster").items("containercluster"); len(got) != 1 {
		t.Errorf("%d clusters", len(got))
	}
}

// dryrun returns a plan and writes nothing.
func TestDryRun(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	o.fake.Calls = nil
	for _, r := range []reply{
		o.must("uma", "createContainerCluster", "name", "red", "zoneid", "z1", "serviceofferingid", "o1", "size", "3", "dryrun", "true"),
		o.must("uma", "scaleKubernetesCluster", "id", id, "size", "9", "dryRun", "TRUE"),
	} {
		plan, _ := r.body["plan"].(map[string]any)
		for _, part := range []string{"steps", "resources", "findings"} {
			if _, list := plan[part].([]any); !list {
				t.Errorf("%s is no list: %s", part, r.raw)
			}
		}
	}
	if slices.ContainsFunc(o.fake.Calls, func(c string) bool { return strings.HasPrefix(c, "Create ") || strings.HasPrefix(c, "Change ") }) {
		t.Errorf("calls: %v", o.fake.Calls)
	}
}

// The Kubernetes family: its object, its words for states, its exact name.
func TestKubernetesFamily(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createKubernetesCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "2", "masternodes", "1",
		"kubernetesversionid", "v1", "noderootdisksize", "20", "etcdnodes", "0", "clustertype", "CloudManaged")
	if err := o.fake.End(t.Context(), created.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	id := created.text("id")
	o.set(id, func(c *cluster.Cluster) { c.Autoscale = cluster.Autoscale{Enabled: true, Min: 1, Max: 5} })
	one := o.must("uma", "listKubernetesClusters", "id", id).items("kubernetescluster")[0]
	for name, want := range map[string]any{
		"size": 2.0, "masternodes": 1.0, "controlnodes": 1.0, "kubernetesversionid": "v1", "kubernetesversionname": "1.30.1", "autoscalingenabled": true,
		"minsize": 1.0, "maxsize": 5.0, "clustertype": "CloudManaged", "ipaddress": "10.1.1.9", "state": "Running", "cpunumber": "6",
	} {
		if one[name] != want {
			t.Errorf("%s is %v (%T), want %v", name, one[name], one[name], want)
		}
	}
	if b, err := o.fake.Records.Record(t.Context(), id); err != nil || b.Cluster.DiskGB != 20 {
		t.Errorf("noderootdisksize: %+v, %v", b, err)
	}
	b, err := o.fake.Records.Record(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	row := &cluster.JournalRow{Kind: cluster.Address, Name: "ip", Key: "ip", ProviderID: "a9", Phase: cluster.Present}
	if err := o.fake.Records.Commit(t.Context(), &cluster.Change{ClusterID: b.Cluster.ID, Journal: []*cluster.JournalRow{row}}); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"id", "name"} { // one, or a list of several
		got := o.must("uma", "listKubernetesClusters", by, map[string]string{"id": id, "name": "blue"}[by]).items("kubernetescluster")
		if len(got) != 1 || got[0]["ipaddressid"] != "a9" || got[0]["username"] != "admin" {
			t.Errorf("by %s: %v", by, got)
		}
	}
	vms, _ := one["virtualmachines"].([]any)
	if len(vms) != 3 {
		t.Fatalf("VMs: %v", one["virtualmachines"])
	}
	for i, name := range []string{"blue-control0", "blue-worker0", "blue-worker1"} {
		vm := vms[i].(map[string]any)
		if vm["name"] != name || vm["displayname"] != name || vm["id"] == "" || vm["state"] != "Running" || vm["zoneid"] != "z1" || vm["ipaddress"] == nil ||
			vm["nic"] == nil || vm["isexternalnode"] != false || vm["isetcdnode"] != false {
			t.Errorf("VM %d: %v", i, vm)
		}
	}
	for _, c := range []struct {
		state  string
		change func(*cluster.Cluster)
		words  []string
	}{
		{"Destroying", func(c *cluster.Cluster) { c.State = cluster.Expunging }, []string{"Destroying", "expunging"}},
		{"Destroying", func(c *cluster.Cluster) { c.State = cluster.Expunge }, []string{"destroying"}},
		{"Upgrading", func(c *cluster.Cluster) {
			c.State, c.Request = cluster.Scaling, &cluster.Request{Kind: cluster.RequestUpgrade}
		}, []string{"Upgrading"}},
		{"Scaling", func(c *cluster.Cluster) {
			c.State, c.Request = cluster.Scaling, &cluster.Request{Kind: cluster.RequestScale}
		}, []string{"Scaling"}},
		{"Alert", func(c *cluster.Cluster) { c.State, c.Request = cluster.Alert, nil }, []string{"Alert"}},
	} {
		o.set(id, c.change)
		for _, word := range append(c.words, "") {
			pairs := []string{"name", "blue"}
			if word != "" {
				pairs = append(pairs, "state", word)
			}
			got := o.must("uma", "listKubernetesClusters", pairs...).items("kubernetescluster")
			if len(got) != 1 || got[0]["state"] != c.state {
				t.Errorf("%s by %q: %v", c.state, word, got)
			}
		}
		for _, other := range []string{"Destroying", "Upgrading", "Scaling", "Alert", "Running"} {
			if got := o.must("uma", "listKubernetesClusters", "state", other).items("kubernetescluster"); len(got) == 1 != (other == c.state) {
				t.Errorf("%s listed as %s: %v", c.state, other, got)
			}
		}
	}
	if got := o.must("uma", "listKubernetesClusters", "name", "blu").items("kubernetescluster"); len(got) != 0 {
		t.Errorf("a part of a name: %v", got)
	}
	if got := o.must("uma", "listContainerCluster", "name", "BLU").items("containercluster"); len(got) != 1 {
		t.Errorf("a part of a name: %v", got)
	}
	if got := o.must("uma", "listKubernetesClusters", "clustertype", "ExternalManaged").items("kubernetescluster"); len(got) != 0 {
		t.Errorf("external: %v", got)
	}
	o.call("uma", "listKubernetesClusters", "state", "Flying").fails("no state", 431)
	versions := o.must("uma", "listKubernetesSupportedVersions").items("kubernetessupportedversion")
	if len(versions) != 2 || versions[0]["semanticversion"] != "1.30.1" || versions[0]["state"] != "Enabled" || versions[1]["state"] != "Disabled" || versions[0]["templateid"] != "t1" {
		t.Errorf("versions: %v", versions)
	}
	if got := o.must("uma", "listKubernetesSupportedVersions", "minimumsemanticversion", "1.31").items("kubernetessupportedversion"); len(got) != 1 {
		t.Errorf("later ones: %v", got)
	}
}

// The calls of an autoscaler: list, scale by size, scale by nodes, poll.
func TestAutoscaler(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	o.fake.Polls = 2
	wait := func(r reply) map[string]any {
		t.Helper()
		for {
			job := o.must("uma", "queryAsyncJobResult", "jobid", r.text("jobid"))
			if job.body["jobstatus"] == 1.0 {
				return job.body["jobresult"].(map[string]any)["kubernetescluster"].(map[string]any)
			}
		}
	}
	up := wait(o.must("uma", "scaleKubernetesCluster", "id", id, "size", "4"))
	vms := up["virtualmachines"].([]any)
	if up["size"] != 4.0 || len(vms) != 5 {
		t.Fatalf("scaled up: %v", up)
	}
	victims := []string{vms[2].(map[string]any)["id"].(string), vms[4].(map[string]any)["id"].(string)}
	down := wait(o.must("uma", "scaleKubernetesCluster", "id", id, "nodeids", strings.Join(victims, ",")))
	if down["size"] != 2.0 || len(down["virtualmachines"].([]any)) != 3 || strings.Contains(fmt.Sprint(down), victims[0]) {
		t.Errorf("scaled down: %v", down)
	}
}

// Each command checks whether the role may call it, then whether the account may use the object.
func TestTwoGates(t *testing.T) {
	o := newFixture(t, nil)
	mine, theirs := o.create("uma", "blue"), o.create("eve", "red")
	for _, c := range []struct {
		command, args                 string
		uma, dan, actor, op           int // on uma's cluster
		umaOther, danOther, opOnOther int // on eve's
	}{
		{"getContainerClusterConfig", "", 200, 200, 531, 200, 531, 531, 200},
		{"getContainerClusterDrift", "", 200, 200, 531, 200, 531, 531, 200},
		{"listContainerCluster", "", 200, 200, 531, 200, 531, 531, 200},
		{"scaleContainerCluster", "size=3", 200, 200, 531, 200, 531, 531, 200},
		{"upgradeContainerCluster", "versionid=v1", 200, 200, 531, 200, 531, 531, 200},
		{"recoverContainerCluster", "", 200, 200, 531, 200, 531, 531, 200},
		{"startKubernetesCluster", "", 200, 200, 531, 200, 531, 531, 200},
		{"stopContainerCluster", "", 200, 200, 531, 200, 531, 531, 200},
		{"forgetContainerCluster", "confirm=blue", 401, 401, 401, 200, 401, 401, 431},
		{"deleteContainerCluster", "", 200, 200, 531, 200, 531, 531, 200},
	} {
		request := func(who, id string) int {
			pairs := []string{"id", id}
			args, _ := url.ParseQuery(c.args)
			for name := range args {
				pairs = append(pairs, name, args.Get(name))
			}
			return o.call(who, c.command, pairs...).status
		}
		got := []int{request("uma", mine), request("dan", mine), request("eve", mine), request("op", mine), request("uma", theirs), request("dan", theirs), request("op", theirs)}
		if want := []int{c.uma, c.dan, c.actor, c.op, c.umaOther, c.danOther, c.opOnOther}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.command, got, want)
		}
	}
	for who, code := range map[string]int{"uma": 401, "dan": 401, "op": 200} {
		if r := o.call(who, "listContainerClusterLeaks"); r.status != code {
			t.Errorf("leaks for %s: %s", who, r.raw)
		}
	}
	dev, ops := o.who["uma"].DomainID, o.who["eve"].DomainID
	for i, c := range []struct {
		who, account, domain string
		code                 int
	}{
		{"uma", "uma", dev, 200}, {"uma", "dan", dev, 531}, {"dan", "uma", dev, 200}, {"dan", "eve", ops, 531}, {"op", "eve", ops, 200},
		{"op", "nobody", ops, 531}, {"op", "eve", "", 431}, {"op", "", ops, 431},
	} {
		pairs := []string{"name", fmt.Sprint("x", i), "zoneid", "z1", "serviceofferingid", "o1", "size", "1"}
		if c.account != "" {
			pairs = append(pairs, "accountName", c.account)
		}
		if c.domain != "" {
			pairs = append(pairs, "domainid", c.domain)
		}
		if r := o.call(c.who, "createContainerCluster", pairs...); r.status != c.code {
			t.Errorf("%s creates for %s in %s: %s", c.who, c.account, c.domain, r.raw)
		}
	}
}

// listall shows no more to a user; a domain admin sees its domain only with it.
func TestListAll(t *testing.T) {
	o := newFixture(t, nil)
	o.create("uma", "blue")
	o.create("dan", "green")
	o.create("eve", "red")
	dev, ops := o.who["uma"].DomainID, o.who["eve"].DomainID
	for _, c := range []struct {
		who, args, want string
	}{
		{"uma", "", "blue"}, {"uma", "listall=true", "blue"}, {"dan", "", "green"}, {"dan", "listall=true", "blue green"}, {"op", "", "blue green red"},
		{"dan", "domainid=" + dev, "blue green"}, {"dan", "account=uma&domainid=" + dev, "blue"}, {"op", "domainid=" + ops, "red"},
		{"op", "domainid=" + account.RootID, ""}, {"op", "isrecursive=true&domainid=" + account.RootID, "blue green red"}, {"uma", "domainid=" + dev, "blue"},
		{"uma", "isrecursive=true&listall=true&domainid=" + dev, "blue"},
		{"uma", "domainid=" + ops, "531"}, {"dan", "domainid=" + ops, "531"}, {"dan", "isrecursive=true&domainid=" + account.RootID, "531"},
		{"uma", "listall=true&account=dan&domainid=" + dev, "531"}, {"op", "domainid=nowhere", "531"}, {"op", "account=uma", "431"},
		{"op", "keyword=E", "blue green red"}, {"op", "keyword=re", "green red"}, {"op", "name=red", "red"}, {"op", "state=Running&keyword=lue", "blue"}, {"op", "state=Stopped", ""},
	} {
		var pairs []string
		args, _ := url.ParseQuery(c.args)
		for name := range args {
			pairs = append(pairs, name, args.Get(name))
		}
		r := o.call(c.who, "listContainerCluster", pairs...)
		var names []string
		if r.status != http.StatusOK {
			names = []string{fmt.Sprint(r.status)}
		} else {
			for _, one := range r.items("containercluster") {
				names = append(names, one["name"].(string))
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.who, c.args, got, c.want)
		}
	}
}

// page and pagesize need each other; pagesize is at most 500, or -1 for all; count is the total.
func TestPaging(t *testing.T) {
	o := newFixture(t, func(o *cloudstack.Options) { o.PageMax, o.Rate = 4, 1000 })
	for i := range 6 {
		o.create("uma", fmt.Sprint("c", i))
		o.now = o.now.Add(time.Second)
	}
	for _, c := range []struct{ args, want string }{
		{"", "c0 c1 c2 c3"}, {"page=1&pagesize=2", "c0 c1"}, {"page=2&pagesize=2", "c2 c3"}, {"page=4&pagesize=2", ""}, {"page=0&pagesize=2", "c0 c1"}, {"page=-3&pagesize=2", "c0 c1"},
		{"pagesize=-1", "c0 c1 c2 c3 c4 c5"}, {"page=2147483647&pagesize=4", ""},
		{"page=1", "431"}, {"pagesize=2", "431"}, {"page=1&pagesize=5", "431"}, {"page=1&pagesize=0", "431"}, {"page=1&pagesize=-2", "431"}, {"page=1&pagesize=-1", "431"},
		{"page=x&pagesize=2", "431"}, {"page=99999999999&pagesize=2", "431"},
	} {
		var pairs []string
		args, _ := url.ParseQuery(c.args)
		for name := range args {
			pairs = append(pairs, name, args.Get(name))
		}
		for command, key := range map[string]string{"listContainerCluster": "containercluster", "listKubernetesClusters": "kubernetescluster"} {
			r := o.call("uma", command, pairs...)
			var names []string
			if r.status != http.StatusOK {
				names = []string{fmt.Sprint(r.status)}
			} else {
				for _, one := range r.items(key) {
					names = append(names, one["name"].(string))
				}
				if len(names) > 0 && r.body["count"] != 6.0 {
					t.Errorf("%s: count %v", c.args, r.body["count"])
				}
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s: %s, want %s", c.args, got, c.want)
			}
		}
	}
}

// Every changing call leaves an audit entry with caller, call, target and outcome; reads and unknown callers leave none.
func TestAuditTrail(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	o.call("eve", "deleteContainerCluster", "id", id)
	o.call("uma", "forgetContainerCluster", "id", id)
	o.must("uma", "listContainerCluster")
	v := o.sign("uma", params("command", "deleteContainerCluster", "id", id))
	v.Set("signature", "AAAA")
	o.get(v)
	trail, err := o.accounts.Trail(t.Context(), account.System(), account.TrailQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(trail) {
		got = append(got, strings.Join([]string{e.Who, e.API, e.Call, strings.ReplaceAll(e.Target, id, "ID"), e.Outcome}, " "))
	}
	want := []string{
		"uma /client/api createContainerCluster ID ok", "eve /client/api deleteContainerCluster ID ACCESS_REFUSED", "uma /client/api forgetContainerCluster  COMMAND_REFUSED",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMethods(t *testing.T) {
	o := newFixture(t, nil)
	r := o.send(httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/client/api?command=listZones", nil))
	if r.status != 405 || r.body["cserrorcode"] != nil {
		t.Errorf("PUT: %d %s", r.status, r.raw)
	}
}
