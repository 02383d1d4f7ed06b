package cloudstack

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// maxName is the longest name of a VM: one label of a host name.
const maxName = 63

// create returns the command that creates a resource of the kind.
func (s *kindSpec) create() string {
	return map[cluster.Kind]string{
		cluster.VM: "deployVirtualMachine", cluster.Network: "createNetwork", cluster.Address: "associateIpAddress",
		cluster.Firewall: "createFirewallRule", cluster.Forward: "createPortForwardingRule", cluster.Balancer: "createLoadBalancerRule",
	}[s.kind]
}

// valid refuses a want that the API would misunderstand.
func (p *Provider) valid(w *cluster.DesiredResource) (*kindSpec, error) {
	s, err := kindSpecOf(w.Kind)
	if err != nil {
		return nil, err
	}
	refuse := func(format string, args ...any) (*kindSpec, error) {
		return nil, cluster.ProviderRefused.Errorf(format, args...)
	}
	switch {
	case w.Name == "" || len(w.Name) > maxName:
		return refuse("%s %q: a name has 1 to %d characters", w.Kind, w.Name, maxName)
	case w.Key == "":
		return refuse("%s %s has no key", w.Kind, w.Name)
	case w.Tags[cluster.TagInstallation] != p.o.Installation:
		return refuse("%s %s is of installation %q, not of %q", w.Kind, w.Name, w.Tags[cluster.TagInstallation], p.o.Installation)
	case w.Tags[cluster.TagCluster] == "" || w.Tags[cluster.TagKey] != w.Key:
		return refuse("%s %s lacks the tags of its cluster and key", w.Kind, w.Name)
	case w.Spec.Zone != "" && !p.zoneAllowed(w.Spec.Zone):
		return refuse("%s %s: zone %s is not configured for this provider", w.Kind, w.Name, w.Spec.Zone)
	}
	return s, nil
}

// Create creates a resource unless it exists. It first removes a VM that a failed create
// has left. PROVIDER_REFUSED for an invalid want.
func (p *Provider) Create(ctx context.Context, w cluster.DesiredResource) (cluster.Call, error) {
	s, err := p.valid(&w)
	if err != nil {
		return cluster.Call{}, err
	}
	if len(w.Spec.UserData) > maxUserData {
		return cluster.Call{}, cluster.ProviderRefused.Errorf("VM %s: user data of %d bytes; the maximum is %d", w.Name, len(w.Spec.UserData), maxUserData)
	}
	unlock, err := p.keys.lock(ctx, string(w.Kind)+"/"+w.Name)
	if err != nil {
		return cluster.Call{}, unanswered(s.create(), err)
	}
	defer unlock()
	if err := p.learn(ctx); err != nil {
		return cluster.Call{}, err
	}
	found, free, err := p.lookup(ctx, s, &w)
	if err != nil {
		return cluster.Call{}, err
	}
	if found != nil && found.Power == cluster.PowerBroken {
		// Only a VM that was never deployed has the state Error.
		if err := p.destroyFailed(ctx, found); err != nil {
			return cluster.Call{}, err
		}
		// The job id belongs to the removed VM: look up the next free id.
		if found, free, err = p.lookup(ctx, s, &w); err != nil {
			return cluster.Call{}, err
		}
	}
	if found != nil {
		return p.finish(ctx, s, &w, found)
	}
	return p.sendCreate(ctx, s, &w, free)
}

// createResponse is the answer of a create command.
type createResponse struct {
	ID      text  `json:"id"`
	Job     text  `json:"jobid"`
	Network *item `json:"network"`
	Success *flag `json:"success"`
	Text    text  `json:"displaytext"`
}

func (p *Provider) sendCreate(ctx context.Context, s *kindSpec, w *cluster.DesiredResource, job string) (cluster.Call, error) {
	r := request{command: s.create(), zone: w.Spec.Zone, params: p.createParams(w), changes: true}
	r.params[customJobID] = job // an empty value is not sent
	var answer createResponse
	err := p.call(ctx, r, &answer)
	var refused *refusal
	if errors.As(err, &refused) && refused.unknownID() {
		// Another process may have been faster: the job id or the name is in use.
		if found, _, again := p.lookup(ctx, s, w); again == nil && found != nil && found.Power != cluster.PowerBroken {
			return p.finish(ctx, s, w, found)
		}
	}
	if err != nil {
		return cluster.Call{}, err
	}
	if answer.Network != nil {
		answer.ID = answer.Network.ID
	}
	if answer.ID == "" {
		return cluster.Call{}, unreadable(r.command, "it names nothing")
	}
	p.recent.put(w, string(answer.ID))
	fresh := &match{untagged: true, Resource: cluster.Resource{Kind: w.Kind, ID: string(answer.ID), Identity: string(answer.ID), Name: w.Name, Zone: w.Spec.Zone}}
	if w.Kind == cluster.Address {
		fresh.Identity = "" // unknown until the resource is read
	}
	call, err := p.finish(ctx, s, w, fresh)
	if err != nil {
		return cluster.Call{}, err // Find finds the resource by name or call id
	}
	call.Job = joinJobs(string(answer.Job), call.Job)
	call.Done = call.Job == ""
	return call, nil
}

// createParams returns the parameters of the create command.
func (p *Provider) createParams(w *cluster.DesiredResource) params {
	spec := &w.Spec
	all := params{}
	switch w.Kind {
	case cluster.VM:
		all = params{
			"zoneid": spec.Zone, "serviceofferingid": spec.Offering, "templateid": spec.Template, "networkids": spec.Network,
			"name": w.Name, "displayname": w.Name, "keypair": spec.KeyPair, "userdata": base64.StdEncoding.EncodeToString(spec.UserData),
		}
		if spec.DiskGB > 0 {
			all[rootDiskSize] = strconv.Itoa(spec.DiskGB)
		}
	case cluster.Network:
		all = params{"zoneid": spec.Zone, "networkofferingid": spec.Offering, "name": w.Name, "displaytext": w.Name}
	case cluster.Address:
		all = params{"zoneid": spec.Zone, "networkid": spec.Network}
	case cluster.Firewall:
		return params{
			"ipaddressid": spec.Address, "protocol": protocol(*spec), "startport": strconv.Itoa(spec.Port), "endport": strconv.Itoa(spec.Port),
			"cidrlist": strings.Join(spec.CIDRs, ","),
		}
	case cluster.Forward:
		return params{
			"ipaddressid": spec.Address, "protocol": protocol(*spec), "publicport": strconv.Itoa(spec.Port),
			"privateport": strconv.Itoa(privatePort(*spec)), "virtualmachineid": spec.VM, "openfirewall": "false",
		}
	case cluster.Balancer:
		return params{
			"publicipid": spec.Address, "protocol": protocol(*spec), "publicport": strconv.Itoa(spec.Port),
			"privateport": strconv.Itoa(privatePort(*spec)), "algorithm": "roundrobin", "name": w.Name, "openfirewall": "false",
		}
	}
	maps.Copy(all, p.accountParams(w.Owner))
	return all
}

// accountParams returns the parameters that set the owner. Empty: the account of the key.
func (p *Provider) accountParams(owner cluster.Owner) params {
	by := params{}
	if p.o.Account != nil && owner != (cluster.Owner{}) {
		by["account"], by["domainid"] = p.o.Account(owner)
	}
	return by
}

func protocol(s cluster.Spec) string { return cmp.Or(strings.ToLower(s.Protocol), "tcp") }

func privatePort(s cluster.Spec) int { return cmp.Or(s.PrivatePort, s.Port) }

// finish completes a created resource: VMs of a balancer, then tags. The tags come last,
// so a tagged resource is complete.
func (p *Provider) finish(ctx context.Context, s *kindSpec, w *cluster.DesiredResource, found *match) (cluster.Call, error) {
	call := cluster.Call{Ref: found.Ref()}
	if !found.untagged {
		var err error
		call.Job, err = p.openJob(ctx, s, w, found)
		call.Done = call.Job == ""
		return call, err
	}
	var assigning string
	if s.kind == cluster.Balancer && len(w.Spec.VMs) > 0 {
		var err error
		if assigning, err = p.assign(ctx, found, w); err != nil {
			return cluster.Call{}, err
		}
	}
	tagging, err := p.tag(ctx, s, w, found)
	if err != nil {
		return cluster.Call{}, err
	}
	running, err := p.openJob(ctx, s, w, found)
	if err != nil {
		return cluster.Call{}, err
	}
	call.Job = joinJobs(running, assigning, tagging)
	call.Done = call.Job == ""
	return call, nil
}

// openJob returns the job of the call id if it is still creating the resource.
func (p *Provider) openJob(ctx context.Context, s *kindSpec, w *cluster.DesiredResource, found *match) (string, error) {
	if found.Power != cluster.PoweringOn || w.CallID == "" || !p.apis.accepts(s.create(), customJobID) {
		return "", nil
	}
	switch j, err := p.job(ctx, w.CallID, w.Spec.Zone); {
	case errors.Is(err, errNoJob):
		return "", nil
	case err != nil:
		return "", err
	case *j.Status != jobOpen || j.createdID() != found.ID:
		return "", nil
	}
	return w.CallID, nil
}

// assign adds the missing VMs to a balancer.
func (p *Provider) assign(ctx context.Context, found *match, w *cluster.DesiredResource) (job string, err error) {
	has, err := p.balancerVMs(ctx, found.ID, w.Spec.Zone)
	if err != nil {
		return "", err
	}
	lacks := slices.DeleteFunc(slices.Clone(w.Spec.VMs), func(id string) bool { return slices.Contains(has, id) })
	if len(lacks) == 0 {
		return "", nil
	}
	return p.sendAsync(ctx, "assignToLoadBalancerRule", w.Spec.Zone, params{"id": found.ID, "virtualmachineids": strings.Join(lacks, ",")})
}

// tag adds the tags of a want to a resource.
func (p *Provider) tag(ctx context.Context, s *kindSpec, w *cluster.DesiredResource, found *match) (job string, err error) {
	tags := maps.Clone(w.Tags)
	if s.name == "" {
		tags[tagName] = w.Name
	}
	if !s.zone {
		tags[tagZone] = w.Spec.Zone
	}
	tags[tagAccount] = w.Owner.AccountID
	all := params{"resourceids": found.ID, "resourcetype": s.tagged}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == "" {
			continue
		}
		all[indexed("tags", n, "key")], all[indexed("tags", n, "value")] = key, tags[key]
		n++
	}
	job, err = p.sendAsync(ctx, "createTags", w.Spec.Zone, all)
	var refused *refusal
	if errors.As(err, &refused) && refused.unknownID() {
		// Another server may have tagged it between the read and the call.
		if it, again := p.byID(ctx, s, found.ID, w.Spec.Zone); again == nil {
			r := s.toResource(it, w.Spec.Zone)
			if claimOf(&r, w) == claimOurs {
				err = nil
			}
		}
	}
	if err != nil {
		return "", err
	}
	found.Tags, found.untagged = maps.Clone(w.Tags), false
	if s.name == "" {
		found.Name = w.Name
	}
	return job, nil
}

// sendAsync sends a changing command that answers with a job.
func (p *Provider) sendAsync(ctx context.Context, command, zone string, by params) (job string, err error) {
	var answer createResponse
	if err := p.call(ctx, request{command: command, zone: zone, params: by, changes: true}, &answer); err != nil {
		return "", err
	}
	if answer.Job == "" && answer.Success == nil {
		return "", unreadable(command, "it names no job")
	}
	if answer.Job == "" && !bool(*answer.Success) {
		r := refusal{Command: command, Text: string(answer.Text), Code: codeInternal}
		return "", r.fault()
	}
	return string(answer.Job), nil
}

// destroyFailed destroys the VM of a failed deployment and waits for the end.
func (p *Provider) destroyFailed(ctx context.Context, found *match) error {
	job, err := p.sendAsync(ctx, "destroyVirtualMachine", found.Zone, params{"id": found.ID, "expunge": "true"})
	if err != nil {
		return err
	}
	call := cluster.Call{Job: job, Ref: found.Ref()}
	for {
		progress, err := p.Poll(ctx, call)
		switch {
		case errors.Is(err, cluster.ErrGone):
			return nil
		case err != nil:
			return err
		case progress.Done:
			return progress.Err
		}
		if err := pause(ctx, progress.PollAfter); err != nil {
			return unanswered("destroyVirtualMachine", err)
		}
	}
}
