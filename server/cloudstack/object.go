package cloudstack

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
)

// clusterView is a cluster with the further data that answers need.
type clusterView struct {
	*cluster.Cluster
	nodes              []cluster.Node
	vms                []string // the provider's ids of nodes, control nodes first
	account, domain    string
	reach              cluster.Reach
	version            settings.Version
	reason, waitingFor string
	standing           api.Explanation
	password           cluster.Secret // only in the owner's create job
	kube               bool
}

// field is a field of an answer: its value, and its description for listApis.
type field struct {
	name, kind, description string
	of                      func(*clusterView) value
}

// clusterFields are the first fields of a cluster in both families.
var clusterFields = []field{
	{"id", "string", "the id of the cluster", func(s *clusterView) value { return textOf(s.UUID) }},
	{"name", "string", "its name", func(s *clusterView) value { return textOf(s.Name) }},
	{"description", "string", "its description", func(s *clusterView) value { return textOf(s.Description) }},
	{"zoneid", "string", "its zone", func(s *clusterView) value { return textOf(s.Zone.ID) }},
	{"zonename", "string", "the name of the zone", func(s *clusterView) value { return textOf(s.Zone.Name) }},
	{"serviceofferingid", "string", "the offering of its nodes", func(s *clusterView) value { return textOf(s.Offering.ID) }},
	{"serviceofferingname", "string", "the name of the offering", func(s *clusterView) value { return textOf(s.Offering.Name) }},
	{"templateid", "string", "the template of its nodes", func(s *clusterView) value { return textOf(s.Template.ID) }},
	{"networkid", "string", "its network", func(s *clusterView) value { return textOf(s.Network.ID) }},
	{"associatednetworkname", "string", "the name of its network", func(s *clusterView) value { return textOf(s.Network.Name) }},
	{"keypair", "string", "the key pair of its nodes", func(s *clusterView) value { return textOf(s.KeyPair) }},
	{"clustersize", "integer", "desired number of workers", func(s *clusterView) value { return numberOf(s.NodeCount) }},
	{"controlnodes", "integer", "desired number of control nodes", func(s *clusterView) value { return numberOf(s.ControlCount) }},
	{"state", "string", "its state", func(s *clusterView) value { return textOf(s.state()) }},
	{"cpunumber", "string", "cores of all nodes", func(s *clusterView) value { return quotedOf(s.Cores) }},
	{"memory", "string", "memory of all nodes in MB", func(s *clusterView) value { return quotedOf(s.MemoryMB) }},
	{"endpoint", "string", "the URL of its endpoint", func(s *clusterView) value { return textOf(s.Endpoint) }},
	{"consoleendpoint", "string", "the URL of its console", func(s *clusterView) value { return textOf(s.ConsoleEndpoint) }},
	{"virtualmachineids", "list", "the VMs of its nodes, control nodes first", func(s *clusterView) value { return listOf(s.vms) }},
	{"account", "string", "the account that owns it", func(s *clusterView) value { return textOf(s.account) }},
	{"domainid", "string", "the domain of the owner", func(s *clusterView) value { return textOf(s.Owner.DomainID) }},
	{"domain", "string", "the name of the domain", func(s *clusterView) value { return textOf(s.domain) }},
	{"created", "date", "when it was created", func(s *clusterView) value { return dateOf(s.Created) }},
	{"username", "string", "the user of its endpoint", func(s *clusterView) value { return textOf(s.reach.Username) }},
	{"password", "string", "the password of that user; only in the result of the owner's create job", func(s *clusterView) value { return textOf(s.password.Reveal()) }},
	{"desired", "string", "the desired state", func(s *clusterView) value { return textOf(string(s.Desired)) }},
	{"reasoncode", "string", "the fault of the cluster, or because of which its provider cannot be read", func(s *clusterView) value { return textOf(string(s.why().Code)) }},
	{"reason", "string", "the message of that fault", func(s *clusterView) value { return textOf(s.reason) }},
	{"remedy", "string", "the remedy of that fault", func(s *clusterView) value { return textOf(s.why().RemedyOf()) }},
	{"waitingstep", "string", "the step of its run that waits", func(s *clusterView) value { return textOf(s.waiting().Step) }},
	{"waitingfor", "string", "what that step waits for", func(s *clusterView) value { return textOf(s.waitingFor) }},
	{"waitingsince", "date", "since when", func(s *clusterView) value { return dateUnlessZero(s.waiting().Since) }},
	{"waitinguntil", "date", "until when at most", func(s *clusterView) value { return dateUnlessZero(s.waiting().Until) }},
	{"step", "string", "the step that failed", func(s *clusterView) value { return textOf(s.Reason.Step) }},
	{"jobid", "string", "the open job", func(s *clusterView) value { return textOf(s.job()) }},
	{"nextattempt", "date", "when recovery or deletion is tried again", func(s *clusterView) value { return s.nextAttempt() }},
}

var containerFields = slices.Concat(clusterFields, []field{
	{"size", "string", "desired number of workers", func(s *clusterView) value { return quotedOf(s.NodeCount) }},
})

var kubeFields = slices.Concat(clusterFields, []field{
	{"size", "integer", "desired number of workers", func(s *clusterView) value { return numberOf(s.NodeCount) }},
	{"masternodes", "integer", "desired number of control nodes", func(s *clusterView) value { return numberOf(s.ControlCount) }},
	{"kubernetesversionid", "string", "the version of its nodes", func(s *clusterView) value { return textOf(s.Version) }},
	{"kubernetesversionname", "string", "the name of the version", func(s *clusterView) value { return textOf(s.version.Name) }},
	{"autoscalingenabled", "boolean", "whether an autoscaler changes its size", func(s *clusterView) value { return flagOf(s.Autoscale.Enabled) }},
	{"minsize", "integer", "minimum size for the autoscaler", func(s *clusterView) value { return nonZero(s.Autoscale.Min) }},
	{"maxsize", "integer", "maximum size for the autoscaler", func(s *clusterView) value { return nonZero(s.Autoscale.Max) }},
	{"clustertype", "string", "always CloudManaged", func(*clusterView) value { return textOf(managed) }},
	{"ipaddress", "string", "the address of its endpoint", func(s *clusterView) value { return textOf(s.address()) }},
	{"ipaddressid", "string", "the id of that address", func(s *clusterView) value { return textOf(s.reach.AddressID) }},
	{"virtualmachines", "list", "its nodes, control nodes first", func(s *clusterView) value { return objectOf(s.machines()) }},
})

const managed = "CloudManaged"

func nonZero(n int) value {
	if n == 0 {
		return value{}
	}
	return numberOf(n)
}

// fields returns the fields of its family.
func (s *clusterView) fields() []field {
	if s.kube {
		return kubeFields
	}
	return containerFields
}

// object returns the cluster with the fields of its family.
func (s *clusterView) object() object {
	o := object{}
	for _, f := range s.fields() {
		v := f.of(s)
		o.set(f.name, v.any())
	}
	return o
}

// State words of the Kubernetes family.
const (
	destroying = "Destroying"
	upgrading  = "Upgrading"
)

func (s *clusterView) state() string {
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

func (s *clusterView) job() string {
	if s.Request == nil {
		return ""
	}
	return s.Request.Job
}

// nextAttempt returns when the policy or the collector tries again.
func (s *clusterView) nextAttempt() value {
	switch {
	case s.State == cluster.Alert && !s.RecoverNext.IsZero():
		return dateOf(s.RecoverNext)
	case s.State == cluster.Expunge && !s.GCNext.IsZero():
		return dateOf(s.GCNext)
	}
	return value{}
}

// ordered returns nodes in the order of answers: control nodes first.
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

// vmIDs returns the provider's ids of the nodes that have one.
func vmIDs(nodes []cluster.Node) []string {
	ids := []string{}
	for _, n := range ordered(nodes) {
		if n.VMID != "" {
			ids = append(ids, n.VMID)
		}
	}
	return ids
}

func (s *clusterView) machines() []object {
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

// power returns the state of a VM according to the newest findings.
func (s *clusterView) power(n cluster.Node) string {
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

func (s *clusterView) address() string {
	u, err := url.Parse(s.Endpoint)
	if err != nil || net.ParseIP(u.Hostname()) == nil {
		return ""
	}
	return u.Hostname()
}

// why returns the reason of the cluster; without one, why its provider cannot be read.
func (s *clusterView) why() cluster.Reason {
	if u := s.standing.Unseen; u != nil && s.Reason.Code == "" {
		return cluster.Reason{Code: fault.Code(u.Code), Text: u.Text + " (since " + date(u.Since) + ")"}
	}
	return s.Reason
}

// waiting returns what its run waits for; zero if it does not wait.
func (s *clusterView) waiting() api.Waiting {
	if w := s.standing.Waiting; w != nil {
		return *w
	}
	return api.Waiting{}
}

// waitingText returns as text what a run waits for, with the newest failure as far as the caller may read it.
func (c *call) waitingText(w *api.Waiting) string {
	switch {
	case w == nil:
		return ""
	case w.Code == "":
		return w.For
	}
	text := w.For + "; " + w.Code + ": " + textFor(fault.Code(w.Code), w.Error, c.who.Operator)
	if w.Tries > 1 {
		text += ", attempt " + strconv.Itoa(w.Tries)
	}
	return text
}

func dateUnlessZero(t time.Time) value {
	if t.IsZero() {
		return value{}
	}
	return dateOf(t)
}

// loadStandings loads what the clusters of an answer wait for.
func (c *call) loadStandings(ctx context.Context, clusters []cluster.Cluster) (err error) {
	c.standings, err = c.options.Clusters.Explanations(ctx, clusters)
	return err
}

// viewOf returns a cluster with the data that an answer needs.
func (c *call) viewOf(ctx context.Context, b *cluster.Record, kube bool) (*clusterView, error) {
	s := new(clusterView)
	if err := c.loadStandings(ctx, []cluster.Cluster{b.Cluster}); err != nil {
		return nil, err
	}
	if err := c.fillView(ctx, s, &b.Cluster, b.Nodes, kube); err != nil {
		return nil, err
	}
	reach, err := c.options.Clusters.Reach(ctx, []cluster.Cluster{b.Cluster})
	s.reach = reach[b.Cluster.ID]
	return s, err
}

func (c *call) fillView(ctx context.Context, s *clusterView, one *cluster.Cluster, nodes []cluster.Node, kube bool) error {
	account, domain, err := c.namesOf(ctx, one.Owner)
	if err != nil {
		return err
	}
	*s = clusterView{Cluster: one, nodes: nodes, vms: vmIDs(nodes), account: account, domain: domain, kube: kube}
	s.standing = c.standings[one.UUID]
	if why := s.why(); why.Code != "" {
		s.reason = textFor(why.Code, why.Text, c.who.Operator)
	}
	s.waitingFor = c.waitingText(s.standing.Waiting)
	for _, v := range c.options.Clusters.Versions() {
		if v.ID == one.Version {
			s.version = v
		}
	}
	return nil
}

// namesOf returns the names of an owner's account and domain. It reads them once per request.
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
