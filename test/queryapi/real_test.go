package queryapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/apache/cloudstack-go/v2/cloudstack"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/server/auth"
	queryapi "github.com/pawl-dev/pawl/server/cloudstack"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// The same SDK on the real service, its flows and a simulated cloud: jobs end when the
// controller has decided them.
func TestGoSDKOnTheRealService(t *testing.T) {
	url, key := realService(t)
	cs := cloudstack.NewAsyncClient(url, key.ID, key.Secret.Reveal(), false)
	cs.AsyncTimeout(60)
	k := cs.Kubernetes
	zones, err := cs.Zone.ListZones(cs.Zone.NewListZonesParams())
	if err != nil || zones.Count != 1 {
		t.Fatalf("zones: %v %+v", err, zones)
	}
	created, err := k.CreateKubernetesCluster(k.NewCreateKubernetesClusterParams("real", "v1", "blue", "small", 3, zones.Zones[0].Id))
	if err != nil || created.State != "Running" || created.Size != 3 || len(created.Virtualmachines) != 4 {
		t.Fatalf("create: %v %+v", err, created)
	}
	scale := k.NewScaleKubernetesClusterParams(created.Id)
	scale.SetNodeids([]string{workerOf(created.Virtualmachines)})
	down, err := k.ScaleKubernetesCluster(scale)
	if err != nil || down.Size != 2 || len(down.Virtualmachines) != 3 {
		t.Fatalf("scale down by node: %v %+v", err, down)
	}
	if config, err := k.GetKubernetesClusterConfig(configOf(k, created.Id)); err != nil || !strings.Contains(config.Configdata, "server:") {
		t.Errorf("config: %v %+v", err, config)
	}
	if stopped, err := k.StopKubernetesCluster(k.NewStopKubernetesClusterParams(created.Id)); err != nil || !stopped.Success {
		t.Errorf("stop: %v %+v", err, stopped)
	}
	if started, err := k.StartKubernetesCluster(k.NewStartKubernetesClusterParams(created.Id)); err != nil || started.State != "Running" {
		t.Errorf("start: %v %+v", err, started)
	}
	if gone, err := k.DeleteKubernetesCluster(k.NewDeleteKubernetesClusterParams(created.Id)); err != nil || !gone.Success {
		t.Errorf("delete: %v %+v", err, gone)
	}
	if left, err := k.ListKubernetesClusters(k.NewListKubernetesClustersParams()); err != nil || left.Count != 0 {
		t.Errorf("what is left: %v %+v", err, left)
	}
}

func workerOf(vms []*cloudstack.VirtualMachine) string {
	for _, vm := range vms {
		if strings.Contains(vm.Name, "worker") {
			return vm.Id
		}
	}
	return ""
}

// realService starts the parts of `pawl server` in this process.
func realService(t *testing.T) (url string, key account.Key) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	accounts := &account.Service{Store: account.NewMemory()}
	var clusters *service.Service
	cloud, err := sim.New(sim.Options{Installation: "test", Home: func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
		return clusters.Heartbeat(ctx, token, h)
	}})
	must(t, err)
	clusters, err = service.New(service.Options{
		Records: memory.New(), Directory: auth.Directory{Store: accounts.Store}, Installation: "test", HomeURL: "http://127.0.0.1",
		Providers: []providers.Named{{Name: "sim", Provider: cloud}}, Logger: quiet,
		Versions: []settings.Version{{ID: "v1", Name: "1.30.1", Semantic: "1.30.1", Template: cluster.Entity{ID: "node-image", Name: "node-image"}}},
		Probe: func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		},
	})
	must(t, err)
	engine, err := workflow.New(runstore.NewMemory(), clusters.Flows(), workflow.Options{Hooks: []workflow.Hook{clusters.Hook()}, Logger: quiet})
	must(t, err)
	must(t, clusters.Bind(engine))
	key, err = accounts.CreateKey(t.Context(), account.System(), account.NewCredential{Name: "sdk"})
	must(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, part := range []func(context.Context) error{engine.Serve, clusters.Serve, cloud.Serve} {
		go func() { ended <- part(ctx) }()
	}
	listener := httptest.NewServer(queryapi.New(queryapi.Options{Clusters: clusters, Accounts: accounts, Logger: quiet}))
	t.Cleanup(func() {
		listener.Close()
		cancel()
		for range 3 {
			<-ended
		}
	})
	return listener.URL + queryapi.Path, key
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A refusal of the real service names the parameter, as in the tables of the query API.
func TestFinding19ErrorsNameTheParameter(t *testing.T) {
	address, key := realService(t)
	ask := func(command string, pairs ...string) (int, string, map[string]any) {
		m := map[string]string{"command": command, "response": "json", "apiKey": key.ID}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		form := url.Values{"signature": {cloudsign.Sign(key.Secret.Reveal(), m)}}
		for name, value := range m {
			form.Set(name, value)
		}
		response, err := http.PostForm(address, form)
		must(t, err)
		defer response.Body.Close()
		var all map[string]map[string]any
		must(t, json.NewDecoder(response.Body).Decode(&all))
		body := all[strings.ToLower(command)+"response"]
		text, _ := body["errortext"].(string)
		return response.StatusCode, text, body
	}
	_, _, zones := ask("listZones")
	zone := zones["zone"].([]any)[0].(map[string]any)["id"].(string)
	with := func(pairs ...string) []string {
		base := map[string]string{"name": "blue", "zoneid": zone, "serviceofferingid": "small", "size": "1"}
		for i := 0; i < len(pairs); i += 2 {
			base[pairs[i]] = pairs[i+1]
		}
		var all []string
		for name, value := range base {
			all = append(all, name, value)
		}
		return all
	}
	status, text, created := ask("createContainerCluster", with()...)
	if status != 200 {
		t.Fatal(text)
	}
	id := created["id"].(string)
	for {
		_, text, job := ask("queryAsyncJobResult", "jobid", created["jobid"].(string))
		if job["jobstatus"] == 1.0 {
			break
		}
		if job["jobstatus"] != 0.0 {
			t.Fatalf("create: %s %v", text, job)
		}
		time.Sleep(50 * time.Millisecond) // as a client polls
	}
	for _, c := range []struct {
		command string
		pairs   []string
		code    int
		name    string
	}{
		{"createContainerCluster", with("name", "---"), 431, "name"},
		{"createContainerCluster", with("size", "101"), 431, "size"},
		{"createContainerCluster", with("controlnodes", "2"), 431, "controlnodes"},
		{"createContainerCluster", with("account", "nobody", "domainid", "ROOT"), 531, "account"},
		{"createContainerCluster", with("zoneid", "moon"), 431, "zoneid"},
		{"createContainerCluster", with("serviceofferingid", "huge"), 431, "serviceofferingid"},
		{"createContainerCluster", with("templateid", "none"), 431, "templateid"},
		{"createContainerCluster", with("networkid", "none"), 431, "networkid"},
		{"createContainerCluster", with("keypair", "none"), 431, "keypair"},
		{"createContainerCluster", with("dockerregistryurl", "r.example"), 431, "dockerregistryurl"},
		{"createContainerCluster", with("cidrlist", "10.0.0.0/33"), 431, "cidrlist"},
		{"createContainerCluster", with("onfailure", "explode"), 431, "onfailure"},
		{"createContainerCluster", with("recovery", "magic"), 431, "recovery"},
		{"createKubernetesCluster", with("kubernetesversionid", "v9"), 431, "kubernetesversionid"},
		{"createKubernetesCluster", with("kubernetesversionid", "v1", "noderootdisksize", "70000"), 431, "noderootdisksize"},
		{"scaleContainerCluster", []string{"id", id, "size", "101"}, 431, "size"},
		{"upgradeContainerCluster", []string{"id", id, "versionid", "v9"}, 431, "versionid"},
		{"upgradeContainerCluster", []string{"id", id, "kubernetesversionid", "v9"}, 431, "kubernetesversionid"},
		{"listContainerCluster", []string{"account", "nobody", "domainid", "ROOT"}, 531, "account"},
		{"listContainerCluster", []string{"domainid", "moon"}, 531, "domainid"},
		{"listContainerCluster", []string{"state", "Happy"}, 431, "state"},
	} {
		status, text, _ := ask(c.command, c.pairs...)
		if status != c.code || !strings.HasPrefix(text, c.command+": parameter "+c.name+": ") {
			t.Errorf("%s %q: %d %s, want %d that names %s", c.command, c.pairs, status, text, c.code, c.name)
		}
	}
}
