package validate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

func validFacts() *CreateFacts {
	services := []string{"Dhcp", "UserData", "SourceNat", "Firewall", "PortForwarding", "Dns"}
	return &CreateFacts{
		Name: "blue", Size: 3, ControlNodes: 1, Enabled: true,
		ZoneRequested: "z1", Zone: &cluster.Entry{Kind: cluster.Zone, ID: "z1", Name: "north"},
		OfferingRequested: "o1", Offering: &cluster.Entry{Kind: cluster.Offering, ID: "o1", Name: "small", Cores: 1, MemoryMB: 512},
		KeyPairRequested: "me", KeyPair: &cluster.Entry{Kind: cluster.KeyPair, ID: "me"},
		Registry:          RegistryFacts{"u", "p", "registry.example.com:5000", "ops@example.com"},
		TemplateRequested: "t1", Template: &cluster.Entry{Kind: cluster.Template, ID: "t1", Zone: "z1"},
		NeedsNetwork: true, NetworkRequested: "n1", Network: &cluster.Entry{Kind: cluster.Network, ID: "n1", Name: "lan", Zone: "z1", Services: services},
		CIDRs: []string{"192.0.2.0/24", "2001:db8::/32"},
	}
}

// Each check of a create request, violated in each way.
func TestValidateCreate(t *testing.T) {
	if err := Create(validFacts()); err != nil {
		t.Fatalf("what is right is refused: %v", err)
	}
	for _, c := range []struct {
		check string
		kind  *fault.Kind
		do    func(f *CreateFacts)
	}{
		{"Name", cluster.ClusterInvalid, func(f *CreateFacts) { f.Name = " " }},
		{"Name", cluster.ClusterInvalid, func(f *CreateFacts) { f.Name = "!!!" }},
		{"Name", cluster.ClusterInvalid, func(f *CreateFacts) { f.Name = "a\x00b" }},
		{"Name", cluster.ClusterInvalid, func(f *CreateFacts) { f.Name = strings.Repeat("a", 256) }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.Size = 0 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.Size = 101 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.MaxWorkers = 2 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.AccountMaxWorkers = 2 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = 2 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = -1 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = 9 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.DiskGB = -1 }},
		{"Size", cluster.ClusterInvalid, func(f *CreateFacts) { f.DiskGB = MaxDiskGB + 1 }},
		{"Access", cluster.AccessRefused, func(f *CreateFacts) { f.Access = cluster.AccessRefused.Errorf("not yours") }},
		{"Access", cluster.AccessRefused, func(f *CreateFacts) { f.Enabled = false }},
		{"Zone", cluster.EntityRefused, func(f *CreateFacts) { f.Zone = nil }},
		{"Zone", cluster.AccessRefused, func(f *CreateFacts) { f.Zone.Disabled = true }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.Offering = nil }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.Offering.Custom = true }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.Offering.Cores = 0 }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.Offering.MemoryMB = 511 }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.MinCores = 2 }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.MinMemoryMB = 1024 }},
		{"Offering", cluster.EntityRefused, func(f *CreateFacts) { f.Offering.Zone = "z2" }},
		{"KeyPair", cluster.EntityRefused, func(f *CreateFacts) { f.KeyPair = nil }},
		{"Registry", cluster.ClusterInvalid, func(f *CreateFacts) { f.Registry.Password = "" }},
		{"Registry", cluster.ClusterInvalid, func(f *CreateFacts) { f.Registry.URL = "ftp://x" }},
		{"Registry", cluster.ClusterInvalid, func(f *CreateFacts) { f.Registry.URL = "https://" }},
		{"Registry", cluster.ClusterInvalid, func(f *CreateFacts) { f.Registry.Email = "ops" }},
		{"Template", cluster.EntityRefused, func(f *CreateFacts) { f.Template = nil }},
		{"Template", cluster.EntityRefused, func(f *CreateFacts) { f.Template.Zone = "z2" }},
		{"Template", cluster.EntityRefused, func(f *CreateFacts) { f.NetworkRequested, f.Network = "", nil }},
		{"Network", cluster.EntityRefused, func(f *CreateFacts) { f.Network = nil }},
		{"Network", cluster.EntityRefused, func(f *CreateFacts) { f.Network.System = true }},
		{"Network", cluster.EntityRefused, func(f *CreateFacts) { f.Network.Services = f.Network.Services[1:] }},
		{"Network", cluster.EntityRefused, func(f *CreateFacts) { f.Network.InUse = "other" }},
		{"Network", cluster.EntityRefused, func(f *CreateFacts) { f.Network.Port6443InUse = true }},
		{"CIDRs", cluster.ClusterInvalid, func(f *CreateFacts) { f.CIDRs = []string{"192.0.2.0/24", "192.0.2.1"} }},
	} {
		f := validFacts()
		c.do(f)
		err := Create(f)
		if fault.Of(err) != c.kind {
			t.Errorf("%s: got %v, want %s", c.check, err, c.kind.Code)
			continue
		}
		if fault.Details(err)["parameter"] == nil && f.Access == nil {
			t.Errorf("%s: %v names no parameter", c.check, err)
		}
		for _, check := range createChecks {
			if (check.Run(f) != nil) != (check.Name == c.check) {
				t.Errorf("%v is what %s says", err, check.Name)
			}
			if check.Name == c.check {
				break
			}
		}
	}
}

// The order of the checks: of several violations, the first check reports its own.
func TestValidationOrder(t *testing.T) {
	good := validFacts()
	f := &CreateFacts{KeyPairRequested: "x", Registry: RegistryFacts{URL: "x"}, NetworkRequested: "x", CIDRs: []string{"x"}}
	mend := map[string]func(){
		"Name": func() { f.Name = "blue" }, "Size": func() { f.Size, f.ControlNodes = 1, 1 }, "Access": func() { f.Enabled = true },
		"Zone": func() { f.Zone = good.Zone }, "Offering": func() { f.Offering = good.Offering }, "KeyPair": func() { f.KeyPair = good.KeyPair },
		"Registry": func() { f.Registry = good.Registry }, "Template": func() { f.Template = good.Template },
		"Network": func() { f.Network = good.Network }, "CIDRs": func() { f.CIDRs = nil },
	}
	parameters := map[string]string{"Name": "name", "Size": "size", "Access": "account", "Zone": "zoneid", "Offering": "serviceofferingid",
		"KeyPair": "keypair", "Registry": "dockerregistryurl", "Template": "templateid", "Network": "networkid", "CIDRs": "cidrlist"}
	var order []string
	for range len(mend) {
		err := Create(f)
		if err == nil {
			break
		}
		for name, p := range parameters {
			if fault.Details(err)["parameter"] == p {
				order = append(order, name)
				mend[name]()
			}
		}
	}
	want := []string{"Name", "Size", "Access", "Zone", "Offering", "KeyPair", "Registry", "Template", "Network", "CIDRs"}
	if !slices.Equal(order, want) || Create(f) != nil {
		t.Errorf("got %v, want %v; at last %v", order, want, Create(f))
	}
}

func TestOptionalParts(t *testing.T) {
	f := validFacts()
	f.KeyPairRequested, f.KeyPair, f.Registry, f.CIDRs = "", nil, RegistryFacts{}, nil
	f.NetworkRequested, f.Network, f.NetworkOffering = "", nil, &cluster.Entry{Default: true}
	if err := Create(f); err != nil {
		t.Error(err)
	}
	f.NeedsNetwork, f.NetworkOffering = false, nil
	if err := Create(f); err != nil {
		t.Errorf("a provider without networks: %v", err)
	}
}

func TestValidateScale(t *testing.T) {
	nodes := []cluster.Node{{Name: "c", VMID: "c", Role: cluster.Control}, {Name: "a", VMID: "a", Role: cluster.Worker}, {Name: "b", VMID: "b", Role: cluster.Worker}}
	for _, c := range []struct {
		name string
		f    ScaleFacts
		ok   bool
	}{
		{"size", ScaleFacts{Size: 5}, true},
		{"size 100", ScaleFacts{Size: 100}, true},
		{"nothing", ScaleFacts{}, false},
		{"size 0 is nothing", ScaleFacts{Size: 0}, false},
		{"size -1", ScaleFacts{Size: -1}, false},
		{"size 101", ScaleFacts{Size: 101}, false},
		{"size over the maximum", ScaleFacts{Size: 6, MaxWorkers: 5}, false},
		{"node ids", ScaleFacts{NodeIDs: []string{"a"}}, true},
		{"a control node", ScaleFacts{NodeIDs: []string{"c"}}, false},
		{"all of them", ScaleFacts{NodeIDs: []string{"a", "b"}}, false},
		{"node ids exclude size", ScaleFacts{Size: 1, NodeIDs: []string{"a"}}, false},
		{"autoscaling", ScaleFacts{Autoscale: &cluster.Autoscale{Enabled: true, Min: 1, Max: 100}}, true},
		{"autoscaling off", ScaleFacts{Autoscale: &cluster.Autoscale{}}, true},
		{"autoscaling off with sizes", ScaleFacts{Autoscale: &cluster.Autoscale{Enabled: false, Min: 1, Max: 2}}, false},
		{"autoscaling excludes size", ScaleFacts{Size: 2, Autoscale: &cluster.Autoscale{Enabled: true, Min: 1, Max: 3}}, false},
		{"autoscaling excludes node ids", ScaleFacts{NodeIDs: []string{"a"}, Autoscale: &cluster.Autoscale{Enabled: true, Min: 1, Max: 3}}, false},
		{"min 0", ScaleFacts{Autoscale: &cluster.Autoscale{Enabled: true, Min: 0, Max: 3}}, false},
		{"min = max", ScaleFacts{Autoscale: &cluster.Autoscale{Enabled: true, Min: 3, Max: 3}}, false},
		{"max over the maximum", ScaleFacts{Autoscale: &cluster.Autoscale{Enabled: true, Min: 1, Max: 101}}, false},
	} {
		c.f.Nodes = nodes
		if err := Scale(c.f); (err == nil) != c.ok || err != nil && !errors.Is(err, cluster.ClusterInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
