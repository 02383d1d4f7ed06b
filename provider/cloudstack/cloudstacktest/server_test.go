package cloudstacktest_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// The lifecycle of a cluster's resources.
func TestLife(t *testing.T) {
	r := newFixture(t, sim.Options{LateSourceNAT: true, Times: sim.Times{Create: 5 * time.Millisecond, Rule: time.Millisecond, Destroy: time.Millisecond}}, cloudstacktest.Options{})
	net, _ := r.ok("createNetwork", "name", "net", "zoneid", "zone-1", "networkofferingid", "isolated")["network"].(map[string]any)
	network := net["id"].(string)
	ip, result := r.job("associateIpAddress", "networkid", network)
	if a, _ := result["ipaddress"].(map[string]any); a["issourcenat"] != true || a["associatednetworkid"] != network {
		t.Errorf("the first address of a network is its source NAT: %v", result)
	}
	second, _ := r.job("associateIpAddress", "networkid", network)
	data := []byte("#!\x00\xff data")
	vm := r.deploy("one", "networkids", network, "userdata", base64.StdEncoding.EncodeToString(data))
	if got := r.ok("getVirtualMachineUserData", "virtualmachineid", vm)["virtualmachineuserdata"].(map[string]any); got["userdata"] != base64.StdEncoding.EncodeToString(data) {
		t.Errorf("user data: %v", got)
	}
	fw, _ := r.job("createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "6443", "endport", "6443", "cidrlist", "10.0.0.0/8,192.0.2.0/24")
	pf, _ := r.job("createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", "6443", "privateport", "6443", "virtualmachineid", vm, "openfirewall", "false")
	lb, _ := r.job("createLoadBalancerRule", "publicipid", second, "name", "lb", "algorithm", "roundrobin", "publicport", "6443", "privateport", "6443")
	r.job("assignToLoadBalancerRule", "id", lb, "virtualmachineids", vm)

	if got := r.list("firewallrule", "listFirewallRules", "id", fw); len(got) != 1 || got[0]["cidrlist"] != "10.0.0.0/8,192.0.2.0/24" || got[0]["startport"] != 6443.0 {
		t.Errorf("firewall: %v", got)
	}
	if got := r.list("firewallrule", "listFirewallRules", "ipaddressid", second); len(got) != 1 || got[0]["cidrlist"] != "0.0.0.0/0" {
		t.Errorf("openfirewall is the default: %v", got)
	}
	if got := r.list("portforwardingrule", "listPortForwardingRules", "networkid", network); len(got) != 1 || got[0]["publicport"] != "6443" || got[0]["virtualmachineid"] != vm {
		t.Errorf("forward: %v", got)
	}
	if got := r.list("loadbalancerruleinstance", "listLoadBalancerRuleInstances", "id", lb); len(got) != 1 || got[0]["id"] != vm {
		t.Errorf("members: %v", got)
	}
	r.job("removeFromLoadBalancerRule", "id", lb, "virtualmachineids", vm)
	if got := r.list("loadbalancerruleinstance", "listLoadBalancerRuleInstances", "id", lb); len(got) != 0 {
		t.Errorf("members: %v", got)
	}
	if got := r.list("network", "listNetworks", "id", network); got[0]["state"] != "Implemented" {
		t.Errorf("network: %v", got)
	}
	r.fails(536, "deleteNetwork", "id", network)
	r.fails(431, "disassociateIpAddress", "id", ip)
	for _, rule := range [][2]string{{"deleteFirewallRule", fw}, {"deletePortForwardingRule", pf}, {"deleteLoadBalancerRule", lb}, {"disassociateIpAddress", second}} {
		if _, result := r.job(rule[0], "id", rule[1]); result["success"] != true {
			t.Errorf("%s: %v", rule[0], result)
		}
	}
	r.job("destroyVirtualMachine", "id", vm, "expunge", "true")
	r.job("deleteNetwork", "id", network)
	if left := r.cloud.All(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPower(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	vm := r.deploy("one")
	state := func() string {
		all := r.as("ADMIN").list("virtualmachine", "listVirtualMachines", "id", vm)
		if len(all) != 1 {
			return ""
		}
		return all[0]["state"].(string)
	}
	for _, step := range []struct {
		command string
		more    []string
		want    string
	}{
		{"startVirtualMachine", nil, "Running"},
		{"stopVirtualMachine", nil, "Stopped"},
		{"stopVirtualMachine", []string{"forced", "true"}, "Stopped"},
		{"startVirtualMachine", nil, "Running"},
		{"destroyVirtualMachine", nil, "Destroyed"},
	} {
		r.job(step.command, append([]string{"id", vm}, step.more...)...)
		if got := state(); got != step.want {
			t.Errorf("%s: it is %s", step.command, got)
		}
	}
	if got := r.list("virtualmachine", "listVirtualMachines"); len(got) != 0 {
		t.Errorf("a user sees what is in the bin: %v", got)
	}
	r.job("expungeVirtualMachine", "id", vm)
	if left := r.cloud.All(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	r.fails(431, "startVirtualMachine", "id", vm)
}

// An unknown id is an error or an empty list, depending on the id.
func TestUnknownID(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	if got := r.list("virtualmachine", "listVirtualMachines", "id", "00000000-0000-4000-8000-000000000001"); got != nil {
		t.Errorf("%v", got)
	}
	r.fails(431, "listVirtualMachines", "id", "00000000-0000-4000-8000-000000000002")
	r.fails(431, "listVirtualMachines", "id", "no uuid")
	r.fails(431, "queryAsyncJobResult", "jobid", "00000000-0000-4000-8000-000000000001")
}

func TestTags(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	one, two := r.deploy("one"), r.deploy("two")
	byTag := []string{"tags[0].key", cluster.TagInstallation, "tags[0].value", "inst", "tags[1].key", "note", "tags[1].value", "ü & = ~"}
	if got := r.list("virtualmachine", "listVirtualMachines", byTag...); got != nil {
		t.Errorf("before they are tagged: %v", got)
	}
	_, result := r.job("createTags", append([]string{"resourceids", one, "resourcetype", "UserVm"}, byTag...)...)
	if result["success"] != true {
		t.Errorf("%v", result)
	}
	got := r.list("virtualmachine", "listVirtualMachines", byTag...)
	if len(got) != 1 || got[0]["id"] != one || len(got[0]["tags"].([]any)) != 2 {
		t.Errorf("by tag: %v", got)
	}
	if text := r.fails(431, "createTags", append([]string{"resourceids", one, "resourcetype", "UserVm"}, byTag...)...); !strings.Contains(text, "already") {
		t.Errorf("a tag that is there: %s", text)
	}
	r.fails(431, "createTags", "resourceids", one, "resourcetype", "Ghost", "tags[0].key", "a", "tags[0].value", "b")
	r.fails(430, "createTags", "resourceids", one, "resourcetype", "UserVm", "tags[x].key", "a")
	if all := r.list("tag", "listTags", "resourceid", one, "resourcetype", "UserVm", "key", "note"); len(all) != 1 || all[0]["value"] != "ü & = ~" {
		t.Errorf("tags: %v", all)
	}
	r.job("deleteTags", "resourceids", one+","+two, "resourcetype", "UserVm", "tags[0].key", "note")
	if all := r.list("tag", "listTags", "resourceid", one, "resourcetype", "UserVm"); len(all) != 1 {
		t.Errorf("tags: %v", all)
	}
}

func TestPaging(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	for i := range 7 {
		r.deploy(fmt.Sprintf("vm-%d", i))
	}
	var seen []string
	for page := 1; page <= 4; page++ {
		body := r.ok("listVirtualMachines", "page", fmt.Sprint(page), "pagesize", "3")
		items, _ := body["virtualmachine"].([]any)
		for _, x := range items {
			seen = append(seen, x.(map[string]any)["name"].(string))
		}
		if page < 4 && body["count"] != 7.0 {
			t.Errorf("page %d: count %v", page, body["count"])
		}
	}
	if want := []string{"vm-0", "vm-1", "vm-2", "vm-3", "vm-4", "vm-5", "vm-6"}; !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	r.fails(431, "listVirtualMachines", "page", "1")
	r.fails(431, "listVirtualMachines", "pagesize", "3")
	r.fails(431, "listVirtualMachines", "page", "1", "pagesize", "501")
	r.fails(431, "listVirtualMachines", "page", "one", "pagesize", "5")
	if got := r.list("virtualmachine", "listVirtualMachines", "name", "M-3"); len(got) != 1 {
		t.Errorf("a name is a part, without case: %v", got)
	}
	if got := r.list("virtualmachine", "listVirtualMachines", "pagesize", "-1"); len(got) != 7 {
		t.Errorf("all: %v", got)
	}
}

// The answer of the API to each fault of the cloud.
func TestFaults(t *testing.T) {
	deploy := []string{"zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "name", "one"}
	for name, c := range map[string]struct {
		rule    sim.Rule
		status  int // 0: no answer
		created bool
	}{
		"lost":      {sim.Rule{Do: sim.Lost}, 0, true},
		"timeout":   {sim.Rule{Do: sim.Timeout}, 0, false},
		"throttle":  {sim.Rule{Do: sim.Throttle}, 429, false},
		"401":       {sim.Rule{Do: sim.Unauthorized}, 401, false},
		"capacity":  {sim.Rule{Do: sim.Fail, Err: cluster.CapacityExhausted.Errorf("no host")}, 533, false},
		"quota":     {sim.Rule{Do: sim.Fail, Err: cluster.QuotaExceeded.Errorf("too many")}, 535, false},
		"conflict":  {sim.Rule{Do: sim.Fail, Err: cluster.RuleConflict.Errorf("taken")}, 537, false},
		"in use":    {sim.Rule{Do: sim.Fail, Err: cluster.ResourceInUse.Errorf("busy")}, 536, false},
		"refused":   {sim.Rule{Do: sim.Fail}, 431, false},
		"other":     {sim.Rule{Do: sim.Fail, Err: fmt.Errorf("boom")}, 530, false},
		"duplicate": {sim.Rule{Do: sim.Duplicate}, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
			c.rule.Call = sim.Create
			r.cloud.Inject(c.rule)
			// A new connection: otherwise the transport would send the request again.
			status, body, err := r.do(http.MethodPost, "deployVirtualMachine", deploy...)
			if status != c.status || (err != nil) != (c.status == 0) {
				t.Errorf("%d %v, %v; want %d", status, body, err, c.status)
			}
			if _, created := r.cloud.Lookup(cluster.VM, "one"); created != c.created {
				t.Errorf("created: %t", created)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	r.cloud.Unreachable(true)
	if status, body, err := r.do(http.MethodGet, "listZones"); err == nil {
		t.Errorf("unreachable: %d %v", status, body)
	}
	r.cloud.Unreachable(false)
	r.cloud.RefuseCredentials(true)
	r.fails(401, "startVirtualMachine", "id", "00000000-0000-4000-8000-000000000002")
	r.cloud.RefuseCredentials(false)
	r.ok("listZones")
}

// Exhausted capacity fails the job and leaves a VM in state Error; an exceeded quota fails
// the call.
func TestCapacityExhausted(t *testing.T) {
	r := newFixture(t, sim.Options{RefuseInJob: true, Zones: []sim.Zone{{ID: "zone-1", Name: "z", VMs: 1}}, Quota: sim.Quota{VMs: 2}}, cloudstacktest.Options{})
	r.deploy("one")
	deploy := []string{"zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "name"}
	id, result := r.job("deployVirtualMachine", append(deploy, "two")...)
	if result["errorcode"] != 533.0 || result["errortext"] == "" {
		t.Errorf("%v", result)
	}
	if got := r.list("virtualmachine", "listVirtualMachines", "id", id); got[0]["state"] != "Error" {
		t.Errorf("%v", got)
	}
	r.fails(535, "deployVirtualMachine", append(deploy, "three")...)
	limits := r.list("resourcelimit", "listResourceLimits", "resourcetype", "0")
	if len(limits) != 1 || limits[0]["max"] != 2.0 {
		t.Errorf("limits %v", limits)
	}
	if got := r.list("account", "listAccounts"); got[0]["vmlimit"] != "2" || got[0]["vmtotal"] != 2.0 || got[0]["cpulimit"] != "Unlimited" {
		t.Errorf("account %v", got)
	}
	if got := r.as("ADMIN").list("capacity", "listCapacity", "type", "90"); len(got) != 1 || got[0]["capacityused"] != 2.0 {
		t.Errorf("capacity %v", got)
	}
	r.fails(432, "listCapacity")
}

func TestCustomJobID(t *testing.T) {
	const job = "11111111-2222-4333-8444-555555555555"
	deploy := []string{"zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "customjobid", job, "name"}
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	if got := r.ok("deployVirtualMachine", append(deploy, "one")...); got["jobid"] != job {
		t.Errorf("%v", got)
	}
	if text := r.fails(431, "deployVirtualMachine", append(deploy, "two")...); !strings.Contains(text, "already used") {
		t.Error(text)
	}
	r.fails(431, "deployVirtualMachine", append(slices.Replace(slices.Clone(deploy), 7, 8, "no uuid"), "two")...)
	if got := r.ok("queryAsyncJobResult", "jobid", job); got["jobstatus"] != 1.0 || got["jobinstancetype"] != "VirtualMachine" {
		t.Errorf("%v", got)
	}
	if got := r.list("asyncjobs", "listAsyncJobs"); len(got) != 1 || got[0]["jobid"] != job {
		t.Errorf("%v", got)
	}
	takes := func(r *fixture) bool {
		api := r.list("api", "listApis", "name", "deployVirtualMachine")
		return slices.ContainsFunc(api[0]["params"].([]any), func(p any) bool { return p.(map[string]any)["name"] == "customjobid" })
	}
	old := newFixture(t, sim.Options{}, cloudstacktest.Options{NoCustomJobID: true})
	if !takes(r) || takes(old) {
		t.Error("listApis does not list it")
	}
	if got := old.ok("deployVirtualMachine", append(deploy, "one")...); got["jobid"] == job {
		t.Error("an older server has taken it")
	}
}

func TestOwnersOfResources(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	vm := r.deploy("one")
	job := r.ok("stopVirtualMachine", "id", vm)["jobid"].(string)
	other, admin := r.as("OTHER"), r.as("ADMIN")
	if got := other.list("virtualmachine", "listVirtualMachines", "listall", "true"); got != nil {
		t.Errorf("listall widens a user: %v", got)
	}
	other.fails(531, "startVirtualMachine", "id", vm)
	other.fails(531, "queryAsyncJobResult", "jobid", job)
	other.fails(531, "deployVirtualMachine", "zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "account", "acme", "domainid", "d1")
	if got := admin.list("virtualmachine", "listVirtualMachines"); got != nil {
		t.Errorf("without listall an admin sees its own: %v", got)
	}
	if got := admin.list("virtualmachine", "listVirtualMachines", "listall", "true"); len(got) != 1 || got[0]["account"] != "acme" {
		t.Errorf("%v", got)
	}
	admin.deploy("two", "account", "acme", "domainid", "d1")
	if got := r.list("virtualmachine", "listVirtualMachines"); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// The vector of the specification, and invalid signatures.
func TestSignatures(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{Now: func() time.Time { return now }})
	vector := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	vector.srv.Config.Handler = cloudstacktest.New(cloudstacktest.Options{Cloud: vector.cloud, Users: map[string]cloudstacktest.User{"EXAMPLE-KEY": {Secret: "EXAMPLE-SECRET"}}})
	const query = "Size=3&apikey=EXAMPLE-KEY&command=createContainerCluster&name=blue%20team%20~1&response=json&signature="
	for signature, status := range map[string]int{"F0GgXw4MZ1vQ6mYGho04z9UlzXw=": 432, "f6IrQcYXcgIoQ030lxnWtP3GvjI=": 401} {
		res, err := vector.srv.Client().Get(vector.srv.URL + "/?" + query + url.QueryEscape(signature))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status { // 432: known credentials, unknown command
			t.Errorf("%s: %d, want %d", signature, res.StatusCode, status)
		}
	}
	for name, c := range map[string]struct {
		key  string
		more []string
		want int
	}{
		"version 1":          {key, nil, 200},
		"version 3":          {key, []string{"signatureversion", "3", "expires", "2030-01-01T00:10:00+0000"}, 200},
		"another offset":     {key, []string{"signatureversion", "3", "expires", "2030-01-01T02:10:00+0200"}, 200},
		"in Z":               {key, []string{"signatureversion", "3", "expires", "2030-01-01T00:10:00Z"}, 200},
		"expired":            {key, []string{"signatureversion", "3", "expires", "2029-12-31T23:59:59+0000"}, 401},
		"expires missing":    {key, []string{"signatureversion", "3"}, 401},
		"expires unreadable": {key, []string{"signatureversion", "3", "expires", "soon"}, 401},
		"unknown key":        {"NOBODY", nil, 401},
		"disabled":           {"OFF", nil, 401},
		"unknown parameter":  {key, []string{"whatever", "x y*z~"}, 200},
		"changed":            {key, []string{"signature", "AAAA"}, 401},
	} {
		status, body, err := r.as(c.key).do(http.MethodGet, "listZones", c.more...)
		if err != nil || status != c.want {
			t.Errorf("%s: %d %v, %v; want %d", name, status, body, err, c.want)
		}
	}
	strict := newFixture(t, sim.Options{}, cloudstacktest.Options{Now: func() time.Time { return now }, Enforce: true})
	v3 := []string{"signatureversion", "3", "expires", "2030-01-01T00:10:00+0000"}
	for _, c := range []struct {
		method, command string
		more            []string
		want            int
	}{
		{http.MethodGet, "listZones", v3, 200},
		{http.MethodGet, "listZones", nil, 401},
		{http.MethodGet, "listZones", []string{"signatureversion", "3", "expires", "2030-01-01T00:20:00+0000"}, 401},
		{http.MethodGet, "createNetwork", v3, 400},
	} {
		if status, body, err := strict.do(c.method, c.command, c.more...); err != nil || status != c.want {
			t.Errorf("enforced %s %s %v: %d %v, %v; want %d", c.method, c.command, c.more, status, body, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	r.fails(432, "launchRocket")
	r.fails(431, "deployVirtualMachine", "zoneid", "zone-1")
	r.fails(431, "listZones", "response", "xml")
	r.fails(431, "listTemplates")
	r.fails(431, "deployVirtualMachine", "zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "userdata", "not base64!")
	r.fails(431, "deployVirtualMachine", "zoneid", "zone-2", "serviceofferingid", "small", "templateid", "node-image")
	r.fails(431, "registerSSHKeyPair", "name", "pair")
	slow := newFixture(t, sim.Options{}, cloudstacktest.Options{PerSecond: 2, Now: func() time.Time { return time.Unix(0, 0) }})
	slow.ok("listZones")
	slow.ok("listZones")
	slow.fails(429, "listZones")
	vague := newFixture(t, sim.Options{}, cloudstacktest.Options{VagueErrors: true})
	vague.cloud.Inject(sim.Rule{Call: sim.Create, Do: sim.Fail, Err: cluster.CapacityExhausted.Errorf("no host")})
	vague.fails(530, "deployVirtualMachine", "zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image")
}

func TestCatalogue(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	for _, c := range []struct {
		command, key, id string
		more             []string
	}{
		{"listZones", "zone", "zone-1", nil},
		{"listServiceOfferings", "serviceoffering", "medium", []string{"name", "medium"}},
		{"listTemplates", "template", "node-image", []string{"templatefilter", "executable", "zoneid", "zone-1"}},
		{"listNetworkOfferings", "networkoffering", "isolated", nil},
	} {
		if got := r.list(c.key, c.command, c.more...); len(got) != 1 || got[0]["id"] != c.id {
			t.Errorf("%s: %v", c.command, got)
		}
	}
	r.ok("registerSSHKeyPair", "name", "pair", "publickey", "ssh-ed25519 AAAA")
	if got := r.list("sshkeypair", "listSSHKeyPairs"); len(got) != 1 || got[0]["name"] != "pair" {
		t.Errorf("%v", got)
	}
	r.deploy("one", "keypairs", "pair")
	r.ok("deleteSSHKeyPair", "name", "pair")
	r.fails(431, "deleteSSHKeyPair", "name", "pair")
	if got := r.list("sshkeypair", "listSSHKeyPairs"); got != nil {
		t.Errorf("%v", got)
	}
	if all := r.list("api", "listApis"); len(all) < 35 {
		t.Errorf("%d commands", len(all))
	}
}
