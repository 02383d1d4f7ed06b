package cloudstacktest

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func listMachines(r *request) (answer, error) {
	q, err := r.query(cluster.VM)
	if err != nil {
		return answer{}, err
	}
	q.Network = r.get("networkid")
	q.Like = r.get("keyword")
	if q.Like == "" {
		q.Like = r.get("name")
	}
	ids, state := r.texts("ids"), r.get("state")
	q.Where = func(x sim.View) bool {
		if len(ids) > 0 && !slices.Contains(ids, x.ID) || state != "" && !strings.EqualFold(state, x.State) {
			return false
		}
		// Only admins see destroyed VMs.
		return r.user.Admin || x.State != "Destroyed" && x.State != "Expunging"
	}
	return r.list("virtualmachine", q, r.machine)
}

func deploy(r *request) (answer, error) {
	owner, err := r.owner()
	if err != nil {
		return answer{}, err
	}
	userData, err := base64.StdEncoding.DecodeString(r.get("userdata"))
	if err != nil {
		return answer{}, refuse("User data is not base64")
	}
	networks := r.texts("networkids")
	if len(networks) > 1 {
		return answer{}, refuse("one network is enough here")
	}
	spec := cluster.Spec{
		Zone: r.get("zoneid"), Offering: r.get("serviceofferingid"), Template: r.get("templateid"), UserData: userData, KeyPair: r.get("keypair"),
	}
	if pairs := r.texts("keypairs"); len(pairs) > 0 {
		spec.KeyPair = pairs[0]
	}
	if len(networks) == 1 {
		spec.Network = networks[0]
	}
	if spec.DiskGB, err = r.number("rootdisksize", 0); err != nil || spec.DiskGB < 0 {
		return answer{}, refuse("Root disk size should be a positive number")
	}
	if r.o.NoRootDiskSize {
		spec.DiskGB = 0
	}
	name := r.get("name")
	if len(name) > 63 {
		return answer{}, refuse("Invalid name. VM name is more than 63 characters")
	}
	return r.create(cluster.DesiredResource{Kind: cluster.VM, Name: name, Owner: owner, Spec: spec})
}

// create creates a resource; the request's job id is its call id.
func (r *request) create(w cluster.DesiredResource) (answer, error) {
	w.CallID = r.job
	call, err := r.client.Create(r.ctx, w)
	if err != nil {
		return answer{}, err
	}
	return answer{id: call.Ref.ID, job: r.job}, nil
}

// act applies an action to the resource that the parameter id names.
func (r *request) act(kind cluster.Kind, a cluster.Action) (answer, error) {
	x, err := r.resource(kind, "id")
	if err != nil {
		return answer{}, err
	}
	if _, err := r.client.ActAs(r.ctx, x.Ref(), a, r.job); err != nil {
		return answer{}, err
	}
	return answer{job: r.job}, nil
}

func startMachine(r *request) (answer, error) { return r.act(cluster.VM, cluster.Start) }

func stopMachine(r *request) (answer, error) {
	if r.is("forced", false) {
		return r.act(cluster.VM, cluster.ForceStop)
	}
	return r.act(cluster.VM, cluster.Stop)
}

func destroyMachine(r *request) (answer, error) {
	if r.is("expunge", false) {
		return r.act(cluster.VM, cluster.Destroy)
	}
	return r.act(cluster.VM, sim.Trash)
}

func expungeMachine(r *request) (answer, error) {
	x, err := r.resource(cluster.VM, "id")
	if err != nil {
		return answer{}, err
	}
	if x.State != "Destroyed" {
		return answer{}, refuse("Please destroy vm with specified id before expunging")
	}
	return r.act(cluster.VM, cluster.Destroy)
}

func userData(r *request) (answer, error) {
	x, err := r.resource(cluster.VM, "virtualmachineid")
	if err != nil {
		return answer{}, err
	}
	got, err := r.client.Get(r.ctx, x.Ref())
	if err != nil {
		return answer{}, err
	}
	return answer{key: "virtualmachineuserdata", one: object{
		"virtualmachineid": x.ID, "userdata": base64.StdEncoding.EncodeToString(got.UserData),
	}}, nil
}

func listKeyPairs(r *request) (answer, error) {
	q, err := r.query(cluster.KeyPair)
	if err != nil {
		return answer{}, err
	}
	q.Name = r.get("name")
	return r.list("sshkeypair", q, keyPair)
}

func registerKeyPair(r *request) (answer, error) {
	owner, err := r.owner()
	if err != nil {
		return answer{}, err
	}
	call, err := r.client.Create(r.ctx, cluster.DesiredResource{Kind: cluster.KeyPair, Name: r.get("name"), Owner: owner})
	if err != nil {
		return answer{}, err
	}
	x, _ := r.o.Cloud.LookupView(cluster.KeyPair, call.Ref.ID)
	return answer{key: "keypair", one: keyPair(x)}, nil
}

func deleteKeyPair(r *request) (answer, error) {
	owner, err := r.owner()
	if err != nil {
		return answer{}, err
	}
	x, ok := r.o.Cloud.LookupView(cluster.KeyPair, r.get("name"))
	if !ok || x.Owner != owner {
		return answer{}, refuse("A key pair with name '%s' does not exist", r.get("name"))
	}
	if _, err := r.client.Act(r.ctx, x.Ref(), cluster.Destroy); err != nil {
		return answer{}, err
	}
	return answer{one: object{"success": true}}, nil
}
