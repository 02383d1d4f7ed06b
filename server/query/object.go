package query

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/fault"
)

// shown is a cluster with what an answer says of it beside its row.
type shown struct {
	*cluster.Cluster
	nodes           []cluster.Node
	vms             []string // the provider's ids of nodes, control nodes first
	account, domain string
	reach           cluster.Reach
	version         service.Version
	reason, awaited string
	standing        service.Standing
	password        cluster.Secret // only in the owner's create job
	kube            bool
}

// field is a line of an object: what answers hold, and what listApis says of it.
type field struct {
	name, kind, about string
	of                func(*shown) value
}

// Both shapes begin alike.
var clusterFields = []field{
	{"id", "string", "the id of the cluster", func(s *shown) value { return textOf(s.UUID) }},
	{"name", "string", "its name", func(s *shown) value { return textOf(s.Name) }},
	{"description", "string", "its description", func(s *shown) value { return textOf(s.Description) }},
	{"zoneid", "string", "the zone it is in", func(s *shown) value { return textOf(s.Zone.ID) }},
	{"zonename", "string", "the name of the zone", func(s *shown) value { return textOf(s.Zone.Name) }},
	{"serviceofferingid", "string", "the offering of its nodes", func(s *shown) value { return textOf(s.Offering.ID) }},
	{"serviceofferingname", "string", "the name of the offering", func(s *shown) value { return textOf(s.Offering.Name) }},
	{"templateid", "string", "the template of its nodes", func(s *shown) value { return textOf(s.Template.ID) }},
	{"networkid", "string", "its network", func(s *shown) value { return textOf(s.Network.ID) }},
	{"associatednetworkname", "string", "the name of its network", func(s *shown) value { return textOf(s.Network.Name) }},
	{"keypair", "string", "the key pair of its nodes", func(s *shown) value { return textOf(s.KeyPair) }},
	{"clustersize", "integer", "workers that are wanted", func(s *shown) value { return numberOf(s.NodeCount) }},
	{"controlnodes", "integer", "control nodes that are wanted", func(s *shown) value { return numberOf(s.ControlCount) }},
	{"state", "string", "its state", func(s *shown) value { return textOf(s.state()) }},
	{"cpunumber", "string", "cores of all nodes", func(s *shown) value { return quotedOf(s.Cores) }},
	{"memory", "string", "memory of all nodes in MB", func(s *shown) value { return quotedOf(s.MemoryMB) }},
	{"endpoint", "string", "where it is reached", func(s *shown) value { return textOf(s.Endpoint) }},
	{"consoleendpoint", "string", "where its console is reached", func(s *shown) value { return textOf(s.ConsoleEndpoint) }},
	{"virtualmachineids", "list", "the VMs of its nodes, control nodes first", func(s *shown) value { return listOf(s.vms) }},
	{"account", "string", "the account that owns it", func(s *shown) value { return textOf(s.account) }},
	{"domainid", "string", "the domain of the owner", func(s *shown) value { return textOf(s.Owner.DomainID) }},
	{"domain", "string", "the name of the domain", func(s *shown) value { return textOf(s.domain) }},
	{"created", "date", "when it was made", func(s *shown) value { return dateOf(s.Created) }},
	{"username", "string", "the user of its endpoint", func(s *shown) value { return textOf(s.reach.Username) }},
	{"password", "string", "the password of that user; only in the result of the owner's create job", func(s *shown) value { return textOf(s.password.Reveal()) }},
	{"desired", "string", "the state that was asked for", func(s *shown) value { return textOf(string(s.Desired)) }},
	{"reasoncode", "string", "the fault that keeps it from there, or from being seen", func(s *shown) value { return textOf(string(s.why().Code)) }},
	{"reason", "string", "the same in words", func(s *shown) value { return textOf(s.reason) }},
	{"remedy", "string", "what ends it", func(s *shown) value { return textOf(s.why().RemedyOf()) }},
	{"waitingstep", "string", "the step of its run that waits", func(s *shown) value { return textOf(s.waiting().Step) }},
	{"waitingfor", "string", "what that step waits for", func(s *shown) value { return textOf(s.awaited) }},
	{"waitingsince", "date", "since when", func(s *shown) value { return whenKnown(s.waiting().Since) }},
	{"waitinguntil", "date", "until when at most", func(s *shown) value { return whenKnown(s.waiting().Until) }},
	{"step", "string", "the step that failed", func(s *shown) value { return textOf(s.Reason.Step) }},
	{"jobid", "string", "the job that is under way", func(s *shown) value { return textOf(s.job()) }},
	{"nextattempt", "date", "when it is tried again", func(s *shown) value { return s.next() }},
}

var containerFields = slices.Concat(clusterFields, []field{
	{"size", "string", "workers that are wanted", func(s *shown) value { return quotedOf(s.NodeCount) }},
})

var kubeFields = slices.Concat(clusterFields, []field{
	{"size", "integer", "workers that are wanted", func(s *shown) value { return numberOf(s.NodeCount) }},
	{"masternodes", "integer", "control nodes that are wanted", func(s *shown) value { return numberOf(s.ControlCount) }},
	{"kubernetesversionid", "string", "the version of its nodes", func(s *shown) value { return textOf(s.Version) }},
	{"kubernetesversionname", "string", "the name of the version", func(s *shown) value { return textOf(s.version.Name) }},
	{"autoscalingenabled", "boolean", "whether an autoscaler changes its size", func(s *shown) value { return flagOf(s.Autoscale.Enabled) }},
	{"minsize", "integer", "the least it scales to", func(s *shown) value { return whenSome(s.Autoscale.Min) }},
	{"maxsize", "integer", "the most it scales to", func(s *shown) value { return whenSome(s.Autoscale.Max) }},
	{"clustertype", "string", "always CloudManaged", func(*shown) value { return textOf(managed) }},
	{"ipaddress", "string", "the address of its endpoint", func(s *shown) value { return textOf(s.address()) }},
	{"ipaddressid", "string", "the id of that address", func(s *shown) value { return textOf(s.reach.AddressID) }},
	{"virtualmachines", "list", "its nodes, control nodes first", func(s *shown) value { return objectOf(s.machines()) }},
})

const managed = "CloudManaged"

func whenSome(n int) value {
	if n == 0 {
		return value{}
	}
	return numberOf(n)
}

// fields are those of its family.
func (s *shown) fields() []field {
	if s.kube {
		return kubeFields
	}
	return containerFields
}

// object is the cluster in the shape of its family.
func (s *shown) object() object {
	o := object{}
	for _, f := range s.fields() {
		v := f.of(s)
		o.set(f.name, v.any())
	}
	return o
}

// State words of the alias family.
const (
	destroying = "Destroying"
	upgrading  = "Upgrading"
)

func (s *shown) state() string {
	switch {
	case s.kube && (s.State == cluster.Expunge || s.State == cluster.Expunging):
		return destroying
	case s.kube && isUpgrade(s.Cluster):
		return upgrading
	}
	return string(s.State)
}

func isUpgrade(c *cluster.Cluster) bool {
	return c.State == cluster.Scaling && c.Request != nil && c.Request.Kind == cluster.RequestUpgrade
}

func (s *shown) job() string {
	if s.Request == nil {
		return ""
	}
	return s.Request.Job
}

// next is when the policy or the collector tries again.
func (s *shown) next() value {
	switch {
	case s.State == cluster.Alert && !s.RecoverNext.IsZero():
		return dateOf(s.RecoverNext)
	case s.State == cluster.Expunge && !s.GCNext.IsZero():
		return dateOf(s.GCNext)
	}
	return value{}
}

// ordered are the nodes as answers list them.
func ordered(nodes []cluster.Node) []cluster.Node {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b cluster.Node) int {
		if a.Role != b.Role {
			return strings.Compare(string(a.Role), string(b.Role)) // control before worker
		}
		return a.Ordinal - b.Ordinal
	})
	return nodes
}

// vmIDs are the provider's ids of nodes that have one.
func vmIDs(nodes []cluster.Node) []string {
	ids := []string{}
	for _, n := range ordered(nodes) {
		if n.VMID != "" {
			ids = append(ids, n.VMID)
		}
	}
	return ids
}

func (s *shown) machines() []object {
	list := []object{}
	for _, n := range ordered(s.nodes) {
		vm := object{"name": n.Name, "displayname": n.Name, "state": s.power(n), "isexternalnode": false, "isetcdnode": false}
		vm.set("id", n.VMID)
		vm.set("zoneid", s.Zone.ID)
		vm.set("ipaddress", n.Address)
		if n.Address != "" {
			vm["nic"] = []object{{"ipaddress": n.Address, "isdefault": true}}
		}
		list = append(list, vm)
	}
	return list
}

// power is the state of a VM as the newest pass has found it.
func (s *shown) power(n cluster.Node) string {
	for _, f := range s.Findings {
		if f.Resource != n.Name {
			continue
		}
		switch f.Type {
		case cluster.Missing:
			return "Destroyed"
		case cluster.UnknownState:
			return "Unknown"
		case cluster.PowerState:
			if s.Desired == cluster.WantStopped {
				return "Running"
			}
			return "Stopped"
		}
	}
	switch {
	case n.VMID == "", n.ReadyAt.IsZero() && cluster.Transient(s.State):
		return "Starting"
	case s.State == cluster.Stopped:
		return "Stopped"
	}
	return "Running"
}

func (s *shown) address() string {
	u, err := url.Parse(s.Endpoint)
	if err != nil || net.ParseIP(u.Hostname()) == nil {
		return ""
	}
	return u.Hostname()
}

// why is the reason of the cluster; without one, why its provider cannot be seen.
func (s *shown) why() cluster.Reason {
	if u := s.standing.Unseen; u != nil && s.Reason.Code == "" {
		return cluster.Reason{Code: fault.Code(u.Code), Text: u.Text + " (since " + date(u.Since) + ")"}
	}
	return s.Reason
}

// waiting is what its run waits for; empty if there is none.
func (s *shown) waiting() service.Waiting {
	if w := s.standing.Waiting; w != nil {
		return *w
	}
	return service.Waiting{}
}

// awaited is what a run waits for in words, with the newest failure as far as the caller may read it.
func (c *call) awaited(w *service.Waiting) string {
	switch {
	case w == nil:
		return ""
	case w.Code == "":
		return w.For
	}
	text := w.For + "; " + w.Code + ": " + told(fault.Code(w.Code), w.Error, c.who.Operator)
	if w.Tries > 1 {
		text += ", attempt " + strconv.Itoa(w.Tries)
	}
	return text
}

func whenKnown(t time.Time) value {
	if t.IsZero() {
		return value{}
	}
	return dateOf(t)
}

// stand asks what clusters wait for, for what is shown of them then.
func (c *call) stand(ctx context.Context, clusters []cluster.Cluster) (err error) {
	c.standings, err = c.options.Clusters.Standings(ctx, clusters)
	return err
}

// show gathers what an answer says of one cluster.
func (c *call) show(ctx context.Context, b *cluster.Record, kube bool) (*shown, error) {
	s := new(shown)
	if err := c.stand(ctx, []cluster.Cluster{b.Cluster}); err != nil {
		return nil, err
	}
	if err := c.showOne(ctx, s, &b.Cluster, b.Nodes, kube); err != nil {
		return nil, err
	}
	reach, err := c.options.Clusters.Reach(ctx, []cluster.Cluster{b.Cluster})
	s.reach = reach[b.Cluster.ID]
	return s, err
}

func (c *call) showOne(ctx context.Context, s *shown, one *cluster.Cluster, nodes []cluster.Node, kube bool) error {
	account, domain, err := c.namesOf(ctx, one.Owner)
	if err != nil {
		return err
	}
	*s = shown{Cluster: one, nodes: nodes, vms: vmIDs(nodes), account: account, domain: domain, kube: kube}
	s.standing = c.standings[one.UUID]
	if why := s.why(); why.Code != "" {
		s.reason = told(why.Code, why.Text, c.who.Operator)
	}
	s.awaited = c.awaited(s.standing.Waiting)
	for _, v := range c.options.Clusters.Versions() {
		if v.ID == one.Version {
			s.version = v
		}
	}
	return nil
}

// namesOf gives the names of an owner's account and domain, once a request.
func (c *call) namesOf(ctx context.Context, o cluster.Owner) (account, domain string, err error) {
	known, ok := c.names[o]
	if !ok {
		if known[0], known[1], _, err = c.directory.Names(ctx, o); err != nil {
			return "", "", err
		}
		c.names[o] = known
	}
	return known[0], known[1], nil
}
