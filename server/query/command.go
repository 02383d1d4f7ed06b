package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
)

// command is a row of the table that routes, validates and describes.
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
	kube      bool // of the alias family
}

// Parameters that several commands share.
var (
	clusterID = parameter{name: "id", kind: id, about: "the id of the cluster", required: true, uuid: true, related: "listContainerCluster"}
	customJob = parameter{name: "customjobid", kind: id, about: "the id the job is to have; the same request with the same id is carried out once", uuid: true, ours: true}
	dryRun    = parameter{name: "dryrun", kind: boolean, about: "true: answer what would be done, and do nothing"}
	paging    = []parameter{
		{name: "page", kind: number, about: "the page, from 1; with pagesize only"},
		{name: "pagesize", kind: number, about: "items of a page; -1 for all"},
	}
	found    = parameter{name: "id", kind: id, about: "only the one with this id"}
	named    = parameter{name: "name", kind: text, about: "only those whose name holds this text"}
	keyword  = parameter{name: "keyword", kind: text, about: "only those that hold this text"}
	inZone   = parameter{name: "zoneid", kind: id, about: "only those of this zone", related: "listZones"}
	selected = []parameter{
		{name: "account", kind: text, about: "only those of this account; with domainid"},
		{name: "domainid", kind: id, about: "only those of this domain"},
		{name: "listall", kind: boolean, about: "true: all that the caller may see"},
		{name: "isrecursive", kind: boolean, about: "true: those of the domains below domainid too"},
	}
	succeeded = []field{{name: "success", kind: "boolean", about: "true if the operation succeeded"}}
	jobAnswer = []field{{name: "jobid", kind: "string", about: "the id of the job"}}
)

// table is every command of the face, in the order of listApis.
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
			{name: "name", kind: text, about: "only the command of this name"},
			{name: "listall", kind: boolean, about: "has no effect"},
		},
		response: apiFields, run: listAPIs,
	})
}

// routes finds the commands by their names in lower case.
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
	{name: "isasync", kind: "boolean", about: "whether it answers a job"},
	{name: "since", kind: "string", about: "the version that brought it"},
	{name: "related", kind: "string", about: "commands that belong to it"},
	{name: "params", kind: "set", about: "its parameters"},
	{name: "response", kind: "set", about: "fields of its answer"},
}

// listAPIs describes the commands from the table that routes them. Clients read
// this form literally: params and response are arrays always, texts are never
// left out.
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
