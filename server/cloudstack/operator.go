package cloudstack

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// operatorCommands returns the commands for operators only.
func operatorCommands() []*command {
	return []*command{
		{
			name: "forgetContainerCluster", description: "gives up the resources that a cluster in Expunge could not delete", async: true, operators: true, related: "listContainerClusterLeaks",
			params:   []parameter{clusterID, {name: "confirm", kind: text, description: "the name of the cluster", required: true}},
			response: slices.Concat(succeeded, []field{{name: "leaks", kind: "list", description: "the resources that may remain at the provider"}}), run: forget,
		},
		{
			name: "listContainerClusterLeaks", description: "lists resources that could not be deleted, or were given up", operators: true, related: "forgetContainerCluster",
			params: slices.Concat([]parameter{
				{name: "clusterid", kind: id, description: "only resources of this cluster", uuid: true},
				{name: "kind", kind: text, description: "only resources of this kind, such as vm"},
			}, paging),
			response: leakFields, run: listLeaks,
		},
	}
}

var leakFields = []field{
	{name: "cluster", kind: "string", description: "the id of its cluster"},
	{name: "clustername", kind: "string", description: "the name of that cluster"},
	{name: "account", kind: "string", description: "the account that owns the cluster"},
	{name: "domain", kind: "string", description: "its domain"},
	{name: "provider", kind: "string", description: "its provider"},
	{name: "kind", kind: "string", description: "its kind"},
	{name: "id", kind: "string", description: "its id at the provider"},
	{name: "resource", kind: "string", description: "its name"},
	{name: "since", kind: "date", description: "since when it should be deleted"},
	{name: "attempts", kind: "integer", description: "attempts to delete it"},
	{name: "code", kind: "string", description: "the last fault"},
	{name: "text", kind: "string", description: "the message of that fault"},
	{name: "remedy", kind: "string", description: "the remedy"},
	{name: "phase", kind: "string", description: "leaked, forgotten, orphan or unseen"},
}

func forget(ctx context.Context, c *call) (any, error) {
	c.target = c.values.text["id"]
	job, err := c.options.Clusters.Forget(ctx, c.who, c.target, c.values.text["confirm"], c.values.text["customjobid"])
	if err != nil {
		return nil, err
	}
	return object{"jobid": job.ID}, nil
}

// leakKinds are the kinds of resources that may leak.
var leakKinds = []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer, cluster.KeyPair}

func listLeaks(ctx context.Context, c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	kind := cluster.Kind(c.values.text["kind"])
	if kind != "" && !slices.Contains(leakKinds, kind) {
		return nil, c.command.wrong("kind", "%q: it is one of %v", kind, leakKinds)
	}
	leaks, total, err := c.leakPage(ctx, c.values.text["clusterid"], kind, p)
	return listAnswer("leak", leaks, total), err
}

func (c *call) leaks(ctx context.Context, uuid string, kind cluster.Kind, p page) ([]object, error) {
	leaks, _, err := c.leakPage(ctx, uuid, kind, p)
	return leaks, err
}

func (c *call) leakPage(ctx context.Context, uuid string, kind cluster.Kind, p page) ([]object, int, error) {
	found, total, err := c.options.Clusters.Leaks(ctx, c.who, uuid, kind, p.offset, p.limit)
	if err != nil {
		return nil, 0, err
	}
	items := make([]object, 0, len(found))
	for _, l := range found {
		account, domain, err := c.namesOf(ctx, l.Owner)
		if err != nil {
			return nil, 0, err
		}
		o := object{"kind": string(l.Kind), "attempts": l.Attempts}
		for name, text := range map[string]string{
			"cluster": l.Cluster, "clustername": l.Name, "account": account, "domain": domain, "provider": l.Provider, "id": l.ID,
			"resource": l.Resource, "code": l.Code, "text": l.Text, "remedy": l.Remedy, "phase": l.Phase,
		} {
			o.set(name, text)
		}
		if !l.Since.IsZero() {
			o["since"] = date(l.Since)
		}
		items = append(items, o)
	}
	return items, total, nil
}
