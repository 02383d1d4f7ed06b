package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

func validFacts() *CreateFacts {
	services := []string{"Dhcp", "UserData", "SourceNat", "Firewall", "PortForwarding", "Dns"}
	return &CreateFacts{
		Name: "blue", Size: 3, ControlNodes: 1, Enabled: true,
		ZoneRequested: "z1", Zone: &Entry{Kind: Zone, ID: "z1", Name: "north"},
		OfferingRequested: "o1", Offering: &Entry{Kind: Offering, ID: "o1", Name: "small", Cores: 1, MemoryMB: 512},
		KeyPairRequested: "me", KeyPair: &Entry{Kind: KeyPair, ID: "me"},
		Registry:          RegistryFacts{"u", "p", "registry.example.com:5000", "ops@example.com"},
		TemplateRequested: "t1", Template: &Entry{Kind: Template, ID: "t1", Zone: "z1"},
		NeedsNetwork: true, NetworkRequested: "n1", Network: &Entry{Kind: Network, ID: "n1", Name: "lan", Zone: "z1", Services: services},
		CIDRs: []string{"192.0.2.0/24", "2001:db8::/32"},
	}
}

// Each check of a create request, violated in each way.
func TestValidateCreate(t *testing.T) {
	if err := ValidateCreate(validFacts()); err != nil {
		t.Fatalf("what is right is refused: %v", err)
	}
	for _, c := range []struct {
		check string
		kind  *fault.Kind
		do    func(f *CreateFacts)
	}{
		{"Name", ClusterInvalid, func(f *CreateFacts) { f.Name = " " }},
		{"Name", ClusterInvalid, func(f *CreateFacts) { f.Name = "!!!" }},
		{"Name", ClusterInvalid, func(f *CreateFacts) { f.Name = "a\x00b" }},
		{"Name", ClusterInvalid, func(f *CreateFacts) { f.Name = strings.Repeat("a", 256) }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.Size = 0 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.Size = 101 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.MaxWorkers = 2 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.AccountMaxWorkers = 2 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = 2 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = -1 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.ControlNodes = 9 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.DiskGB = -1 }},
		{"Size", ClusterInvalid, func(f *CreateFacts) { f.DiskGB = MaxDiskGB + 1 }},
		{"Access", AccessRefused, func(f *CreateFacts) { f.Access = AccessRefused.Errorf("not yours") }},
		{"Access", AccessRefused, func(f *CreateFacts) { f.Enabled = false }},
		{"Zone", EntityRefused, func(f *CreateFacts) { f.Zone = nil }},
		{"Zone", AccessRefused, func(f *CreateFacts) { f.Zone.Disabled = true }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.Offering = nil }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.Offering.Custom = true }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.Offering.Cores = 0 }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.Offering.MemoryMB = 511 }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.MinCores = 2 }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.MinMemoryMB = 1024 }},
		{"Offering", EntityRefused, func(f *CreateFacts) { f.Offering.Zone = "z2" }},
		{"KeyPair", EntityRefused, func(f *CreateFacts) { f.KeyPair = nil }},
		{"Registry", ClusterInvalid, func(f *CreateFacts) { f.Registry.Password = "" }},
		{"Registry", ClusterInvalid, func(f *CreateFacts) { f.Registry.URL = "ftp://x" }},
		{"Registry", ClusterInvalid, func(f *CreateFacts) { f.Registry.URL = "https://" }},
		{"Registry", ClusterInvalid, func(f *CreateFacts) { f.Registry.Email = "ops" }},
		{"Template", EntityRefused, func(f *CreateFacts) { f.Template = nil }},
		{"Template", EntityRefused, func(f *CreateFacts) { f.Template.Zone = "z2" }},
		{"Template", EntityRefused, func(f *CreateFacts) { f.NetworkRequested, f.Network = "", nil }},
		{"Network", EntityRefused, func(f *CreateFacts) { f.Network = nil }},
		{"Network", EntityRefused, func(f *CreateFacts) { f.Network.System = true }},
		{"Network", EntityRefused, func(f *CreateFacts) { f.Network.Services = f.Network.Services[1:] }},
		{"Network", EntityRefused, func(f *CreateFacts) { f.Network.InUse = "other" }},
		{"Network", EntityRefused, func(f *CreateFacts) { f.Network.Port6443InUse = true }},
		{"CIDRs", ClusterInvalid, func(f *CreateFacts) { f.CIDRs = []string{"192.0.2.0/24", "192.0.2.1"} }},
	} {
		f := validFacts()
		c.do(f)
		err := ValidateCreate(f)
		if fault.Of(err) != c.kind {
			t.Errorf("%s: got %v, want %s", c.check, err, c.kind.Code)
			continue
		}
		if fault.Details(err)["parameter"] == nil && f.Access == nil {
			t.Errorf("%s: %v names no parameter", c.check, err)
		}
		for _, check := range CreateChecks {
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
		err := ValidateCreate(f)
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
	if !slices.Equal(order, want) || ValidateCreate(f) != nil {
		t.Errorf("got %v, want %v; at last %v", order, want, ValidateCreate(f))
	}
}

func TestOptionalParts(t *testing.T) {
	f := validFacts()
	f.KeyPairRequested, f.KeyPair, f.Registry, f.CIDRs = "", nil, RegistryFacts{}, nil
	f.NetworkRequested, f.Network, f.NetworkOffering = "", nil, &Entry{Default: true}
	if err := ValidateCreate(f); err != nil {
		t.Error(err)
	}
	f.NeedsNetwork, f.NetworkOffering = false, nil
	if err := ValidateCreate(f); err != nil {
		t.Errorf("a provider without networks: %v", err)
	}
}

func TestValidateScale(t *testing.T) {
	nodes := []Node{{Name: "c", VMID: "c", Role: Control}, {Name: "a", VMID: "a", Role: Worker}, {Name: "b", VMID: "b", Role: Worker}}
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
		{"autoscaling", ScaleFacts{Autoscale: &Autoscale{true, 1, 100}}, true},
		{"autoscaling off", ScaleFacts{Autoscale: &Autoscale{}}, true},
		{"autoscaling off with sizes", ScaleFacts{Autoscale: &Autoscale{false, 1, 2}}, false},
		{"autoscaling excludes size", ScaleFacts{Size: 2, Autoscale: &Autoscale{true, 1, 3}}, false},
		{"autoscaling excludes node ids", ScaleFacts{NodeIDs: []string{"a"}, Autoscale: &Autoscale{true, 1, 3}}, false},
		{"min 0", ScaleFacts{Autoscale: &Autoscale{true, 0, 3}}, false},
		{"min = max", ScaleFacts{Autoscale: &Autoscale{true, 3, 3}}, false},
		{"max over the maximum", ScaleFacts{Autoscale: &Autoscale{true, 1, 101}}, false},
	} {
		c.f.Nodes = nodes
		if err := ValidateScale(c.f); (err == nil) != c.ok || err != nil && !errors.Is(err, ClusterInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestValidateUpgrade(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"1.30.1", "1.31.0", true}, {"1.30.1", "1.30.5", true}, {"1.30.1", "1.30.1", true}, {"v1.30.1", "1.31.0-rc.1", true}, {"", "1.2.3", true},
		{"1.30.1", "1.32.0", false}, {"1.30.1", "1.30.0", false}, {"1.30.1", "1.29.9", false}, {"1.30.1", "2.0.0", false}, {"2.0.0", "1.99.0", false},
		{"1.9.0", "1.10.0", true}, {"1.30", "1.31.0", false}, {"1.30.1", "latest", false}, {"1.30.1", "1.-1.0", false},
	} {
		if err := ValidateUpgrade(c.from, c.to); (err == nil) != c.ok || err != nil && !errors.Is(err, ClusterInvalid) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

func TestSameVersion(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.1.0", "1.1.0"}: true, {"v1.1.0", "1.1.0"}: true, {"1.1.0+k3s1", "1.1.0"}: true,
		{"1.1.0", "1.1.1"}: false, {"", ""}: false, {"new", "new"}: false, {"1.1", "1.1.0"}: false,
	} {
		if got := SameVersion(pair[0], pair[1]); got != want {
			t.Errorf("%q and %q: %t", pair[0], pair[1], got)
		}
	}
}

// A release candidate comes before its release, and is another version.
func TestFinding22CandidateIsNotItsRelease(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"1.30.0-rc1", "1.30.0", true}, {"1.30.0", "1.30.0-rc1", false}, {"1.30.0-rc1", "1.30.0-rc2", true}, {"1.30.0-rc.10", "1.30.0-rc.9", false},
		{"v1.29.9", "1.30.0-rc1", true}, {"1.28.0", "1.30.0-rc1", false}, {"1.30.0+a", "1.30.0+b", true}, {"1.30.0", "1.30", false}, {"1.30.0", "1.30.x", false},
	} {
		if err := ValidateUpgrade(c.from, c.to); (err == nil) != c.ok {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{{"1.30.0-rc1", "1.30.0", false}, {"v1.30.0", "1.30.0", true}, {"1.30.0+a", "1.30.0", true}, {"1.30", "1.30.0", false}, {"", "", false}} {
		if SameVersion(c.a, c.b) != c.same {
			t.Errorf("%q and %q are the same: %t", c.a, c.b, !c.same)
		}
	}
}
