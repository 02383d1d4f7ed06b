package serve

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

// cloud is a provider to whose keys more are added from line 7 on.
const cloud = "providers:\n- name: a\n  type: cloudstack\n  url: u\n  apiKey: k\n  secretFile: f\n"

const oneProvider = "providers: [{name: a, type: local}]\n"

// Whatever is wrong in a file of --clusters is named with its line.
func TestReadClustersNamesTheLine(t *testing.T) {
	tests := []struct {
		text string
		says string
	}{
		{"", "f.yaml:1: providers: at least one"},
		{"\n\nrecovery: restart\n", "f.yaml:3: providers: at least one"},
		{"providers: {", "f.yaml:1: did not find expected node content"},
		{oneProvider + "recovry: none\n", `f.yaml:2: unknown key "recovry" (did you mean recovery?)`},
		{oneProvider + "sync:\n  intervall: 3s\n", `f.yaml:3: unknown key "intervall" (did you mean interval?)`},
		{oneProvider + "sync:\n  interval: soon\n", `f.yaml:3: "soon" is no span of time`},
		{oneProvider + "gc: {first: -3s}\n", `f.yaml:2: "-3s" is no span of time`},
		{oneProvider + "limits:\n  workers: many\n", "f.yaml:3: many is no number"},
		{oneProvider + "limits:\n  workers: -1\n", "f.yaml:3: workers: -1 is below 0"},
		{oneProvider + "limits: 3\n", "f.yaml:2: 3 is no mapping"},
		{oneProvider + "recovery: pray\n", `f.yaml:2: recovery "pray"`},
		{oneProvider + "onFailure: cry\n", `f.yaml:2: onfailure "cry"`},
		{oneProvider + "\nonScaleFailure: lazy\n", `f.yaml:3: onScaleFailure "lazy"`},
		{oneProvider + "timeouts:\n  call: 2m\n  settle: 1m\n", "f.yaml:4: timeouts: settle (1m0s) must be longer than call (2m0s)"},
		{oneProvider + "timeouts: {call: 2m}\n", "f.yaml:2: timeouts: settle (1m30s)"},
		{oneProvider + "gc: {longest: 1m}\n", "f.yaml:2: gc: longest (1m0s) is shorter than first (5m0s)"},
		{"providers:\n- {name: a, type: local}\n- {type: sim}\n", "f.yaml:3: a provider needs a name"},
		{"providers:\n- {name: a, type: local}\n- name: a\n  type: sim\n", `f.yaml:3: provider "a" is there twice`},
		{"providers:\n- name: a\n  type: lokal\n", `f.yaml:3: type "lokal" is none of local, sim, cloudstack (did you mean local?)`},
		{"providers:\n- {name: a, type: cloudstack, url: x}\n", "f.yaml:2: cloudstack needs url"},
		{oneProvider + "versions:\n- {id: v1}\n", "f.yaml:3: a version needs id"},
		{oneProvider + "versions:\n- {id: v1, version: one, template: t}\n", `f.yaml:3: version "one" is no x.y.z`},
		{oneProvider + "versions:\n- {id: v1, version: 1.0.0, template: t}\n- {id: v1, version: 1.0.1, template: t}\n", `f.yaml:4: version "v1" is there twice`},
		{cloud + "  pageSize: 1\n", "f.yaml:7: pageSize: 1 is none of 2 to 500; leave it out"}, // finding 22, and those that follow
		{cloud + "  pageSize: 501\n", "f.yaml:7: pageSize: 501 is none of 2 to 500"},
		{cloud + "  pageSize: many\n", "f.yaml:7: many is no number"},
		{cloud + "  rate: -1\n", "f.yaml:7: rate: -1 is below 0; it is calls a second"},
		{cloud + "  parallel: -1\n", "f.yaml:7: parallel: -1 is below 0; it is calls at a time"},
		{cloud + "  zones:\n  - z1\n  - z1\n", `f.yaml:9: zones: "z1" is empty or there twice: write`},
		{cloud + "  zones: ['']\n", `f.yaml:7: zones: "" is empty`},
		{cloud + "  zone: z1\n", `f.yaml:7: unknown key "zone" (did you mean zones?)`},
		{cloud + "  account: {name: acme}\n", "f.yaml:7: account needs name and domainID"},
		{cloud + "  accounts:\n    one: {name: a, domainID: d}\n    two: {domainID: d}\n", `f.yaml:9: accounts: "two" needs name and domainID`},
		{"providers:\n- name: a\n  type: local\n  rate: 3\n", "f.yaml:4: rate: providers of type local have none: take it out"},
		{"providers:\n- {name: a, type: b}\nrecovery: x\n", "f.yaml:3: recovery"}, // the second of two
	}
	for _, test := range tests {
		dir := t.TempDir()
		t.Chdir(dir)
		if err := os.WriteFile("f.yaml", []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadClusters("f.yaml")
		if !errors.Is(err, ClustersInvalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q:\n%v\nnot %s", test.text, err, test.says)
		}
	}
	if _, err := ReadClusters(filepath.Join(t.TempDir(), "none.yaml")); fault.Of(err).Code != "CLUSTERS_CONFIG_INVALID" {
		t.Errorf("a file that is not there: %v", err)
	}
}

// The example is read, its providers can be made, and the values it calls
// defaults are those of an empty file.
func TestExampleClusters(t *testing.T) {
	c, err := ReadClusters("../../../../examples/clusters/clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	p := &parts{}
	p.clusters.sims = map[string]*sim.Cloud{}
	for _, one := range c.Providers {
		if _, err := p.provider(one, "test"); err != nil {
			t.Errorf("%s: %v", one.Name, err)
		}
	}
	c.Sync.Interval, c.GC.Interval = 0, 0 // the example says that they differ
	told, plain := c.Effective(), (&Clusters{Providers: c.Providers, Versions: c.Versions}).Effective()
	a, _ := json.Marshal(told)
	b, _ := json.Marshal(plain)
	if string(a) != string(b) {
		t.Errorf("the example\n%s\nand the defaults\n%s", a, b)
	}
	if plain.Sync.Interval != Span(30*time.Second) || plain.GC.Interval != Span(5*time.Minute) {
		t.Errorf("the intervals are %v and %v", plain.Sync, plain.GC)
	}
}

// What is effective shows no key, and changes nothing.
func TestEffectiveHidesKeys(t *testing.T) {
	c := &Clusters{Providers: []Provider{{Name: "c", Type: "cloudstack", APIKey: "planted-value"}}}
	data, err := json.Marshal(c.Effective())
	if err != nil || strings.Contains(string(data), "planted-value") || c.Providers[0].APIKey != "planted-value" {
		t.Errorf("%s %v", data, err)
	}
}

// The guide names each key of the file, as the remedy of its fault promises.
func TestGuideNamesAllKeys(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guide/container-clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range clusterKeys(reflect.TypeFor[Clusters]()) {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("the guide does not name the key %s", key)
		}
	}
}

// Nodes call home where the server listens, unless another place is configured.
func TestHome(t *testing.T) {
	c := LocalClusters(t.TempDir())
	p := &parts{options: Options{Listen: "127.0.0.1:0"}}
	p.clusters.config = c
	for _, test := range []struct{ listen, configured, want string }{
		{"127.0.0.1:4711", "", "http://127.0.0.1:4711"},
		{"[::1]:4711", "", "http://[::1]:4711"},
		{"127.0.0.1:4711", "https://pawl.example.com/", "https://pawl.example.com"},
	} {
		c.Home = test.configured
		if home := p.heartbeatURL(c, test.listen); home != test.want {
			t.Errorf("home is %s, not %s", home, test.want)
		}
	}
}
