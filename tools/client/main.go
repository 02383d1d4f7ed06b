// Command client writes package client from docs/openapi.yaml.
//
//	go -C tools run ./client            # from the root of the repository: make generate
//
// It is oapi-codegen with a template of our own: a method for each operation, which
// returns the answer or a fault. Schemas that Pawl has a type for become that type.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oapi-codegen/oapi-codegen/v2/pkg/codegen"
	"go.yaml.in/yaml/v3"
)

//go:generate go run . ../..

//go:embed client.tmpl
var methods string

//go:embed imports.tmpl
var imports string

const module = "github.com/pawl-dev/pawl/"

// none is a template that writes nothing. An empty one would not replace that of the library.
const none = "{{\"\"}}\n"

// known are the schemas that Pawl has an exported type for, by package.
var known = map[string][]string{
	"view": {
		"BulkPlan", "CatalogEntry", "Cluster", "ClusterConfig", "ClusterEvent", "ClusterNode", "ClusterResource", "Event", "Fault", "Flow",
		"Condition", "FlowStep", "Flows", "Healer", "Healing", "History", "Key", "Kind", "Kinds", "LastRequest", "Limit", "LimitPage", "Lock", "LogLine", "Logs", "Machine", "Machines", "ObjectCounts", "Operation", "Plan", "PlanStep",
		"Problem", "ProblemError", "Progress", "Rollout", "RolloutBatch", "RolloutPlan", "RolloutPod", "RolloutVerb", "Rollouts", "Run", "RunCount", "RunCounts", "Runs", "StateCount", "Step", "Steps", "Stop", "Token", "Wait", "Worker",
	},
	"view/fdbview": {
		"FoundationDBBackup", "FoundationDBClass", "FoundationDBCluster", "FoundationDBClusters", "FoundationDBCondition", "FoundationDBCoordinator", "FoundationDBDetail", "FoundationDBEntry",
		"FoundationDBExclusion", "FoundationDBExplanation", "FoundationDBGate", "FoundationDBGroup", "FoundationDBPlan", "FoundationDBRestore", "FoundationDBServer", "FoundationDBZone",
	},
	"account":        {"Account", "Domain", "Entry", "Limits"},
	"bulk":           {"BulkGroup", "BulkSpec"},
	"cluster":        {"Autoscale", "Entity", "Finding"},
	"cluster/api":    {"DriftNode", "DriftReport", "DriftSide", "DryRun", "DryRunResource", "DryRunStep", "Leak", "Offer", "Unseen", "Waiting"},
	"control":        {"Object", "Owner", "Page", "Ref"},
	"machine":        {"GraphState", "GraphTransition"},
	"machine/driver": {"ServedKind"},
	"rollout":        {"BatchPreview", "Check", "PodPreview", "Record"},
}

// prefixes are those that the names of schemas have before the names of a package's types.
var prefixes = map[string]string{"bulk": "Bulk", "view/fdbview": "FoundationDB"}

// streams are operations whose answer is no document: client.go has them.
var streams = []string{"events", "clusterEvents", "runLogStream", "metrics", "openSession", "getSession", "endSession"}

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := generate(root); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	document, err := os.ReadFile(filepath.Join(root, "docs", "openapi.yaml"))
	if err != nil {
		return err
	}
	spec, err := load(document)
	if err != nil {
		return err
	}
	options := codegen.Configuration{
		PackageName: "client",
		Generate:    codegen.GenerateOptions{Models: true, Client: true},
		OutputOptions: codegen.OutputOptions{
			UserTemplates:                         map[string]string{"client.tmpl": methods, "imports.tmpl": imports, "request-bodies.tmpl": none, "client-with-responses.tmpl": none},
			ExcludeOperationIDs:                   streams,
			PreferSkipOptionalPointer:             true,
			PreferSkipOptionalPointerWithOmitzero: true,
			SkipEnumValidate:                      true,
			SkipPrune:                             true,
			AdditionalInitialisms:                 []string{"CA"},
			NameNormalizer:                        string(codegen.NameNormalizerFunctionToCamelCaseWithInitialisms),
			DisableTypeAliasesForType:             []string{"array"},
		},
	}.UpdateDefaults()
	code, err := codegen.Generate(spec, options)
	if err != nil {
		return err
	}
	code = strings.ReplaceAll(code, ",omitempty,omitzero", ",omitzero") // an empty list is not an absent one
	return os.WriteFile(filepath.Join(root, "client", "client.gen.go"), []byte(code), 0o644)
}

// load reads the document and names our types in it.
func load(document []byte) (*openapi3.T, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(document, &tree); err != nil {
		return nil, err
	}
	text, err := json.Marshal(plain(tree))
	if err != nil {
		return nil, err
	}
	renamed := regexp.MustCompile(`"(#/components/schemas/)?(\w+)Body"`).ReplaceAllStringFunc(string(text), rename)
	if err := json.Unmarshal([]byte(renamed), &tree); err != nil {
		return nil, err
	}
	schemas := tree["components"].(map[string]any)["schemas"].(map[string]any)
	if err := adopt(schemas); err != nil {
		return nil, err
	}
	text, err = json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(text)
}

// answers are bodies that a server sends; the other ones are requests.
var answers = map[string]string{"Accepted": "Accepted", "PlanAnswer": "PlanAnswer", "Registry": "Registry", "KindList": "KindList"}

// requests are bodies that are named after what they do, not after what they hold.
var requests = map[string]string{
	"Account": "CreateAccount", "Cancel": "CancelRun", "Change": "ChangeCluster", "Create": "CreateCluster", "Credential": "CreateCredential",
	"Domain": "CreateDomain", "Object": "ApplyObject", "Pause": "PauseRun", "PlanRequest": "Plan", "Progress": "ProgressRun",
	"Resume": "ResumeRun", "Signal": "SignalRun", "Skip": "SkipRun", "StartRun": "StartRun",
}

// rename turns the names of bodies into those of requests and answers.
func rename(quoted string) string {
	at := strings.LastIndexAny(strings.TrimSuffix(quoted, `"`), `/"`) + 1
	name := strings.TrimSuffix(quoted[at:], `Body"`)
	switch {
	case strings.HasPrefix(name, "ListOf"):
	case answers[name] != "":
		name = answers[name]
	case requests[name] != "":
		name = requests[name] + "Request"
	default:
		return quoted
	}
	return quoted[:at] + name + `"`
}

// adopt names the Go type of each schema that has one.
func adopt(schemas map[string]any) error {
	mapped := map[string]string{}
	for pkg, names := range known {
		for _, name := range names {
			if schema, ok := schemas[name].(map[string]any); ok {
				mapped[name] = pkg[strings.LastIndex(pkg, "/")+1:] + "." + strings.TrimPrefix(name, prefixes[pkg])
				schema["x-go-type"] = mapped[name]
				schema["x-go-type-import"] = map[string]any{"path": module + pkg}
			}
		}
	}
	for name, schema := range schemas {
		pointers(schema.(map[string]any))
		if item, ok := strings.CutPrefix(name, "ListOf"); ok {
			item = strings.TrimSuffix(item, "Body")
			if mapped[item] != "" {
				item = mapped[item]
			}
			schema.(map[string]any)["x-go-type"] = "Items[" + item + "]"
		}
	}
	return nil
}

// pointers makes optional numbers and objects pointers, so that zero is not absent, and
// fields without a type raw JSON.
func pointers(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, property := range properties {
		p := property.(map[string]any)
		ref, _ := p["$ref"].(string)
		switch {
		case ref == "" && p["type"] == nil:
			p["x-go-type"] = "json.RawMessage"
		case slices.Contains(required, any(name)):
		case ref != "":
			properties[name] = map[string]any{"description": p["description"], "x-go-type": "*" + ref[strings.LastIndexByte(ref, '/')+1:]}
		case p["type"] == "integer":
			p["x-go-type"] = "*int"
		}
	}
}

// plain removes what the client has no use for: null as one of several types, enumerations
// and the headers of caches.
func plain(node any) any {
	switch node := node.(type) {
	case map[string]any:
		if types, ok := node["type"].([]any); ok {
			types = slices.DeleteFunc(types, func(t any) bool { return t == "null" })
			if len(types) == 1 {
				node["type"] = types[0]
			}
		}
		if _, ok := node["enum"].([]any); ok {
			delete(node, "enum") // the server checks values; a type for each would need conversions
		}
		if node["type"] == "integer" {
			delete(node, "format") // int
		}
		if patch, ok := node["application/merge-patch+json"].(map[string]any); ok {
			patch["schema"] = map[string]any{"x-go-type": "any"}
		}
		if params, ok := node["parameters"].([]any); ok {
			node["parameters"] = slices.DeleteFunc(params, isCacheHeader)
		}
		for key, value := range node {
			node[key] = plain(value)
		}
	case []any:
		for i, value := range node {
			node[i] = plain(value)
		}
	}
	return node
}

// isCacheHeader reports If-None-Match of a read, which this client does not use.
func isCacheHeader(param any) bool {
	p, ok := param.(map[string]any)
	description, _ := p["description"].(string)
	return ok && p["name"] == "If-None-Match" && strings.HasPrefix(description, "304")
}
