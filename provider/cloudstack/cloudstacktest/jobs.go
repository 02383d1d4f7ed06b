package cloudstacktest

import (
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func (r *request) jobObject(j sim.Job) object {
	o := object{
		"jobid": j.ID, "cmd": "org.apache.cloudstack.api.command." + j.What, "account": j.Owner.AccountID, "accountid": j.Owner.AccountID,
		"domainid": j.Owner.DomainID, "userid": j.Owner.AccountID, "jobstatus": 0, "jobprocstatus": 0, "jobresultcode": 0,
		"jobinstanceid": j.Ref.ID, "created": date(j.Began),
	}
	if kind, ok := instanceTypes[j.Ref.Kind]; ok {
		o["jobinstancetype"] = kind
	}
	if j.Ended.IsZero() {
		return o
	}
	o["completed"], o["jobresulttype"] = date(j.Ended), "object"
	if j.Err != nil {
		bad := r.failureOf(j.Err)
		if bad == nil {
			bad = &failure{530, 4250, j.Err.Error()}
		}
		// The error code of a failed job is only in its result.
		return with(o, object{"jobstatus": 2, "jobresultcode": 530, "jobresult": object{"errorcode": bad.code, "errortext": bad.text}})
	}
	o["jobstatus"], o["jobresult"] = 1, object{"success": true}
	if x, ok := r.o.Cloud.LookupView(j.Ref.Kind, j.Ref.ID); ok && (j.What == "create" || j.Ref.Kind == cluster.VM && j.What != "edit") {
		key, shown := r.any(x)
		o["jobresult"] = object{key: shown}
	}
	return o
}

var instanceTypes = map[cluster.Kind]string{
	cluster.VM: "VirtualMachine", cluster.Network: "Network", cluster.Address: "IpAddress", cluster.Firewall: "FirewallRule",
	cluster.Forward: "PortForwardingRule", cluster.Balancer: "LoadBalancerRule",
}

func queryJob(r *request) (answer, error) {
	j, ok, err := r.client.Job(r.ctx, r.get("jobid"))
	switch {
	case err != nil:
		return answer{}, err
	case !ok:
		return answer{}, invalidID(r.command.name, r.get("jobid"))
	case !r.user.Admin && j.Owner != r.user.owner():
		return answer{}, &failure{531, 4365, "Acct does not have permission to operate with this resource."}
	}
	return answer{one: r.jobObject(j)}, nil
}

func listJobs(r *request) (answer, error) {
	offset, limit, err := r.page()
	if err != nil {
		return answer{}, err
	}
	jobs, err := r.client.Jobs(r.ctx)
	if err != nil {
		return answer{}, err
	}
	var all []object
	for _, j := range jobs {
		if r.user.Admin && r.is("listall", false) || j.Owner == r.user.owner() {
			all = append(all, r.jobObject(j))
		}
	}
	return answer{key: "asyncjobs", list: cut(all, offset, limit), total: len(all)}, nil
}
