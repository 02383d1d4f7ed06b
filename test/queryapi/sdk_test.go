package queryapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/cloudstack-go/v2/cloudstack"
)

// The Go SDK, which autoscalers, Terraform and Cluster API use: sign, list, create, wait
// for jobs, scale by size and by nodes, config, delete, and the errors in between. It uses
// signature version 3 with expiry, and POST for changes, so it works where both are
// enforced.
func TestGoSDK(t *testing.T) {
	for _, enforce := range []bool{false, true} {
		t.Run(fmt.Sprint("enforced ", enforce), func(t *testing.T) { sdk(t, newFixture(t, enforce)) })
	}
}

func sdk(t *testing.T, h *fixture) {
	cs := cloudstack.NewAsyncClient(h.url, h.key.ID, h.key.Secret.Reveal(), false)
	k := cs.Kubernetes

	apis, err := cs.APIDiscovery.ListApis(cs.APIDiscovery.NewListApisParams())
	if err != nil || apis.Count < 20 || len(apis.Apis) != apis.Count {
		t.Fatalf("listApis: %v %+v", err, apis)
	}
	zones, err := cs.Zone.ListZones(cs.Zone.NewListZonesParams())
	if err != nil || zones.Count != 2 || zones.Zones[0].Name != "Zone One" {
		t.Fatalf("listZones: %v %+v", err, zones)
	}
	versions, err := k.ListKubernetesSupportedVersions(k.NewListKubernetesSupportedVersionsParams())
	if err != nil || versions.KubernetesSupportedVersions[0].Semanticversion != "1.30.1" {
		t.Fatalf("versions: %v %+v", err, versions)
	}
	if none, err := k.ListKubernetesClusters(k.NewListKubernetesClustersParams()); err != nil || none.Count != 0 {
		t.Fatalf("an empty list: %v %+v", err, none)
	}

	// A value with characters that clients escape differently: ~ and * and a space, and more.
	p := k.NewCreateKubernetesClusterParams("it's ~ a * test (+/=&%) äöü", "v1", "blue", "o1", 3, zones.Zones[0].Id)
	p.SetMasternodes(1)
	created, err := k.CreateKubernetesCluster(p)
	if err != nil || created.State != "Running" || created.Size != 3 || created.Masternodes != 1 || len(created.Virtualmachines) != 4 || created.Kubernetesversionname != "1.30.1" {
		t.Fatalf("create: %v %+v", err, created)
	}
	list := k.NewListKubernetesClustersParams()
	list.SetId(created.Id)
	got, err := k.ListKubernetesClusters(list)
	if err != nil || got.Count != 1 || got.KubernetesClusters[0].Description != "it's ~ a * test (+/=&%) äöü" || got.KubernetesClusters[0].Ipaddress != "10.1.1.9" {
		t.Fatalf("list: %v %+v", err, got)
	}
	if _, count, err := k.GetKubernetesClusterByName("blue"); err != nil || count != 1 {
		t.Errorf("by name: %d %v", count, err)
	}

	scale := k.NewScaleKubernetesClusterParams(created.Id)
	scale.SetSize(5)
	up, err := k.ScaleKubernetesCluster(scale)
	if err != nil || up.Size != 5 || len(up.Virtualmachines) != 6 {
		t.Fatalf("scale up: %v %+v", err, up)
	}
	scale = k.NewScaleKubernetesClusterParams(created.Id)
	scale.SetNodeids([]string{up.Virtualmachines[5].Id, up.Virtualmachines[3].Id})
	down, err := k.ScaleKubernetesCluster(scale)
	if err != nil || down.Size != 3 || len(down.Virtualmachines) != 4 {
		t.Fatalf("scale down: %v %+v", err, down)
	}
	config, err := k.GetKubernetesClusterConfig(configOf(k, created.Id))
	if err != nil || !strings.Contains(config.Configdata, "apiVersion") {
		t.Errorf("config: %v %+v", err, config)
	}

	stopped, err := k.StopKubernetesCluster(k.NewStopKubernetesClusterParams(created.Id))
	if err != nil || !stopped.Success {
		t.Errorf("stop: %v %+v", err, stopped)
	}
	if _, err := k.ScaleKubernetesCluster(scale); err == nil || !strings.Contains(err.Error(), "531") {
		t.Errorf("scale on Stopped: %v", err)
	}
	if _, err := k.StartKubernetesCluster(k.NewStartKubernetesClusterParams(created.Id)); err != nil {
		t.Errorf("start: %v", err)
	}
	gone, err := k.DeleteKubernetesCluster(k.NewDeleteKubernetesClusterParams(created.Id))
	if err != nil || !gone.Success {
		t.Errorf("delete: %v %+v", err, gone)
	}
	if _, err := k.StartKubernetesCluster(k.NewStartKubernetesClusterParams(created.Id)); err == nil || !strings.Contains(err.Error(), "431") {
		t.Errorf("start of a removed id: %v", err)
	}
	// finding 19: by this error the SDK and Terraform know that a cluster is gone.
	if _, count, err := k.GetKubernetesClusterByID(created.Id); count != 0 || err == nil || !strings.Contains(err.Error(), "No match found") {
		t.Errorf("a removed cluster by its id: %d %v", count, err)
	}
	if _, err := k.DeleteKubernetesCluster(k.NewDeleteKubernetesClusterParams(created.Id)); err == nil ||
		!strings.Contains(err.Error(), "Invalid parameter id value="+created.Id+" due to incorrect long value format, or entity does not exist") {
		t.Errorf("delete of a removed cluster: %v", err)
	}
	project := k.NewListKubernetesClustersParams()
	project.SetProjectid("00000000-0000-4000-8000-00000000aaaa")
	if all, err := k.ListKubernetesClusters(project); err == nil || !strings.Contains(err.Error(), "projectid") {
		t.Errorf("the clusters of a project: %v %v", all, err)
	}
	wrong := cloudstack.NewAsyncClient(h.url, h.key.ID, "wrong", false)
	if _, err := wrong.Zone.ListZones(wrong.Zone.NewListZonesParams()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong secret: %v", err)
	}
}

func configOf(k cloudstack.KubernetesServiceIface, id string) *cloudstack.GetKubernetesClusterConfigParams {
	p := k.NewGetKubernetesClusterConfigParams()
	p.SetId(id)
	return p
}
