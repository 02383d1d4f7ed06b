package foundationdb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// confs are the clusters whose files and start commands are golden texts.
var confs = []struct {
	name, cluster string
	class         fdb.Class
	servers       int
	variables     map[string]string
}{
	{"plain", `status: {connectionString: "a:b@1.1.1.1:4501"}`, fdb.ClassStorage, 1, nil},
	{"several-servers", `status: {connectionString: "a:b@1.1.1.1:4501"}`, fdb.ClassStorage, 2, podVariables},
	{"everything", `
spec:
  logGroup: group
  dataCenter: dc1
  dataHall: hall1
  faultDomain: {valueFrom: $NODE_LABEL_RACK}
  routing: {podIPFamily: 6}
  mainContainer: {enableTls: true, peerVerificationRules: "S.CN=a, I.O=b"}
  processes:
    general: {customParameters: [knob_general=1]}
    log: {customParameters: [knob_b = 2 , "Knob_a=x=y", "locality_ip=$FDB_POD_IP", locality_rack=$RACK, locality_price=$5]}
status:
  connectionString: a:b@1.1.1.1:4501
  requiredAddresses: {tls: true, nonTLS: true}
  hasListenIPsForAllPods: true
`, fdb.ClassLog, 2, podVariables},
	{"given-localities", `
spec:
  dataCenter: dc1
  dataHall: hall1
  useExplicitListenAddress: false
  routing: {useDNSInClusterFile: false}
  processes:
    general: {customParameters: [locality-dcid=other, locality_data_hall=$NODE_LABEL_ZONE]}
status: {connectionString: "a:b@1.1.1.1:4501", hasListenIPsForAllPods: true}
`, fdb.ClassClusterController, 1, podVariables},
	{"no-connection-string", ``, fdb.ClassStateless, 1, podVariables},
	{"empty", `
spec: {buggify: {emptyMonitorConf: true}, processes: {general: {customParameters: ["knob_x=a&<b>"]}}}
status: {connectionString: "a:b@1.1.1.1:4501"}
`, fdb.ClassStorage, 1, podVariables},
}

var podVariables = map[string]string{
	"BINARY_DIR": "/usr/bin", "FDB_PUBLIC_IP": "10.1.2.3,fd00::1", "FDB_POD_IP": "10.1.2.3,fd00::1", "FDB_INSTANCE_ID": "storage-1",
	"FDB_MACHINE_ID": "node-1", "FDB_ZONE_ID": "zone-1", "FDB_DNS_NAME": "sample-storage-1.sample.default.svc.cluster.local", "NODE_LABEL_RACK": "r7",
}

func TestMonitorConf(t *testing.T) {
	for _, x := range confs {
		c := clusterOf(t, x.cluster)
		for image, suffix := range map[v1beta2.ImageType]string{v1beta2.ImageTypeSplit: ".conf", v1beta2.ImageTypeUnified: ".json"} {
			got, err := MonitorConf(c, x.class, image, x.servers)
			if err != nil {
				t.Fatal(err)
			}
			if image == v1beta2.ImageTypeUnified {
				got = indented(t, got)
			}
			golden(t, "monitor-"+x.name+suffix, got)
		}
	}
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
		if _, err := MonitorConf(clusterOf(t, `spec: {version: latest}`), fdb.ClassLog, image, 1); fault.Of(err) != fdb.VersionInvalid {
			t.Errorf("%s: %v", image, err)
		}
	}
}

// indented is a JSON text over several lines.
func indented(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	lines, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(lines) + "\n"
}

func TestStartCommands(t *testing.T) {
	for _, x := range confs {
		c := clusterOf(t, x.cluster)
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
			commands, err := StartCommands(c, x.class, image, x.servers, x.variables)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("commands-%s-%s.txt", x.name, image), strings.Join(commands, "\n")+"\n")
		}
	}
}

func TestStartCommandsFail(t *testing.T) {
	c := clusterOf(t, `spec: {routing: {podIPFamily: 6}}`)
	for list, ok := range map[string]bool{"10.0.0.1": false, "": false, "nonsense": false, "10.0.0.1,fd00::2": true, "fd00::2": true, "::ffff:10.0.0.1": false} {
		commands, err := StartCommands(c, fdb.ClassLog, v1beta2.ImageTypeUnified, 1, map[string]string{envPublicIP: list})
		if (err == nil) != ok || err != nil && fault.Of(err) != SpecInvalid {
			t.Errorf("%q: %v, %v", list, commands, err)
		}
	}
	if _, err := StartCommands(c, fdb.ClassLog, v1beta2.ImageTypeSplit, 1, map[string]string{envPublicIP: "10.0.0.1"}); err != nil {
		t.Errorf("the sidecar of the split image chooses the IP itself: %v", err)
	}

	c = clusterOf(t, ``)
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
		length := func() (int, error) {
			commands, err := StartCommands(c, fdb.ClassLog, image, 1, nil)
			return len(strings.Join(commands, "")), err
		}
		c.Spec.LogGroup = "x"
		short, _ := length()
		c.Spec.LogGroup = strings.Repeat("x", 10000-short+1)
		if n, err := length(); n != 10000 || err != nil {
			t.Errorf("%s: %d characters: %v", image, n, err)
		}
		c.Spec.LogGroup += "x"
		if _, err := length(); fault.Of(err) != SpecInvalid {
			t.Errorf("%s: 10001 characters: %v", image, err)
		}
	}
}

// TestConfAndCommand: the file of the split image and the start command say the same, whatever the spec says.
func TestConfAndCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &v1beta2.FoundationDBCluster{}
		c.Name, c.Spec.Version, c.Status.ConnectionString = "x", "7.1.26", "a:b@1.1.1.1:4501"
		flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
		c.Spec.MainContainer.EnableTLS = flip("tls")
		c.Status.RequiredAddresses = v1beta2.RequiredAddressSet{TLS: flip("required tls"), NonTLS: flip("required non-tls")}
		c.Status.HasListenIPsForAllPods = flip("listen")
		dns := flip("dns")
		c.Spec.Routing.UseDNSInClusterFile = &dns
		c.Spec.DataCenter = rapid.SampledFrom([]string{"", "dc1"}).Draw(t, "dc")
		for _, p := range rapid.SliceOfDistinct(rapid.StringMatching(`[a-zA-Z][a-z_0-9-]{0,8}=[a-z$]{0,3}`), func(s string) string {
			name, _, _ := strings.Cut(s, "=")
			return strings.ToLower(name)
		}).Draw(t, "parameters") {
			c.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"log": {CustomParameters: append(c.Spec.Processes["log"].CustomParameters, v1beta2.CustomParameter(p))}}
		}
		servers := rapid.IntRange(1, 3).Draw(t, "servers")
		conf, err := MonitorConf(c, fdb.ClassLog, v1beta2.ImageTypeSplit, servers)
		if err != nil {
			t.Fatal(err)
		}
		commands, err := StartCommands(c, fdb.ClassLog, v1beta2.ImageTypeSplit, servers, nil)
		if err != nil {
			t.Fatal(err)
		}
		sections := strings.Split(conf, "\n[fdbserver.")
		if len(sections)-1 != servers || len(commands) != servers {
			t.Fatalf("%d sections, %d commands, %d servers", len(sections)-1, len(commands), servers)
		}
		for i, section := range sections[1:] {
			lines := strings.Split(section, "\n")[1:]
			words := strings.Split(commands[i], " ")
			if lines[0] != "command = "+words[0] || len(lines) != len(words) {
				t.Fatalf("%q and %q", lines, words)
			}
			for _, line := range lines[1:] {
				if !slices.Contains(words, "--"+strings.Replace(line, " = ", "=", 1)) {
					t.Fatalf("%q is not in %q", line, words)
				}
			}
			if !slices.IsSortedFunc(words[1:], byName) {
				t.Fatalf("not sorted: %q", words)
			}
		}
	})
}
