// Package validate checks the requests for clusters: against limits, and against what a
// provider shows.
package validate

import (
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// CreateFacts are the contents of a create request and what is known about them. An
// entry is nil if the provider does not show it to the owner. Where the request
// names nothing, the entry is the default; nil if there is none.
type CreateFacts struct {
	Name, Description  string
	Size, ControlNodes int
	DiskGB             int // 0: that of the template
	MaxWorkers         int // 0: MaxWorkers

	Access            error // ACCESS_REFUSED for the requested owner, or nil
	Enabled           bool  // the account of the owner is enabled
	AccountMaxWorkers int   // limit of workers of the account in one cluster; 0: no limit

	ZoneRequested     string
	Zone              *cluster.Entry
	OfferingRequested string
	Offering          *cluster.Entry
	MinCores          int // of the version; 0: 1
	MinMemoryMB       int // of the version; 0: 512
	KeyPairRequested  string
	KeyPair           *cluster.Entry
	Registry          RegistryFacts

	TemplateRequested string
	Template          *cluster.Entry
	NeedsNetwork      bool           // the provider creates networks
	NetworkOffering   *cluster.Entry // for a network that Pawl creates
	NetworkRequested  string
	Network           *cluster.Entry
	CIDRs             []string
}

// RegistryFacts are the credentials of an image registry.
type RegistryFacts struct{ Username, Password, URL, Email string }

// check is a named check of a request.
type check struct {
	Name string
	Run  func(*CreateFacts) error
}

// createChecks are the checks of a create request, in this order.
var createChecks = []check{
	{"Name", checkName},
	{"Size", checkSize},
	{"Access", checkAccess},
	{"Zone", checkZone},
	{"Offering", checkOffering},
	{"KeyPair", checkKeyPair},
	{"Registry", checkRegistry},
	{"Template", checkTemplate},
	{"Network", checkNetwork},
	{"CIDRs", func(f *CreateFacts) error { return CIDRs(f.CIDRs) }},
}

// Create runs the checks and returns the first fault: CLUSTER_INVALID,
// ENTITY_REFUSED or ACCESS_REFUSED.
func Create(f *CreateFacts) error {
	for _, c := range createChecks {
		if err := c.Run(f); err != nil {
			return err
		}
	}
	return nil
}

// maxName is the greatest length of a name, maxControl the greatest number of control nodes of a cluster, MaxDiskGB the
// greatest root disk of a node in GB.
const (
	maxName    = 255
	maxControl = 7
	MaxDiskGB  = 65536
)

func invalid(parameter, format string, args ...any) error {
	return cluster.ClusterInvalid.Errorf(format, args...).With("parameter", parameter)
}

func refusal(kind *fault.Kind, parameter, format string, args ...any) error {
	return kind.Errorf(format, args...).With("parameter", parameter)
}

func checkName(f *CreateFacts) error {
	switch {
	case strings.TrimSpace(f.Name) == "":
		return invalid("name", "name is empty")
	case len(f.Name) > maxName:
		return invalid("name", "name has %d bytes, at most %d are allowed", len(f.Name), maxName)
	case strings.ContainsFunc(f.Name, unicode.IsControl):
		return invalid("name", "name has control characters")
	case cluster.CleanName(f.Name) == "":
		return invalid("name", "name %q has no letter or digit of which a host name could be made", f.Name)
	}
	return nil
}

func checkSize(f *CreateFacts) error {
	if err := validSize("size", f.Size, f.MaxWorkers); err != nil {
		return err
	}
	switch {
	case f.AccountMaxWorkers > 0 && f.Size > f.AccountMaxWorkers:
		return invalid("size", "size %d: the account may have at most %d workers in a cluster", f.Size, f.AccountMaxWorkers)
	case f.ControlNodes < 1 || f.ControlNodes > maxControl || f.ControlNodes%2 == 0:
		return invalid("controlnodes", "controlnodes %d is not an odd number from 1 to %d", f.ControlNodes, maxControl)
	case f.DiskGB < 0 || f.DiskGB > MaxDiskGB:
		return invalid("noderootdisksize", "a root disk of %d GB is not from 1 to %d GB", f.DiskGB, MaxDiskGB)
	}
	return nil
}

func validSize(parameter string, size, most int) error {
	if most <= 0 {
		most = cluster.MaxWorkers
	}
	if size < 1 || size > most {
		return invalid(parameter, "%s %d is not from 1 to %d", parameter, size, most)
	}
	return nil
}

func checkAccess(f *CreateFacts) error {
	switch {
	case f.Access != nil:
		return f.Access
	case !f.Enabled:
		return refusal(cluster.AccessRefused, "account", "the account is disabled")
	}
	return nil
}

func checkZone(f *CreateFacts) error {
	switch {
	case f.Zone == nil:
		return refusal(cluster.EntityRefused, "zoneid", "there is no zone %q", f.ZoneRequested)
	case f.Zone.Disabled:
		return refusal(cluster.AccessRefused, "zoneid", "zone %s is disabled", f.Zone.Name)
	}
	return nil
}

func checkOffering(f *CreateFacts) error {
	cores, memory := max(1, f.MinCores), f.MinMemoryMB
	if memory <= 0 {
		memory = 512
	}
	o := f.Offering
	switch {
	case o == nil:
		return refusal(cluster.EntityRefused, "serviceofferingid", "there is no service offering %q", f.OfferingRequested)
	case !f.inZone(o):
		return refusal(cluster.EntityRefused, "serviceofferingid", "service offering %s is not in zone %s", o.Name, f.Zone.Name)
	case o.Disabled:
		return refusal(cluster.EntityRefused, "serviceofferingid", "service offering %s is disabled", o.Name)
	case o.Custom:
		return refusal(cluster.EntityRefused, "serviceofferingid", "service offering %s has no fixed size", o.Name)
	case o.Cores < cores:
		return refusal(cluster.EntityRefused, "serviceofferingid", "service offering %s has %d cores, at least %d are needed", o.Name, o.Cores, cores)
	case o.MemoryMB < memory:
		return refusal(cluster.EntityRefused, "serviceofferingid", "service offering %s has %d MB of memory, at least %d are needed", o.Name, o.MemoryMB, memory)
	}
	return nil
}

// inZone reports whether an entry can be used in the requested zone.
func (f *CreateFacts) inZone(e *cluster.Entry) bool { return e.Zone == "" || e.Zone == f.Zone.ID }

func checkKeyPair(f *CreateFacts) error {
	if f.KeyPairRequested != "" && f.KeyPair == nil {
		return refusal(cluster.EntityRefused, "keypair", "the owner has no key pair %q", f.KeyPairRequested)
	}
	return nil
}

func checkRegistry(f *CreateFacts) error {
	given := 0
	r := f.Registry
	for _, v := range []string{r.Username, r.Password, r.URL, r.Email} {
		if v != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil
	case given < 4:
		return invalid("dockerregistryurl", "of a registry, user name, password, URL and mail address are given together or not at all")
	}
	address := r.URL
	if !strings.Contains(address, "://") {
		address = "https://" + address // users often leave out the scheme
	}
	if u, err := url.Parse(address); err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return invalid("dockerregistryurl", "the URL of the registry is invalid")
	}
	if a, err := mail.ParseAddress(r.Email); err != nil || a.Address != r.Email {
		return invalid("dockerregistryemail", "%q is no mail address", r.Email)
	}
	return nil
}

func checkTemplate(f *CreateFacts) error {
	switch {
	case f.Template == nil && f.TemplateRequested == "":
		return refusal(cluster.EntityRefused, "templateid", "no template is configured; name one")
	case f.Template == nil:
		return refusal(cluster.EntityRefused, "templateid", "there is no template %q", f.TemplateRequested)
	case !f.inZone(f.Template):
		return refusal(cluster.EntityRefused, "templateid", "template %s is not in zone %s", f.Template.Name, f.Zone.Name)
	case f.Template.Disabled:
		return refusal(cluster.EntityRefused, "templateid", "template %s is disabled", f.Template.Name)
	case f.NeedsNetwork && f.NetworkRequested == "" && f.NetworkOffering == nil:
		return refusal(cluster.EntityRefused, "networkid", "no network offering is configured; name a network")
	}
	return nil
}

// networkServices are the services that a network must have.
var networkServices = []string{"SourceNat", "Dhcp", "UserData", "Firewall", "PortForwarding"}

func checkNetwork(f *CreateFacts) error {
	n := f.Network
	switch {
	case f.NetworkRequested == "":
		return nil
	case n == nil:
		return refusal(cluster.EntityRefused, "networkid", "there is no network %q for the owner", f.NetworkRequested)
	case !f.inZone(n):
		return refusal(cluster.EntityRefused, "networkid", "network %s is not in zone %s", n.Name, f.Zone.Name)
	case n.System:
		return refusal(cluster.EntityRefused, "networkid", "network %s is a system network", n.Name)
	}
	for _, s := range networkServices {
		if !slices.ContainsFunc(n.Services, func(has string) bool { return strings.EqualFold(has, s) }) {
			return refusal(cluster.EntityRefused, "networkid", "network %s does not have the service %s", n.Name, s)
		}
	}
	switch {
	case n.InUse != "":
		return refusal(cluster.EntityRefused, "networkid", "network %s is used by another cluster", n.Name)
	case n.Port6443InUse:
		return refusal(cluster.EntityRefused, "networkid", "network %s has a rule on port 6443 already", n.Name)
	}
	return nil
}

// CIDRs checks a list of networks. CLUSTER_INVALID names the bad one.
func CIDRs(cidrs []string) error {
	for _, c := range cidrs {
		if _, err := netip.ParsePrefix(c); err != nil {
			return invalid("cidrlist", "%q is not a network such as 192.0.2.0/24", c)
		}
	}
	return nil
}

// ScaleFacts are the contents of a scale request.
type ScaleFacts struct {
	Size       int // 0: not given
	NodeIDs    []string
	Autoscale  *cluster.Autoscale
	Nodes      []cluster.Node // of the cluster
	MaxWorkers int            // 0: MaxWorkers
}

// Scale checks a scale request: exactly one of size, node ids and
// autoscaling. CLUSTER_INVALID.
func Scale(f ScaleFacts) error {
	if f.MaxWorkers <= 0 {
		f.MaxWorkers = cluster.MaxWorkers
	}
	switch {
	case f.Autoscale != nil && (f.Size != 0 || len(f.NodeIDs) > 0):
		return invalid("autoscalingenabled", "autoscaling excludes size and nodeids")
	case f.Size != 0 && len(f.NodeIDs) > 0:
		return invalid("nodeids", "nodeids exclude size")
	case f.Autoscale != nil:
		return validAutoscale(*f.Autoscale, f.MaxWorkers)
	case len(f.NodeIDs) > 0:
		_, err := cluster.Victims(f.Nodes, f.NodeIDs, 0)
		return err
	case f.Size == 0:
		return invalid("size", "one of size, nodeids and autoscalingenabled is needed; size is at least 1")
	}
	return validSize("size", f.Size, f.MaxWorkers)
}

func validAutoscale(a cluster.Autoscale, most int) error {
	switch {
	case !a.Enabled && (a.Min != 0 || a.Max != 0):
		return invalid("minsize", "minsize and maxsize are for autoscaling that is enabled")
	case !a.Enabled:
		return nil
	case a.Min < 1 || a.Min >= a.Max || a.Max > most:
		return invalid("minsize", "minsize %d, maxsize %d: 1 <= minsize < maxsize <= %d must hold", a.Min, a.Max, most)
	}
	return nil
}

// Description checks the length of a description. CLUSTER_INVALID.
func Description(text string) error {
	if len(text) > cluster.MaxDescription {
		return cluster.ClusterInvalid.Errorf("the description has %d bytes, at most %d are kept", len(text), cluster.MaxDescription).With("parameter", "description")
	}
	return nil
}
