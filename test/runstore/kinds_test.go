package runstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// kinds are Pawl's kinds by resource.
var kinds = map[string]string{"runs": "Run", "runhistories": "RunHistory", "sharedstorageclusters": "SharedStorageCluster", "sharedstoragebackups": "SharedStorageBackup", "rollouts": "Rollout", "applications": "Application", "applicationrevisions": "ApplicationRevision"}

// validationCase tests a rule of a CRD: an object, edits that are refused with this
// message only, and edits that are accepted.
type validationCase struct {
	resource, message string
	was               string
	refused           []string
	accepted          []string
}

// validRun returns the case of a field of a Run that can only be set once.
func validRun(field, message, one, other string) []validationCase {
	spec := func(value string) string { return fmt.Sprintf("{spec: {%s: %s}}", field, value) }
	mail := "{spec: {mail: 1, signals: {'000001': {id: a, name: go}}}}"
	return []validationCase{
		{"runs", message, fmt.Sprintf("{spec: {flow: F, %s: %s}}", field, one), []string{spec(other), spec("null")}, []string{spec(one), mail}},
		{"runs", message, "{spec: {flow: F}}", []string{spec(one)}, []string{mail}},
	}
}

func allRuled() []validationCase {
	rows := []validationCase{
		{"runs", "flow cannot be changed: start another run", "{spec: {flow: F, input: {n: 1}}}", []string{"{spec: {flow: G}}"}, []string{"{spec: {flow: F}}", "{spec: {input: {n: 2}}}", "{spec: {input: null}}"}},
		{"runs", "birth cannot be changed", "{spec: {flow: F, birth: {phase: Running, revision: 1}}}", []string{"{spec: {birth: null}}"}, []string{"{spec: {mail: 3}}"}},
		{"runs", "birth cannot be changed", "{spec: {flow: F}}", []string{"{spec: {birth: {phase: Running}}}"}, []string{"{spec: {mail: 3}}"}},
		{"runs", "mail only grows", "{spec: {flow: F, mail: 2}}", []string{"{spec: {mail: 1}}", "{spec: {mail: null}}"}, []string{"{spec: {mail: 2}}", "{spec: {mail: 7}}"}},

		{"sharedstorageclusters", "storage.size may only grow", "{spec: {storage: {size: 1Gi}}}", []string{"{spec: {storage: {size: 1023Mi}}}"}, []string{"{spec: {storage: {size: 1024Mi}}}", "{spec: {storage: {size: 1025Mi}}}", "{spec: {readers: 3}}"}},
		{"sharedstorageclusters", "the major version of the engine cannot be changed", "{spec: {engine: {version: '15.7'}}}", []string{"{spec: {engine: {version: '16.7'}}}", "{spec: {engine: {version: '1'}}}", "{spec: {engine: {version: null}}}"}, []string{"{spec: {engine: {version: '15.18'}}}", "{spec: {engine: {version: '15'}}}"}},
		{"sharedstorageclusters", "the major version of the engine cannot be changed", "{spec: {}}", nil, []string{"{spec: {engine: {version: '16'}}}"}},
		{"sharedstorageclusters", "cloneFrom counts at creation only", "{spec: {cloneFrom: blue}}", []string{"{spec: {cloneFrom: green}}", "{spec: {cloneFrom: null}}"}, []string{"{spec: {cloneFrom: blue, readers: 1}}"}},
		{"sharedstorageclusters", "cloneFrom counts at creation only", "{spec: {}}", []string{"{spec: {cloneFrom: blue}}"}, []string{"{spec: {readers: 1}}"}},
		{"sharedstorageclusters", "restoreFrom counts at creation only", "{spec: {restoreFrom: {cluster: blue}}}", []string{"{spec: {restoreFrom: {cluster: green}}}", "{spec: {restoreFrom: null}}"}, []string{"{spec: {readers: 1}}"}},
		{"sharedstorageclusters", "restoreFrom counts at creation only", "{spec: {}}", []string{"{spec: {restoreFrom: {cluster: blue}}}"}, []string{"{spec: {readers: 1}}"}},
		{"sharedstoragebackups", "a backup cannot be changed: create another one", "{spec: {cluster: blue}}", []string{"{spec: {cluster: green}}", "{spec: {verify: true}}"}, []string{"{metadata: {labels: {kept: by}}}"}},
	}
	for _, field := range []string{"run: other", "first: 2", "last: 3", "events: '[]'"} {
		rows = append(rows, validationCase{"runhistories", "history is never changed", "{run: r, first: 1, last: 2, events: '[{}]'}", []string{"{" + field + "}"}, []string{"{metadata: {labels: {kept: by}}}"}})
	}
	for _, text := range []string{"subject", "inputText"} {
		rows = append(rows, validRun(text, text+" cannot be changed: start another run", "a/b/c", "a/b/d")...)
	}
	for _, text := range []string{"requestID", "actor", "reason", "parent", "parentRef", "createdAt"} {
		rows = append(rows, validRun(text, text+" cannot be changed", "one", "another")...)
	}
	rows = append(rows, validRun("labels", "labels cannot be changed: start another run", "{tenant: a}", "{tenant: b}")...)
	rows = append(rows, ruledRollouts()...)
	rows = append(rows, ruledApplications()...)
	rows = append(rows, validRun("inline", "inline cannot be changed", "true", "false")...)
	return append(rows, validRun("depth", "depth cannot be changed", "1", "2")...)
}

// refusedClusters are SharedStorageClusters that cannot be created, with the message.
var refusedClusters = map[string]string{
	"{metadata: {name: blue.green}, spec: {}}": "metadata.name: at most 40 characters, lower case letters, digits and -, a letter first: Services and pods are named after it",
	"{spec: {storage: {size: 1023Ki}}}":        "storage.size is from 1Mi to 1Pi",
	"{spec: {storage: {size: 1025Ti}}}":        "storage.size is from 1Mi to 1Pi",

	"{spec: {backup: {repository: {folder: /b}, every: 59s}}}":                                     "backup.every is at least 1m",
	"{spec: {backup: {repository: {folder: /b}, retention: {backups: 2, days: 2}}}}":               "retention: either backups or days",
	"{spec: {backup: {repository: {folder: /b}, maxWaiting: 16Mi}}}":                               "backup.maxWaiting is 64Mi at least",
	"{spec: {backup: {repository: {folder: /b}, every: 24h, cron: '@daily'}}}":                     "backup: either every or cron",
	"{spec: {backup: {repository: {folder: /b}, timeZone: UTC}}}":                                  "backup.timeZone is that of backup.cron, which is missing",
	"{spec: {backup: {repository: {}}}}":                                                           "repository: name a folder or s3",
	"{spec: {tls: {secret: blue-server, folder: /tls}}}":                                           "either secret or folder",
	"{spec: {cloneFrom: blue, restoreFrom: {cluster: blue}}}":                                      "either restoreFrom or cloneFrom",
	"{spec: {restoreFrom: {cluster: blue, backup: monday}}}":                                       "restoreFrom: name one of cluster, backup and repository",
	"{spec: {restoreFrom: {cluster: blue, target: {name: before, time: '2026-11-26T00:00:00Z'}}}}": "target: at most one of time, name and backupOnly",

	"{spec: {podTemplate: {metadata: {annotations: {pawl.dev/x: blue}}}}}": "annotations of pawl.dev are the operator's: use another prefix",
	"{spec: {podTemplate: {metadata: {labels: {pawl.dev/x: blue}}}}}":      "labels of pawl.dev and app.kubernetes.io are the operator's: use another prefix",
	"{spec: {hugePages: 3Mi}}":                                                     "hugePages is a multiple of 2Mi",
	"{spec: {sharedMemory: 1023Ki}}":                                               "sharedMemory is 1Mi at least",
	"{spec: {users: [{name: shop, superuser: true}]}}":                             "superuser: no user of an application is a superuser; grant what it needs with inRoles, such as pg_monitor",
	"{spec: {users: [{name: shop, createrole: true}]}}":                            "createrole: up to PostgreSQL 15 such a user can make itself as good as a superuser; declare the users here",
	"{spec: {users: [{name: shop, inRoles: [pg_read_server_files]}]}}":             "inRoles: postgres, pg_execute_server_program, pg_read_server_files and pg_write_server_files make a user as good as a superuser",
	"{spec: {users: [{name: shop_auth}]}}":                                         "name: auth and names that end with _auth would have the Secrets of clusters",
	"{spec: {users: [{name: pg_shop}]}}":                                           "name: postgres, public and names that begin with pg_ are PostgreSQL's own",
	"{spec: {users: [{name: shop}], databases: [{name: template1, owner: shop}]}}": "name: postgres, template0, template1 and names that begin with pg_ are PostgreSQL's own",
	"{spec: {databases: [{name: shop, owner: postgres}]}}":                         "owner: name a user of an application",
	"{spec: {databases: [{name: shop}]}}":                                          "owner: name the user that owns the database",

	"{spec: {publications: [{name: orders, database: shop}]}}":                                                    "name one of tables, schemas and allTables",
	"{spec: {publications: [{name: orders, database: shop, tables: [a], schemas: [b]}]}}":                         "name one of tables, schemas and allTables",
	"{spec: {publications: [{name: orders, database: shop, allTables: true}], parameters: {wal_level: replica}}}": "parameters: wal_level is logical while there are publications",
	"{spec: {subscriptions: [{name: pawl_1, database: shop, ensure: absent}]}}":                                   "name: names that begin with pg_ or pawl_ are those of other slots",
	"{spec: {subscriptions: [{name: orders, database: shop, from: {host: blue-rw, user: copier}}]}}":              "name publications, and the server they come from",
}

// Each rule of the CRDs in a real API server. A rule without a case fails the test, except
// for fields with a single valid value.
func TestRulesOfTheKinds(t *testing.T) {
	plane := suite.Plane(t)
	space := namespace(t, plane.Client())
	client := dynamic.NewForConfigOrDie(plane.Config())
	asked := map[string]bool{
		"SharedStorageCluster: engine.type cannot be changed":  true, // see below
		"SharedStorageBackup: repository: name a folder or s3": true, // of a status: the type has its row at SharedStorageCluster
	}
	for n, row := range allRuled() {
		asked[kinds[row.resource]+": "+row.message] = true
		at := client.Resource(api.GroupVersion.WithResource(row.resource)).Namespace(space)
		o := object(t, row.was)
		o.SetGroupVersionKind(api.GroupVersion.WithKind(kinds[row.resource]))
		o.SetName(fmt.Sprintf("ruled-%d", n))
		if _, err := at.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s %s: %v", row.resource, row.was, err)
			continue
		}
		edit := func(patch string) error {
			_, err := at.Patch(t.Context(), o.GetName(), types.MergePatchType, asJSON(t, patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		for _, patch := range row.refused {
			var invalid *apierrors.StatusError
			err := edit(patch)
			if !errors.As(err, &invalid) || !apierrors.IsInvalid(err) || len(invalid.ErrStatus.Details.Causes) != 1 || !strings.HasSuffix(invalid.ErrStatus.Details.Causes[0].Message, row.message) {
				t.Errorf("%s of %s: it must be refused with %q only: %v", patch, row.was, row.message, err)
			}
		}
		for _, patch := range row.accepted {
			if err := edit(patch); err != nil {
				t.Errorf("%s of %s: %v", patch, row.was, err)
			}
		}
	}
	for resource, refused := range map[string]map[string]string{"sharedstorageclusters": refusedClusters, "rollouts": refusedRollouts, "applications": refusedApplications, "applicationrevisions": refusedRevisions} {
		for text, message := range refused {
			asked[kinds[resource]+": "+message] = true
			o := object(t, text)
			o.SetGroupVersionKind(api.GroupVersion.WithKind(kinds[resource]))
			if o.GetName() == "" {
				o.SetName("refused")
			}
			if _, err := client.Resource(api.GroupVersion.WithResource(resource)).Namespace(space).Create(t.Context(), o, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: it must be refused with %q: %v", text, message, err)
			}
		}
	}
	for _, rule := range rules(t, client) {
		if !asked[rule] {
			t.Errorf("no row for the rule %q", rule)
		}
		delete(asked, rule)
	}
	for rule := range asked {
		t.Errorf("a row for %q, which no CRD says", rule)
	}
	// There is only one engine, so the change to another one fails with the enum error first.
	clusters := client.Resource(api.GroupVersion.WithResource("sharedstorageclusters")).Namespace(space)
	o := object(t, "{metadata: {name: engine}, spec: {engine: {type: postgres}}}")
	o.SetGroupVersionKind(api.GroupVersion.WithKind("SharedStorageCluster"))
	if _, err := clusters.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for patch, fine := range map[string]bool{"{spec: {engine: {type: mysql}}}": false, "{spec: {engine: {type: null}}}": true, "{spec: {engine: null}}": true} {
		_, err := clusters.Patch(t.Context(), "engine", types.MergePatchType, asJSON(t, patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if fine != (err == nil) || !fine && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	data, err := json.Marshal(object(t, text).Object)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return data
}

// rules returns the rules of Pawl's CRDs as kind and message.
func rules(t *testing.T, client dynamic.Interface) (all []string) {
	t.Helper()
	crds, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds.Items {
		if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); group != api.GroupVersion.Group {
			continue
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		for _, message := range messages(crd.Object) {
			all = append(all, kind+": "+message)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all) // a rule of a type counts once, wherever the type stands
	if len(all) < 14 {
		t.Fatalf("%d rules: %q", len(all), all)
	}
	return all
}

// messages returns the messages of all rules in a part of a schema.
func messages(part any) (all []string) {
	switch part := part.(type) {
	case map[string]any:
		for key, inner := range part {
			if list, ok := inner.([]any); ok && key == "x-kubernetes-validations" {
				for _, rule := range list {
					all = append(all, fmt.Sprint(rule.(map[string]any)["message"]))
				}
				continue
			}
			all = append(all, messages(inner)...)
		}
	case []any:
		for _, inner := range part {
			all = append(all, messages(inner)...)
		}
	}
	return all
}

// Short names, the category and the columns.
func TestNamesAndColumnsOfTheKinds(t *testing.T) {
	plane := suite.Plane(t)
	space := namespace(t, plane.Client())
	list, err := plane.Client().Discovery().ServerResourcesForGroupVersion(api.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	short, categories := map[string][]string{}, map[string][]string{}
	for _, r := range list.APIResources {
		short[r.Name], categories[r.Name] = r.ShortNames, r.Categories
	}
	for resource, want := range map[string][2][]string{
		"runs": {{"prun"}, {"pawl"}}, "runhistories": {{"prunh"}, {"pawl"}}, "sharedstorageclusters": {{"ssc"}, {"all", "pawl"}},
	} {
		slices.Sort(categories[resource])
		if !slices.Equal(short[resource], want[0]) || !slices.Equal(categories[resource], want[1]) {
			t.Errorf("%s has the short names %v and the categories %v, want %v", resource, short[resource], categories[resource], want)
		}
	}

	client := dynamic.NewForConfigOrDie(plane.Config())
	for resource, text := range map[string]string{
		"runs": `{metadata: {name: r}, spec: {flow: Nightly, subject: Report/default/sales}, status: {phase: Paused, step: Write, queue: 3, owner: me,
			fault: {code: DISK_FULL, message: no space, remedy: make room}}}`,
		"runhistories": "{metadata: {name: h}, run: r, first: 1, last: 100, events: '[]'}",
		"sharedstorageclusters": `{metadata: {name: c}, spec: {}, status: {state: Interrupted, writer: '1', readers: 2, class: small, version: '15', reason: PodLost,
			run: {id: x, step: Replace}, conditions: [{type: Ready, status: 'True', reason: R, message: m, lastTransitionTime: '2026-01-01T00:00:00Z'}]}}`,
	} {
		at, o := client.Resource(api.GroupVersion.WithResource(resource)).Namespace(space), object(t, text)
		o.SetGroupVersionKind(api.GroupVersion.WithKind(kinds[resource]))
		status := o.Object["status"]
		created, err := at.Create(t.Context(), o, metav1.CreateOptions{})
		if err == nil && status != nil {
			created.Object["status"] = status
			_, err = at.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatalf("%s: %v", resource, err)
		}
	}
	get := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(plane.Binaries.Kubectl, append([]string{"--kubeconfig", plane.Kubeconfig(), "-n", space, "get"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl get %v: %v\n%s", args, err, out)
		}
		t.Logf("$ kubectl get %s\n%s", strings.Join(args, " "), out)
		return regexp.MustCompile(` {2,}`).ReplaceAllString(string(out), "|")
	}
	for _, c := range []struct{ args, head, row string }{
		{"prun", "NAME|FLOW|SUBJECT|PHASE|STEP|REASON|AGE", "r|Nightly|Report/default/sales|Paused|Write|DISK_FULL|"},
		{"prun -o wide", "NAME|FLOW|SUBJECT|PHASE|STEP|REASON|QUEUE|WORKER|MESSAGE|REMEDY|AGE", "r|Nightly|Report/default/sales|Paused|Write|DISK_FULL|3|me|no space|make room|"},
		{"prunh", "NAME|RUN|FIRST|LAST|AGE", "h|r|1|100|"},
		{"ssc", "NAME|STATE|READY|WRITER|READERS|CLASS|VERSION|REASON|AGE", "c|Interrupted|True|1|2|small|15|PodLost|"},
		{"ssc -o wide", "NAME|STATE|READY|WRITER|READERS|CLASS|VERSION|STEP|REASON|AGE", "c|Interrupted|True|1|2|small|15|Replace|PodLost|"},
		{"prun --field-selector spec.flow=Nightly,spec.subject=Report/default/sales,status.phase=Paused", "NAME|FLOW|", "r|Nightly|"},
	} {
		if got := strings.ReplaceAll(get(strings.Fields(c.args)...), " |", "|"); !strings.HasPrefix(got, c.head) || !strings.Contains(got, "\n"+c.row) {
			t.Errorf("kubectl get %s prints\n%swant %q and %q", c.args, got, c.head, c.row)
		}
	}
	all := get("pawl")
	for _, want := range []string{"run.pawl.dev/r", "runhistory.pawl.dev/h", "sharedstoragecluster.pawl.dev/c"} {
		if !strings.Contains(all, want) {
			t.Errorf("kubectl get pawl does not list %s", want)
		}
	}
	if all := get("all"); !strings.Contains(all, "sharedstoragecluster.pawl.dev/c") || strings.Contains(all, "run.pawl.dev/r") {
		t.Errorf("kubectl get all prints\n%s", all)
	}
}
