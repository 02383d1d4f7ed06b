package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
)

// command is a row of the command table, which routes, validates and describes the commands.
type command struct {
	name      string
	since     string
	about     string
	async     bool
	operators bool // for operators only
	related   string
	params    []parameter
	response  []field
	run       func(ctx context.Context, c *call) (any, error)
	kube      bool // of the Kubernetes family
}

// Parameters that several commands share.
var (
	clusterID = parameter{name: "id", kind: id, about: "the id of the cluster", required: true, uuid: true, related: "listContainerCluster"}
	customJob = parameter{name: "customjobid", kind: id, about: "the id of the new job; requests with the same id are executed once", uuid: true, ours: true}
	dryRun    = parameter{name: "dryrun", kind: boolean, about: "true: return the plan and change nothing"}
	paging    = []parameter{
		{name: "page", kind: number, about: "the page, from 1; with pagesize only"},
		{name: "pagesize", kind: number, about: "items per page; -1 for all"},
	}
	found    = parameter{name: "id", kind: id, about: "only the item with this id"}
	named    = parameter{name: "name", kind: text, about: "only items whose name contains this text"}
	keyword  = parameter{name: "keyword", kind: text, about: "only items that contain this text"}
	inZone   = parameter{name: "zoneid", kind: id, about: "only items of this zone", related: "listZones"}
	selected = []parameter{
		{name: "account", kind: text, about: "only items of this account; needs domainid"},
		{name: "domainid", kind: id, about: "only items of this domain"},
		{name: "listall", kind: boolean, about: "true: all items that the caller may see"},
		{name: "isrecursive", kind: boolean, about: "true: also items of the domains below domainid"},
	}
	succeeded = []field{{name: "success", kind: "boolean", about: "true if the operation succeeded"}}
	jobAnswer = []field{{name: "jobid", kind: "string", about: "the id of the job"}}
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
		name: "listApis", about: "lists the commands that the caller may call",
		params: []parameter{
			{name: "name", kind: text, about: "only the command with this name"},
			{name: "listall", kind: boolean, about: "has no effect"},
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
	{name: "name", kind: "string", about: "the name of the command"},
	{name: "description", kind: "string", about: "what it does"},
	{name: "isasync", kind: "boolean", about: "whether it returns a job"},
	{name: "since", kind: "string", about: "the version that introduced it"},
	{name: "related", kind: "string", about: "related commands"},
	{name: "params", kind: "set", about: "its parameters"},
	{name: "response", kind: "set", about: "fields of its answer"},
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
	return listed("api", apis, len(apis)), nil
}

func (c *command) describe() object {
	params := []object{}
	for _, p := range c.params {
		if p.refused != "" {
			continue
		}
		o := object{
			"name": p.name, "description": p.about, "type": string(p.kind), "length": p.most(),
			"required": p.required, "related": p.related,
		}
		params = append(params, o)
		if p.also != "" {
			same := maps.Clone(o)
			same["name"], same["description"], same["required"] = p.also, "the same as "+p.name, false
			params = append(params, same)
		}
	}
	response := []object{}
	for _, f := range c.response {
		response = append(response, object{"name": f.name, "description": f.about, "type": f.kind})
	}
	return object{
		"name": c.name, "description": c.about, "isasync": c.async, "since": c.since, "related": c.related,
		"params": params, "response": response,
	}
}
