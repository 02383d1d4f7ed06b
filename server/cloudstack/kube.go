package cloudstack

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/pawl-dev/pawl/cluster"
)

// kubeCommands returns the same operations under the names that autoscalers, SDKs and
// CLIs of Kubernetes clusters use.
func kubeCommands() []*command {
	all := []*command{
		{
			name: "createKubernetesCluster", description: "creates a Kubernetes cluster", async: true, related: "listKubernetesClusters",
			params: slices.Concat(createParams, []parameter{
				{name: "zoneid", kind: id, description: "its zone", required: true, related: "listZones"},
				{name: "kubernetesversionid", kind: id, description: "the version of its nodes", required: true, related: "listKubernetesSupportedVersions"},
				{name: "size", kind: number, description: "workers; control nodes come on top", required: true},
				{name: "controlnodes", alias: "masternodes", kind: number, description: "control nodes, an odd number; default 1"},
				{name: "noderootdisksize", kind: number, description: "GB of a node's root disk; default that of the template"},
				{name: "clustertype", kind: text, description: "CloudManaged: the type of all clusters"},
				dryRun,
			}, unsupported),
			response: slices.Concat([]field{{name: "id", kind: "string", description: "the id of the cluster"}}, jobAnswer, kubeFields), run: createKube,
		},
		{name: "deleteKubernetesCluster", description: "deletes a Kubernetes cluster", async: true, params: []parameter{clusterID}, response: succeeded, run: change(cluster.RequestDelete)},
		{name: "startKubernetesCluster", description: "starts a stopped Kubernetes cluster", async: true, params: []parameter{clusterID}, response: kubeFields, run: change(cluster.RequestStart)},
		{name: "stopKubernetesCluster", description: "stops a Kubernetes cluster", async: true, params: []parameter{
			clusterID, {name: "forced", kind: boolean, description: "true: VMs are not shut down first"},
		}, response: succeeded, run: change(cluster.RequestStop)},
		{
			name: "listKubernetesClusters", description: "lists Kubernetes clusters", related: "createKubernetesCluster",
			params: slices.Concat([]parameter{
				{name: "id", kind: id, description: "only the cluster with this id", uuid: true},
				{name: "name", kind: text, description: "only the cluster with this name"},
				{name: "state", kind: text, description: "only clusters in this state"}, keyword,
			}, ownerFilters, paging, []parameter{{name: "clustertype", kind: text, description: "CloudManaged: the type of all clusters"}}),
			response: kubeFields, run: listKube,
		},
		{
			name: "scaleKubernetesCluster", description: "changes the number of workers", async: true,
			params: slices.Concat(scaleParams, []parameter{
				{name: "serviceofferingid", kind: id, description: "the offering of its nodes; it cannot be changed", related: "listServiceOfferings"},
				dryRun,
			}, unsupported),
			response: kubeFields, run: scaleKube,
		},
		{name: "upgradeKubernetesCluster", description: "replaces the nodes of a cluster with nodes of another version", async: true, params: []parameter{
			clusterID,
			{name: "kubernetesversionid", alias: "versionid", kind: id, description: "the version to upgrade to", required: true, related: "listKubernetesSupportedVersions"},
			{name: "surge", kind: number, description: "nodes that are added at a time; default 1"}, allowDowntime, dryRun,
		}, response: kubeFields, run: upgrade},
		{name: "getKubernetesClusterConfig", description: "returns the client configuration of a cluster", params: []parameter{clusterID}, response: configFields, run: config},
		{name: "listKubernetesSupportedVersions", description: "lists the versions that nodes may have", params: slices.Concat(
			[]parameter{idFilter, nameFilter, keyword, {name: "minimumsemanticversion", kind: text, description: "only this version and later ones"}}, paging),
			response: versionFields, run: listVersions},
	}
	for _, c := range all {
		c.kube = true
	}
	return all
}

// unsupported are parameters of CloudStack that change the cluster. They are refused:
// ignoring them would create another cluster than requested.
var unsupported = []parameter{
	{name: "etcdnodes", kind: number, refused: "separate etcd nodes are not served"},
	{name: "nodeofferings", kind: mapping, refused: "an offering per role is not served"},
	{name: "nodetemplates", kind: mapping, refused: "a template per role is not served"},
	{name: "externalloadbalanceripaddress", kind: text, refused: "an external balancer is not served"},
}

// refuseExternal refuses clusters that CloudStack does not manage itself. PARAMETER_WRONG.
func (c *call) refuseExternal() error {
	if kind := c.values.text["clustertype"]; kind != "" && kind != managed {
		return c.command.wrong("clustertype", "%q: only %s is served", kind, managed)
	}
	return nil
}

func createKube(ctx context.Context, c *call) (any, error) {
	if err := c.refuseExternal(); err != nil {
		return nil, err
	}
	if disk := c.values.number("noderootdisksize"); c.values.has("noderootdisksize") && disk < 1 {
		return nil, c.command.wrong("noderootdisksize", "%d GB is not a valid disk size", disk)
	}
	return create(ctx, c)
}

func listKube(ctx context.Context, c *call) (any, error) {
	if kind := c.values.text["clustertype"]; kind != "" && kind != managed {
		return object{}, nil // there are no others
	}
	return listClusters(ctx, c)
}

// scaleKube accepts the present offering of the cluster and refuses another one.
func scaleKube(ctx context.Context, c *call) (any, error) {
	if offering := c.values.text["serviceofferingid"]; offering != "" {
		b, err := c.options.Clusters.Get(ctx, c.who, c.values.text["id"])
		if err != nil {
			return nil, err
		}
		if b.Cluster.Offering.ID != offering {
			return nil, c.command.wrong("serviceofferingid", "the offering of a cluster, %s, cannot be changed", b.Cluster.Offering.ID)
		}
	}
	return scale(ctx, c)
}

var versionFields = []field{
	{name: "id", kind: "string", description: "the id of the version"},
	{name: "name", kind: "string", description: "its name"},
	{name: "semanticversion", kind: "string", description: "x.y.z"},
	{name: "templateid", kind: "string", description: "the template of its nodes"},
	{name: "templatename", kind: "string", description: "the name of the template"},
	{name: "state", kind: "string", description: "Enabled or Disabled"},
	{name: "mincpunumber", kind: "integer", description: "cores that a node needs"},
	{name: "minmemory", kind: "integer", description: "memory in MB that a node needs"},
	{name: "supportsha", kind: "boolean", description: "several control nodes are possible"},
	{name: "supportsautoscaling", kind: "boolean", description: "an autoscaler may change the size"},
}

func listVersions(_ context.Context, c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	v := c.values
	least, ok := semantic(v.text["minimumsemanticversion"])
	if v.has("minimumsemanticversion") && !ok {
		return nil, c.command.wrong("minimumsemanticversion", "%q is not a version x.y.z", v.text["minimumsemanticversion"])
	}
	items := []object{}
	for _, one := range c.options.Clusters.Versions() {
		own, _ := semantic(one.Semantic)
		if v.has("id") && one.ID != v.text["id"] || !containsFold(one.Name, v.text["name"]) || !containsFold(one.Name+" "+one.Semantic, v.text["keyword"]) || v.has("minimumsemanticversion") && semver.Compare(own, least) < 0 {
			continue
		}
		o := object{
			"id": one.ID, "name": one.Name, "semanticversion": one.Semantic, "state": map[bool]string{false: "Enabled", true: "Disabled"}[one.Disabled],
			"mincpunumber": max(one.MinCores, 1), "minmemory": max(one.MinMemory, 512), "supportsha": true, "supportsautoscaling": true,
		}
		o.set("templateid", one.Template.ID)
		o.set("templatename", one.Template.Name)
		items = append(items, o)
	}
	return listAnswer("kubernetessupportedversion", pageItems(items, p), len(items)), nil
}

// semantic returns x, x.y or x.y.z, with or without a leading v, in the form of package semver.
func semantic(text string) (v string, ok bool) {
	v = "v" + strings.TrimPrefix(text, "v")
	return v, semver.IsValid(v)
}
