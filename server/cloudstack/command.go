package cloudstack

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
)

// command is a row of the command table, which routes, validates and describes the commands.
type command struct {
	name        string
	since       string
	description string
	async       bool
	operators   bool // for operators only
	related     string
	params      []parameter
	response    []field
	run         func(ctx context.Context, c *call) (any, error)
	kube        bool // of the Kubernetes family
}

// Parameters that several commands share.
var (
	clusterID = parameter{name: "id", kind: id, description: "the id of the cluster", required: true, uuid: true, related: "listContainerCluster"}
	customJob = parameter{name: "customjobid", kind: id, description: "the id of the new job; requests with the same id are executed once", uuid: true, clientChosen: true}
	dryRun    = parameter{name: "dryrun", kind: boolean, description: "true: return the plan and change nothing"}
	paging    = []parameter{
		{name: "page", kind: number, description: "the page, from 1; with pagesize only"},
		{name: "pagesize", kind: number, description: "items per page; -1 for all"},
	}
	idFilter     = parameter{name: "id", kind: id, description: "only the item with this id"}
	nameFilter   = parameter{name: "name", kind: text, description: "only items whose name contains this text"}
	keyword      = parameter{name: "keyword", kind: text, description: "only items that contain this text"}
	zoneFilter   = parameter{name: "zoneid", kind: id, description: "only items of this zone", related: "listZones"}
	ownerFilters = []parameter{
		{name: "account", kind: text, description: "only items of this account; needs domainid"},
		{name: "domainid", kind: id, description: "only items of this domain"},
		{name: "listall", kind: boolean, description: "true: all items that the caller may see"},
		{name: "isrecursive", kind: boolean, description: "true: also items of the domains below domainid"},
	}
	succeeded = []field{{name: "success", kind: "boolean", description: "true if the operation succeeded"}}
	jobAnswer = []field{{name: "jobid", kind: "string", description: "the id of the job"}}
)

// table returns all commands, in the order of listApis.
func table() []*command {
	var all []*command
	all = append(all, containerCommands()...)
	all = append(all, kubeCommands()...)
	all = append(all, jobCommands()...)
	all = append(all, catalogCommands()...)
	all = append(all, operatorCommands()...)
	return append(all, &command{
		name: "listApis", description: "lists the commands that the caller may call",
		params: []parameter{
			{name: "name", kind: text, description: "only the command with this name"},
			{name: "listall", kind: boolean, description: "has no effect"},
		},
		response: apiFields, run: listAPIs,
	})
}

// routes returns all commands, and a map of them by name in lower case.
func routes() (all []*command, byName map[string]*command) {
	all, byName = table(), map[string]*command{}
	for _, c := range all {
		c.since = cmp.Or(c.since, "1.0")
		if c.async {
			c.params = slices.Concat(c.params, []parameter{customJob})
		}
		byName[strings.ToLower(c.name)] = c
	}
	return all, byName
}

var apiFields = []field{
	{name: "name", kind: "string", description: "the name of the command"},
	{name: "description", kind: "string", description: "what it does"},
	{name: "isasync", kind: "boolean", description: "whether it returns a job"},
	{name: "since", kind: "string", description: "the version that introduced it"},
	{name: "related", kind: "string", description: "related commands"},
	{name: "params", kind: "set", description: "its parameters"},
	{name: "response", kind: "set", description: "fields of its answer"},
}

// listAPIs describes the commands of the table that routes them. Clients depend on the
// exact format: params and response are always arrays, and no text is omitted.
func listAPIs(_ context.Context, c *call) (any, error) {
	apis := []object{}
	for _, one := range c.commands {
		if one.operators && !c.who.Operator || c.values.has("name") && !strings.EqualFold(one.name, c.values.text["name"]) {
			continue
		}
		apis = append(apis, one.describe())
	}
	return listAnswer("api", apis, len(apis)), nil
}

func (c *command) describe() object {
	params := []object{}
	for _, p := range c.params {
		if p.refused != "" {
			continue
		}
		o := object{
			"name": p.name, "description": p.description, "type": string(p.kind), "length": p.maxLength(),
			"required": p.required, "related": p.related,
		}
		params = append(params, o)
		if p.alias != "" {
			same := maps.Clone(o)
			same["name"], same["description"], same["required"] = p.alias, "the same as "+p.name, false
			params = append(params, same)
		}
	}
	response := []object{}
	for _, f := range c.response {
		response = append(response, object{"name": f.name, "description": f.description, "type": f.kind})
	}
	return object{
		"name": c.name, "description": c.description, "isasync": c.async, "since": c.since, "related": c.related,
		"params": params, "response": response,
	}
}
