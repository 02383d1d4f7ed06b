package queryapi

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/cloudstack-go/v2/cloudstack"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/query"
	"github.com/pawl-dev/pawl/workflow"
)

// The same SDK on the real service, its flows and a simulated cloud: jobs end
// when the walker has decided them.
func TestGoSDKOnTheRealService(t *testing.T) {
	url, key := realService(t)
	cs := cloudstack.NewAsyncClient(url, key.ID, key.Secret.Reveal(), false)
	cs.AsyncTimeout(60)
	k := cs.Kubernetes
	zones, err := cs.Zone.ListZones(cs.Zone.NewListZonesParams())
	if err != nil || zones.Count != 1 {
		t.Fatalf("zones: %v %+v", err, zones)
	}
	made, err := k.CreateKubernetesCluster(k.NewCreateKubernetesClusterParams("real", "v1", "blue", "small", 3, zones.Zones[0].Id))
	if err != nil || made.State != "Running" || made.Size != 3 || len(made.Virtualmachines) != 4 {
		t.Fatalf("create: %v %+v", err, made)
	}
	scale := k.NewScaleKubernetesClusterParams(made.Id)
	scale.SetNodeids([]string{workerOf(made.Virtualmachines)})
	down, err := k.ScaleKubernetesCluster(scale)
	if err != nil || down.Size != 2 || len(down.Virtualmachines) != 3 {
		t.Fatalf("scale down by node: %v %+v", err, down)
	}
	if config, err := k.GetKubernetesClusterConfig(configOf(k, made.Id)); err != nil || !strings.Contains(config.Configdata, "server:") {
		t.Errorf("config: %v %+v", err, config)
	}
	if stopped, err := k.StopKubernetesCluster(k.NewStopKubernetesClusterParams(made.Id)); err != nil || !stopped.Success {
		t.Errorf("stop: %v %+v", err, stopped)
	}
	if started, err := k.StartKubernetesCluster(k.NewStartKubernetesClusterParams(made.Id)); err != nil || started.State != "Running" {
		t.Errorf("start: %v %+v", err, started)
	}
	if gone, err := k.DeleteKubernetesCluster(k.NewDeleteKubernetesClusterParams(made.Id)); err != nil || !gone.Success {
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

// realService is what `pawl server` is made of, in this process.
func realService(t *testing.T) (url string, key account.Key) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	desk := &account.Desk{Store: account.NewMemory()}
	var clusters *service.Service
	cloud, err := sim.New(sim.Options{Installation: "test", Home: func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
		return clusters.Hello(ctx, token, h)
	}})
	must(t, err)
	clusters, err = service.New(service.Options{
		Books: cluster.NewMemory(), Directory: server.Directory{Store: desk.Store}, Installation: "test", HomeURL: "http://127.0.0.1",
		Providers: []service.Named{{Name: "sim", Provider: cloud}}, Logger: quiet,
		Versions: []service.Version{{ID: "v1", Name: "1.30.1", Semantic: "1.30.1", Template: cluster.Entity{ID: "node-image", Name: "node-image"}}},
		Probe: func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		},
	})
	must(t, err)
	engine, err := workflow.New(workflow.NewMemory(), clusters.Flows(), workflow.Options{Hooks: []workflow.Hook{clusters.Hook()}, Logger: quiet})
	must(t, err)
	must(t, clusters.Bind(engine))
	key, err = desk.CreateKey(t.Context(), account.System(), account.NewCredential{Name: "sdk"})
	must(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, part := range []func(context.Context) error{engine.Serve, clusters.Serve, cloud.Serve} {
		go func() { ended <- part(ctx) }()
	}
	listener := httptest.NewServer(query.New(query.Options{Clusters: clusters, Desk: desk, Logger: quiet}))
	t.Cleanup(func() {
		listener.Close()
		cancel()
		for range 3 {
			<-ended
		}
	})
	return listener.URL + query.Path, key
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
