package cloudstack

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/machine"
)

// containerCommands returns the commands of container clusters.
func containerCommands() []*command {
	return []*command{
		{
			name: "createContainerCluster", description: "creates a cluster of VMs", async: true, related: "listContainerCluster",
			params: slices.Concat(createParams, []parameter{
				{name: "zoneid", kind: id, description: "its zone", required: true, related: "listZones"},
				{name: "size", alias: "cluster", kind: number, description: "workers; control nodes come on top", required: true},
				{name: "controlnodes", kind: number, description: "control nodes, an odd number; default 1"},
				{name: "templateid", kind: id, description: "the template of its nodes; default the configured one", related: "listTemplates"},
				{name: "cidrlist", kind: list, description: "networks that may reach the endpoint; default all"},
				{name: "recovery", kind: list, description: "automatic recovery: none, or some of restart, replace, adopt"},
				{name: "onfailure", kind: text, description: "what a failed create does: rollback, lazy or keep"},
				dryRun,
			}),
			response: slices.Concat([]field{{name: "id", kind: "string", description: "the id of the cluster"}}, jobAnswer, containerFields), run: create,
		},
		{name: "deleteContainerCluster", description: "deletes a cluster", async: true, params: []parameter{
			clusterID, {name: "force", kind: boolean, description: "true: VMs are not shut down first"},
		}, response: succeeded, run: change(cluster.RequestDelete)},
		{name: "startContainerCluster", description: "starts a stopped cluster", async: true, params: []parameter{clusterID}, response: containerFields, run: change(cluster.RequestStart)},
		{name: "stopContainerCluster", description: "stops a cluster", async: true, params: []parameter{
			clusterID, {name: "forced", kind: boolean, description: "true: VMs are not shut down first"},
		}, response: succeeded, run: change(cluster.RequestStop)},
		{
			name: "listContainerCluster", description: "lists clusters", related: "createContainerCluster",
			params:   slices.Concat(listParams, ownerFilters, paging),
			response: containerFields, run: listClusters,
		},
		{
			name: "listContainerClusters", description: "the same as listContainerCluster; CLIs use this name to complete the id of a cluster",
			related: "createContainerCluster", params: slices.Concat(listParams, ownerFilters, paging), response: containerFields, run: listClusters,
		},
		{name: "scaleContainerCluster", description: "changes the number of workers", async: true, params: slices.Concat(scaleParams, []parameter{dryRun}), response: containerFields, run: scale},
		{name: "upgradeContainerCluster", description: "replaces the nodes of a cluster with nodes of another version", async: true, params: []parameter{
			clusterID,
			{name: "versionid", alias: "kubernetesversionid", kind: id, description: "the version to upgrade to", required: true, related: "listKubernetesSupportedVersions"},
			{name: "surge", kind: number, description: "nodes that are added at a time; default 1"}, allowDowntime, dryRun,
		}, response: containerFields, run: upgrade},
		{name: "getContainerClusterConfig", description: "returns the client configuration of a cluster", params: []parameter{clusterID}, response: configFields, run: config},
		{name: "recoverContainerCluster", description: "repairs a cluster", async: true, params: []parameter{
			clusterID, {name: "recovery", kind: list, description: "recovery for this request: none, or some of restart, replace, adopt; default restart,replace"},
			{name: "consent", kind: boolean, description: "true: the last control node may be replaced; its data is lost"},
		}, response: containerFields, run: change(cluster.RequestRecover)},
		{name: "getContainerClusterDrift", description: "compares the desired, recorded and observed state", params: []parameter{clusterID}, response: driftFields, run: drift},
	}
}

var listParams = []parameter{
	{name: "id", kind: id, description: "only the cluster with this id", uuid: true}, nameFilter,
	{name: "state", kind: text, description: "only clusters in this state; destroyed clusters are listed only with it"}, keyword,
}

// allowDowntime is the parameter that the upgrade of a cluster with one control node needs.
var allowDowntime = parameter{name: "allowdowntime", kind: boolean, description: "true: the only control node may be upgraded in place, while the endpoint does not answer"}

// createParams are the parameters of create in both families.
var createParams = []parameter{
	{name: "name", kind: text, description: "its name: a valid label of a host name", required: true},
	{name: "serviceofferingid", kind: id, description: "the offering of its nodes", required: true, related: "listServiceOfferings"},
	{name: "description", kind: text, description: "a description", length: cluster.MaxDescription},
	{name: "account", alias: "accountname", kind: text, description: "the account that will own it; needs domainid"},
	{name: "domainid", kind: id, description: "the domain of that account"},
	{name: "networkid", kind: id, description: "its network; default a new one", related: "listNetworks"},
	{name: "keypair", kind: text, description: "the key pair of its nodes"},
	{name: "dockerregistryusername", kind: text, description: "the user of a registry; needs the other three"},
	{name: "dockerregistrypassword", kind: text, description: "its password"},
	{name: "dockerregistryurl", kind: text, description: "the URL of the registry"},
	{name: "dockerregistryemail", kind: text, description: "the mail address of the user"},
}

var scaleParams = []parameter{
	clusterID,
	{name: "size", kind: number, description: "desired number of workers; one of size, nodeids, autoscalingenabled"},
	{name: "nodeids", kind: list, description: "workers to remove"},
	{name: "autoscalingenabled", kind: boolean, description: "whether an autoscaler changes the size; needs minsize and maxsize"},
	{name: "minsize", kind: number, description: "minimum size for the autoscaler"},
	{name: "maxsize", kind: number, description: "maximum size for the autoscaler"},
}

var configFields = []field{
	{name: "id", kind: "string", description: "the id of the cluster"},
	{name: "name", kind: "string", description: "its name"},
	{name: "configdata", kind: "string", description: "the configuration of a client"},
}

var driftFields = []field{
	{name: "cluster", kind: "string", description: "the id of the cluster"},
	{name: "state", kind: "string", description: "its state"},
	{name: "desired", kind: "object", description: "the desired state"},
	{name: "recorded", kind: "object", description: "the state in the records"},
	{name: "observed", kind: "object", description: "the state at the provider"},
	{name: "findings", kind: "list", description: "the differences, since when, and what the policy will do"},
}

// request returns the create request of both families. PARAMETER_WRONG.
func (c *call) request() (api.CreateRequest, error) {
	v := c.values
	r := api.CreateRequest{
		Name: v.text["name"], Description: v.text["description"], Zone: v.text["zoneid"], Offering: v.text["serviceofferingid"],
		Template: v.text["templateid"], Network: v.text["networkid"], KeyPair: v.text["keypair"], Version: v.text["kubernetesversionid"],
		Size: v.number("size"), ControlNodes: v.number("controlnodes"), Account: v.text["account"], DomainID: v.text["domainid"],
		DiskGB: v.number("noderootdisksize"), CIDRs: v.list("cidrlist"), OnFailure: cluster.OnFailure(v.text["onfailure"]), JobID: v.text["customjobid"], Command: c.command.name,
	}
	r.Registry.Username, r.Registry.Password = v.text["dockerregistryusername"], cluster.Secret(v.text["dockerregistrypassword"])
	r.Registry.URL, r.Registry.Email = v.text["dockerregistryurl"], v.text["dockerregistryemail"]
	if (r.Account == "") != (r.DomainID == "") {
		return r, c.command.wrong("account", "give account and domainid together")
	}
	if v.has("controlnodes") && r.ControlNodes < 1 {
		return r, c.command.wrong("controlnodes", "%d: give an odd number of at least 1", r.ControlNodes)
	}
	var err error
	r.Recovery, err = c.recovery()
	return r, err
}

// recovery returns the policy of the parameter recovery; nil without it. PARAMETER_WRONG.
func (c *call) recovery() (cluster.Recovery, error) {
	if !c.values.has("recovery") {
		return nil, nil
	}
	policy := cluster.Recovery{}
	for _, word := range c.values.list("recovery") {
		if !strings.EqualFold(word, "none") {
			policy = append(policy, cluster.Remedy(strings.ToLower(word)))
		}
	}
	if err := cluster.ValidateRecovery(policy); err != nil {
		return nil, c.command.wrong("recovery", "%q: it is none, or some of restart, replace, adopt", c.values.text["recovery"])
	}
	return policy, nil
}

func create(ctx context.Context, c *call) (any, error) {
	r, err := c.request()
	if err != nil {
		return nil, err
	}
	c.target = r.Name
	if c.values.boolean("dryrun") {
		plan, err := c.options.Clusters.PlanCreate(ctx, c.who, r)
		return object{"plan": planAnswer(plan)}, err
	}
	created, job, err := c.options.Clusters.Create(ctx, c.who, r)
	if err != nil {
		return nil, err
	}
	c.target = created.UUID
	return object{"id": created.UUID, "jobid": job.ID}, nil
}

// change returns the function of changes that need only an id and flags.
func change(kind cluster.RequestKind) func(context.Context, *call) (any, error) {
	return func(ctx context.Context, c *call) (any, error) {
		policy, err := c.recovery()
		if err != nil {
			return nil, err
		}
		return c.requestChange(ctx, api.ChangeRequest{
			Kind: kind, Forced: c.values.boolean("forced") || c.values.boolean("force"), Recovery: policy, Consent: c.values.boolean("consent"),
		})
	}
}

// requestChange requests a change, or returns its plan.
func (c *call) requestChange(ctx context.Context, r api.ChangeRequest) (any, error) {
	c.target = c.values.text["id"]
	r.JobID, r.Command = c.values.text["customjobid"], c.command.name
	if c.values.boolean("dryrun") {
		plan, err := c.options.Clusters.PlanChange(ctx, c.who, c.target, r)
		return object{"plan": planAnswer(plan)}, err
	}
	_, job, err := c.options.Clusters.Change(ctx, c.who, c.target, r)
	if err != nil {
		return nil, err
	}
	return object{"jobid": job.ID}, nil
}

// scale requests one of three changes: a size, the removal of nodes, or autoscaling.
func scale(ctx context.Context, c *call) (any, error) {
	v := c.values
	r := api.ChangeRequest{Kind: cluster.RequestScale, Size: v.number("size"), NodeIDs: v.list("nodeids")}
	ways := 0
	for _, name := range []string{"size", "nodeids", "autoscalingenabled"} {
		if v.has(name) {
			ways++
		}
	}
	bounded := v.has("minsize") || v.has("maxsize")
	switch {
	case ways != 1:
		return nil, c.command.wrong("size", "one of size, nodeids and autoscalingenabled is given, not %d", ways)
	case v.has("size") && r.Size < 1:
		return nil, c.command.wrong("size", "%d: at least 1 worker is needed", r.Size)
	case v.has("nodeids") && len(r.NodeIDs) == 0:
		return nil, c.command.wrong("nodeids", "it names no node")
	case bounded && !v.boolean("autoscalingenabled"):
		return nil, c.command.wrong("minsize", "minsize and maxsize go with autoscalingenabled=true")
	case v.has("autoscalingenabled"):
		r.Autoscale = &cluster.Autoscale{Enabled: v.boolean("autoscalingenabled"), Min: v.number("minsize"), Max: v.number("maxsize")}
		if a := r.Autoscale; a.Enabled && !(a.Min >= 1 && a.Min < a.Max) {
			return nil, c.command.wrong("minsize", "%d to %d: 1 <= minsize < maxsize", a.Min, a.Max)
		}
	}
	return c.requestChange(ctx, r)
}

func upgrade(ctx context.Context, c *call) (any, error) {
	surge := max(c.values.number("surge"), 0)
	if c.values.has("surge") && surge == 0 {
		return nil, c.command.wrong("surge", "at least 1 node is added at a time")
	}
	return c.requestChange(ctx, api.ChangeRequest{
		Kind: cluster.RequestUpgrade, Version: c.values.text["versionid"] + c.values.text["kubernetesversionid"], Surge: max(surge, 1), Downtime: c.values.boolean("allowdowntime"),
	})
}

func config(ctx context.Context, c *call) (any, error) {
	got, err := c.options.Clusters.Config(ctx, c.who, c.values.text["id"])
	if err != nil {
		return nil, err
	}
	return object{"clusterconfig": object{"id": got.ID, "name": got.Name, "configdata": got.Data.Reveal()}}, nil
}

func drift(ctx context.Context, c *call) (any, error) {
	report, err := c.options.Clusters.Drift(ctx, c.who, c.values.text["id"])
	return object{"drift": driftAnswer(report)}, err
}

// family returns the name of a cluster in answers.
func (c *command) family() string {
	if c.kube {
		return "kubernetescluster"
	}
	return "containercluster"
}

// statesOf returns the states that a value of the parameter state means; nil if it means none.
func (c *command) statesOf(word string) []machine.State {
	if c.kube {
		switch {
		case strings.EqualFold(word, destroying):
			return []machine.State{cluster.Expunging, cluster.Expunge}
		case strings.EqualFold(word, upgrading):
			return []machine.State{cluster.Scaling}
		}
	}
	for _, s := range cluster.States {
		if strings.EqualFold(string(s), word) {
			return []machine.State{s}
		}
	}
	return nil
}

// narrow returns the caller and the query that the parameters account, domainid,
// isrecursive and listall select. A list never shows more than the caller may use.
func (c *call) narrow(ctx context.Context) (who cluster.Caller, q cluster.ClusterQuery, err error) {
	who, v := c.who, c.values
	if v.has("account") && !v.has("domainid") {
		return who, q, c.command.wrong("account", "give it together with domainid")
	}
	domain := v.text["domainid"]
	switch {
	case v.has("account"):
		owner, err := c.directory.Resolve(ctx, v.text["account"], domain)
		if err != nil {
			return who, q, err
		}
		if !who.Scope.Sees(owner) {
			return who, q, cluster.AccessRefused.Errorf("account %s is not in the reach of %s", v.text["account"], who.User).With("parameter", "account")
		}
		q.AccountID = owner.AccountID
	case domain != "":
		ids, err := c.directory.Subtree(ctx, domain)
		if err != nil {
			return who, q, err
		}
		if domain != who.Owner.DomainID && !who.Scope.Sees(cluster.Owner{DomainID: domain}) {
			return who, q, cluster.AccessRefused.Errorf("domain %s is not in the reach of %s", domain, who.User).With("parameter", "domainid")
		}
		q.DomainIDs = []string{domain}
		if v.boolean("isrecursive") {
			q.DomainIDs = ids
		}
	case who.DomainAdmin && !v.boolean("listall"):
		who.Scope = cluster.Scope{AccountID: who.Owner.AccountID}
	}
	return who, q, nil
}

func listClusters(ctx context.Context, c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	who, q, err := c.narrow(ctx)
	if err != nil {
		return nil, err
	}
	v := c.values
	if v.has("id") {
		return c.listOne(ctx, who, q, p)
	}
	q.Name, q.Keyword, q.ExactName, q.Offset, q.Limit = v.text["name"], v.text["keyword"], c.command.kube, p.offset, p.limit
	if p.limit == noLimit {
		q.Limit = -1
	}
	clusters, total, err := c.listByState(ctx, who, q, p)
	if err != nil || len(clusters) == 0 {
		return object{}, err
	}
	items, err := c.viewAll(ctx, clusters)
	if err != nil {
		return nil, err
	}
	return &clusterPage{c.command.family(), items, total}, nil
}

// viewAll returns the clusters of a list with the data that answers need. Only answers
// of the Kubernetes family contain more of the VMs than their ids.
func (c *call) viewAll(ctx context.Context, clusters []cluster.Cluster) ([]*clusterView, error) {
	var nodes map[int64][]cluster.Node
	var vms map[int64][]string
	var err error
	if c.command.kube {
		nodes, err = c.options.Clusters.Nodes(ctx, clusters)
	} else {
		vms, err = c.options.Clusters.VMs(ctx, clusters)
	}
	if err != nil {
		return nil, err
	}
	reach, err := c.options.Clusters.Reach(ctx, clusters)
	if err != nil {
		return nil, err
	}
	if err := c.loadStandings(ctx, clusters); err != nil {
		return nil, err
	}
	all, items := make([]clusterView, len(clusters)), make([]*clusterView, len(clusters))
	for i := range clusters {
		one, s := &clusters[i], &all[i]
		if err := c.fillView(ctx, s, one, nodes[one.ID], c.command.kube); err != nil {
			return nil, err
		}
		if s.reach = reach[one.ID]; !c.command.kube {
			s.vms = vms[one.ID]
		}
		items[i] = s
	}
	return items, nil
}

// listByState lists the clusters in a state. The Kubernetes family has words that mean
// two states, or a part of one: then this function selects the page.
func (c *call) listByState(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery, p page) ([]cluster.Cluster, int, error) {
	word := c.values.text["state"]
	if word == "" {
		return c.options.Clusters.List(ctx, who, q)
	}
	states := c.command.statesOf(word)
	if states == nil {
		return nil, 0, c.command.wrong("state", "%q is not a state of a cluster", word)
	}
	if !c.command.kube || len(states) == 1 && states[0] != cluster.Scaling {
		q.State = states[0]
		return c.options.Clusters.List(ctx, who, q)
	}
	var all []cluster.Cluster
	for _, q.State = range states {
		q.Offset, q.Limit = 0, -1
		some, _, err := c.options.Clusters.List(ctx, who, q)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, some...)
	}
	all = slices.DeleteFunc(all, func(one cluster.Cluster) bool {
		return one.State == cluster.Scaling && isUpgrade(&one) != strings.EqualFold(word, upgrading)
	})
	slices.SortFunc(all, func(a, b cluster.Cluster) int {
		if at := a.Created.Compare(b.Created); at != 0 {
			return at
		}
		return int(a.ID - b.ID)
	})
	return pageItems(all, p), len(all), nil
}

// listOne lists a cluster by its id. CLUSTER_NOT_FOUND for an unknown or removed id.
func (c *call) listOne(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery, p page) (any, error) {
	v := c.values
	b, err := c.options.Clusters.Get(ctx, c.who, v.text["id"])
	if err != nil {
		return nil, err
	}
	one := &b.Cluster
	s, err := c.viewOf(ctx, b, c.command.kube)
	if err != nil {
		return nil, err
	}
	if one.State == cluster.Destroyed && !strings.EqualFold(v.text["state"], string(cluster.Destroyed)) {
		return nil, cluster.NotFound.Errorf("cluster %s is removed", one.UUID)
	}
	named := containsFold(one.Name, v.text["name"])
	if c.command.kube && v.has("name") {
		named = one.Name == v.text["name"]
	}
	fits := named && (containsFold(one.Name, v.text["keyword"]) || containsFold(one.Description, v.text["keyword"])) &&
		(!v.has("state") || strings.EqualFold(s.state(), v.text["state"])) && (v.boolean("listall") || who.Scope.Sees(one.Owner)) &&
		(q.AccountID == "" || q.AccountID == one.Owner.AccountID) && (q.DomainIDs == nil || slices.Contains(q.DomainIDs, one.Owner.DomainID))
	if !fits || p.offset > 0 {
		return object{}, nil
	}
	return &clusterPage{c.command.family(), []*clusterView{s}, 1}, nil
}
