package cloudstack

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// catalogCommands returns the commands that list what the providers offer to the caller.
func catalogCommands() []*command {
	filters := slices.Concat([]parameter{idFilter, nameFilter, zoneFilter, keyword,
		{name: "listall", kind: boolean, description: "has no effect: the list has all entries that the caller may use"},
	}, paging)
	of := func(name, about, key string, kind cluster.Kind, fields []field, show func(cluster.Entry) object) *command {
		params := filters
		if kind == cluster.Template {
			params = slices.Concat(filters, []parameter{{name: "templatefilter", kind: text, description: "executable: templates for nodes; others are not listed"}})
		}
		return &command{name: name, description: about, params: params, response: fields, run: func(ctx context.Context, c *call) (any, error) {
			return c.catalog(ctx, key, kind, show)
		}}
	}
	return []*command{
		of("listZones", "lists zones", "zone", cluster.Zone, []field{
			{name: "id", kind: "string", description: "the id of the zone"}, {name: "name", kind: "string", description: "its name"},
			{name: "allocationstate", kind: "string", description: "Enabled or Disabled"}, {name: "networktype", kind: "string", description: "Advanced"},
		}, func(e cluster.Entry) object {
			return object{"allocationstate": map[bool]string{false: "Enabled", true: "Disabled"}[e.Disabled], "networktype": "Advanced"}
		}),
		of("listServiceOfferings", "lists offerings of nodes", "serviceoffering", cluster.Offering, []field{
			{name: "id", kind: "string", description: "the id of the offering"}, {name: "name", kind: "string", description: "its name"},
			{name: "displaytext", kind: "string", description: "its name"}, {name: "cpunumber", kind: "integer", description: "cores of a node"},
			{name: "memory", kind: "integer", description: "memory of a node in MB"}, {name: "iscustomized", kind: "boolean", description: "true: it cannot be used"},
			{name: "zoneid", kind: "string", description: "its zone; absent: all"},
		}, func(e cluster.Entry) object {
			o := object{"displaytext": e.Name, "iscustomized": e.Custom, "zoneid": e.Zone}
			if !e.Custom {
				o["cpunumber"], o["memory"] = e.Cores, e.MemoryMB
			}
			return o
		}),
		of("listTemplates", "lists templates of nodes", "template", cluster.Template, []field{
			{name: "id", kind: "string", description: "the id of the template"}, {name: "name", kind: "string", description: "its name"},
			{name: "displaytext", kind: "string", description: "its name"}, {name: "isready", kind: "boolean", description: "whether it can be used"},
			{name: "zoneid", kind: "string", description: "its zone; absent: all"},
		}, func(e cluster.Entry) object {
			return object{"displaytext": e.Name, "isready": !e.Disabled, "zoneid": e.Zone}
		}),
		of("listNetworks", "lists networks", "network", cluster.Network, []field{
			{name: "id", kind: "string", description: "the id of the network"}, {name: "name", kind: "string", description: "its name"},
			{name: "zoneid", kind: "string", description: "the zone it is in"}, {name: "state", kind: "string", description: "its state"},
			{name: "issystem", kind: "boolean", description: "true: it cannot be used"}, {name: "service", kind: "list", description: "its services"},
		}, func(e cluster.Entry) object {
			services := []object{}
			for _, s := range e.Services {
				services = append(services, object{"name": s})
			}
			return object{"zoneid": e.Zone, "state": e.State, "issystem": e.System, "service": services}
		}),
	}
}

// executable is the only supported filter of templates.
const executable = "executable"

func (c *call) catalog(ctx context.Context, key string, kind cluster.Kind, show func(cluster.Entry) object) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	if only := c.values.text["templatefilter"]; only != "" && !strings.EqualFold(only, executable) {
		return nil, c.command.wrong("templatefilter", "%q: only %s is served", only, executable)
	}
	all, err := c.options.Clusters.Catalog(ctx, c.who, kind)
	if err != nil {
		return nil, err
	}
	v, items := c.values, []object{}
	for _, e := range all {
		if v.has("id") && v.text["id"] != e.ID || !containsFold(e.Name, v.text["name"]) || !containsFold(e.Name, v.text["keyword"]) ||
			v.has("zoneid") && e.Zone != "" && e.Zone != v.text["zoneid"] && kind != cluster.Zone {
			continue
		}
		o := object{"id": e.ID, "name": e.Name}
		for name, value := range show(e) {
			o.set(name, value)
		}
		items = append(items, o)
	}
	return listAnswer(key, pageItems(items, p), len(items)), nil
}
