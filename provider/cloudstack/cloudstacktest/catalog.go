package cloudstacktest

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// commands is the table of implemented commands: those that Pawl calls, and those that
// reverse them.
var commands []command

func init() { // init avoids a cycle: the table holds functions that read it
	commands = []command{
		{"listApis", false, false, "name", listAPIs},
		{"queryAsyncJobResult", false, false, "jobid*", queryJob},
		{"listAsyncJobs", false, false, "startdate listall page pagesize", listJobs},

		{"listZones", false, false, "id available keyword name page pagesize", listZones},
		{"listServiceOfferings", false, false, "id name keyword zoneid page pagesize", listOfferings},
		{"listTemplates", false, false, "templatefilter* id name keyword zoneid page pagesize", listTemplates},
		{"listNetworkOfferings", false, false, "id name state zoneid guestiptype page pagesize", listNetworkOfferings},
		{"listCapacity", false, true, "zoneid type page pagesize", listCapacity},
		{"listResourceLimits", false, false, "account domainid resourcetype page pagesize", listLimits},
		{"listAccounts", false, false, "id name domainid listall page pagesize", listAccounts},

		{"listSSHKeyPairs", false, false, "name account domainid listall page pagesize", listKeyPairs},
		{"registerSSHKeyPair", false, false, "name* publickey* account domainid", registerKeyPair},
		{"deleteSSHKeyPair", false, false, "name* account domainid", deleteKeyPair},

		{"listVirtualMachines", false, false, "id ids name keyword state zoneid networkid tags account domainid listall details page pagesize", listMachines},
		{"getVirtualMachineUserData", false, false, "virtualmachineid*", userData},
		{"deployVirtualMachine", true, false, "serviceofferingid* templateid* zoneid* name displayname networkids userdata keypair keypairs rootdisksize account domainid", deploy},
		{"startVirtualMachine", true, false, "id*", startMachine},
		{"stopVirtualMachine", true, false, "id* forced", stopMachine},
		{"destroyVirtualMachine", true, false, "id* expunge", destroyMachine},
		{"expungeVirtualMachine", true, false, "id*", expungeMachine},

		{"listNetworks", false, false, "id keyword zoneid tags account domainid listall page pagesize", listNetworks},
		{"createNetwork", false, false, "name* displaytext networkofferingid* zoneid* account domainid", createNetwork},
		{"deleteNetwork", true, false, "id* forced", deleteNetwork},
		{"listPublicIpAddresses", false, false, "id associatednetworkid ipaddress issourcenat zoneid tags account domainid listall page pagesize", listAddresses},
		{"associateIpAddress", true, false, "networkid* zoneid account domainid", associate},
		{"disassociateIpAddress", true, false, "id*", disassociate},
		{"listFirewallRules", false, false, "id ipaddressid networkid tags account domainid listall page pagesize", listFirewalls},
		{"createFirewallRule", true, false, "ipaddressid* protocol* startport endport cidrlist", createFirewall},
		{"deleteFirewallRule", true, false, "id*", deleteFirewall},
		{"listPortForwardingRules", false, false, "id ipaddressid networkid tags account domainid listall page pagesize", listForwards},
		{"createPortForwardingRule", true, false, "ipaddressid* privateport* protocol* publicport* virtualmachineid* openfirewall", createForward},
		{"deletePortForwardingRule", true, false, "id*", deleteForward},
		{"listLoadBalancerRules", false, false, "id name publicipid networkid tags account domainid listall page pagesize", listBalancers},
		{"listLoadBalancerRuleInstances", false, false, "id* page pagesize", balancerMembers},
		{"createLoadBalancerRule", true, false, "algorithm* name* privateport* publicport* publicipid openfirewall", createBalancer},
		{"deleteLoadBalancerRule", true, false, "id*", deleteBalancer},
		{"assignToLoadBalancerRule", true, false, "id* virtualmachineids", assign},
		{"removeFromLoadBalancerRule", true, false, "id* virtualmachineids", unassign},

		{"createTags", true, false, "resourceids* resourcetype* tags", createTags},
		{"deleteTags", true, false, "resourceids* resourcetype* tags", deleteTags},
		{"listTags", false, false, "resourceid resourcetype key value account domainid listall page pagesize", listTags},
	}
}

func listAPIs(r *request) (answer, error) {
	if _, err := r.client.Catalog(r.ctx, cluster.Owner{}, cluster.Zone); err != nil {
		return answer{}, err
	}
	var all []object
	for _, c := range commands {
		if c.admin && !r.user.Admin || r.get("name") != "" && !strings.EqualFold(c.name, r.get("name")) {
			continue
		}
		params := []object{}
		names := strings.Fields(c.params)
		if c.async && !r.o.NoCustomJobID {
			names = append(names, "customjobid")
		}
		if r.o.NoRootDiskSize {
			names = slices.DeleteFunc(names, func(name string) bool { return name == "rootdisksize" })
		}
		for _, p := range names {
			name, required := strings.CutSuffix(p, "*")
			params = append(params, object{"name": name, "description": "", "type": "string", "length": 255, "required": required, "related": ""})
		}
		all = append(all, object{
			"name": c.name, "description": "", "isasync": c.async, "related": "", "params": params, "response": []object{},
		})
	}
	if len(all) == 0 {
		return answer{}, refuse("The API with name '%s' either does not exist or is not available.", r.get("name"))
	}
	return answer{key: "api", list: all, total: len(all)}, nil
}

func (r *request) catalogue(kind cluster.Kind, key string, show func(cluster.Entry) object) (answer, error) {
	entries, err := r.client.Catalog(r.ctx, cluster.Owner{}, kind)
	if err != nil {
		return answer{}, err
	}
	offset, limit, err := r.page()
	if err != nil {
		return answer{}, err
	}
	contains := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	var all []object
	for _, e := range entries {
		zone := r.get("zoneid")
		if id := r.get("id"); id != "" && id != e.ID || !contains(e.Name, r.get("keyword")) || !contains(e.Name, r.get("name")) ||
			zone != "" && e.Zone != "" && e.Zone != zone {
			continue
		}
		all = append(all, show(e))
	}
	return answer{key: key, list: cut(all, offset, limit), total: len(all)}, nil
}

func enabled(e cluster.Entry) string {
	if e.Disabled {
		return "Disabled"
	}
	return "Enabled"
}

func listZones(r *request) (answer, error) {
	return r.catalogue(cluster.Zone, "zone", func(e cluster.Entry) object {
		return object{"id": e.ID, "name": e.Name, "allocationstate": enabled(e), "networktype": "Advanced", "securitygroupsenabled": false}
	})
}

func listOfferings(r *request) (answer, error) {
	return r.catalogue(cluster.Offering, "serviceoffering", func(e cluster.Entry) object {
		o := with(object{"id": e.ID, "name": e.Name, "displaytext": e.Name, "iscustomized": e.Custom, "cpuspeed": 1000, "storagetype": "shared", "issystem": false}, object{"zoneid": e.Zone})
		if !e.Custom {
			o["cpunumber"], o["memory"] = e.Cores, e.MemoryMB
		}
		if e.Disabled {
			o["state"] = "Inactive"
		}
		return o
	})
}

func listTemplates(r *request) (answer, error) {
	return r.catalogue(cluster.Template, "template", func(e cluster.Entry) object {
		zone := e.Zone
		if zone == "" {
			zone = r.get("zoneid")
		}
		return with(object{"id": e.ID, "name": e.Name, "displaytext": e.Name, "isready": !e.Disabled, "ispublic": true, "status": "Download Complete"}, object{"zoneid": zone})
	})
}

func listNetworkOfferings(r *request) (answer, error) {
	return r.catalogue(cluster.NetworkOffering, "networkoffering", func(e cluster.Entry) object {
		names := e.Services
		if len(names) == 0 {
			names = sim.Services
		}
		services := make([]object, len(names))
		for i, name := range names {
			services[i] = object{"name": name}
		}
		return object{"id": e.ID, "name": e.Name, "displaytext": e.Name, "state": enabled(e), "guestiptype": "Isolated", "traffictype": "GUEST",
			"forvpc": false, "specifyvlan": false, "isdefault": e.Default, "service": services}
	})
}

// The API's numbers for types of capacity and of limits.
const (
	capacityMemory, capacityCPU, capacityAddresses, capacityCores = 0, 1, 4, 90

	limitVMs, limitAddresses, limitNetworks, limitCores, limitMemory = 0, 1, 6, 8, 9
)

const unlimited = 1 << 30

func listCapacity(r *request) (answer, error) {
	zones, err := r.client.Catalog(r.ctx, cluster.Owner{}, cluster.Zone)
	if err != nil {
		return answer{}, err
	}
	var all []object
	for _, z := range zones {
		if id := r.get("zoneid"); id != "" && id != z.ID {
			continue
		}
		capacity, _, err := r.client.Capacities(r.ctx, z.ID, r.user.owner())
		if err != nil {
			return answer{}, err
		}
		level := func(kind int, l sim.Level, unit int) {
			total := l.Limit
			if total == 0 {
				total = unlimited
			}
			if want, err := r.number("type", kind); err != nil || want != kind {
				return
			}
			all = append(all, object{
				"type": kind, "zoneid": z.ID, "zonename": z.Name, "capacityused": l.Used * unit, "capacitytotal": total * unit,
				"capacityallocated": l.Used * unit, "percentused": "0",
			})
		}
		level(capacityMemory, capacity.MemoryMB, 1<<20)
		level(capacityCPU, capacity.Cores, 1000)
		level(capacityAddresses, capacity.Addresses, 1)
		level(capacityCores, capacity.Cores, 1)
	}
	return answer{key: "capacity", list: all, total: len(all)}, nil
}

func (r *request) capacities() (sim.Capacity, cluster.Owner, error) {
	owner, err := r.owner()
	if err != nil {
		return sim.Capacity{}, owner, err
	}
	_, capacity, err := r.client.Capacities(r.ctx, "", owner)
	return capacity, owner, err
}

func limitOf(l sim.Level) int {
	if l.Limit == 0 {
		return -1
	}
	return l.Limit
}

func listLimits(r *request) (answer, error) {
	capacity, owner, err := r.capacities()
	if err != nil {
		return answer{}, err
	}
	var all []object
	for _, x := range []struct {
		kind int
		name string
		l    sim.Level
	}{
		{limitVMs, "user_vm", capacity.VMs}, {limitAddresses, "public_ip", capacity.Addresses}, {limitNetworks, "network", capacity.Networks},
		{limitCores, "cpu", capacity.Cores}, {limitMemory, "memory", capacity.MemoryMB},
	} {
		if want, err := r.number("resourcetype", x.kind); err == nil && want == x.kind {
			all = append(all, object{
				"resourcetype": x.kind, "resourcetypename": x.name, "max": limitOf(x.l), "account": owner.AccountID, "domainid": owner.DomainID,
			})
		}
	}
	return answer{key: "resourcelimit", list: all, total: len(all)}, nil
}

// listAccounts lists the caller's account. Limits are strings here, "Unlimited" if there
// is none.
func listAccounts(r *request) (answer, error) {
	if r.get("name") != "" {
		r.params.Set("account", r.get("name"))
	}
	capacity, owner, err := r.capacities()
	if err != nil {
		return answer{}, err
	}
	o := object{"id": owner.AccountID, "name": owner.AccountID, "domainid": owner.DomainID, "state": "enabled", "accounttype": 0}
	for name, l := range map[string]sim.Level{"vm": capacity.VMs, "ip": capacity.Addresses, "network": capacity.Networks, "cpu": capacity.Cores, "memory": capacity.MemoryMB} {
		o[name+"total"], o[name+"limit"], o[name+"available"] = l.Used, "Unlimited", "Unlimited"
		if l.Limit > 0 {
			o[name+"limit"], o[name+"available"] = texts(l.Limit), texts(max(l.Limit-l.Used, 0))
		}
	}
	return answer{key: "account", list: []object{o}, total: 1}, nil
}
