package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

const chartDir = "../../deploy/chart"

var allOptions = map[string]any{
	"metrics":        map[string]any{"tokenSecret": map[string]any{"name": "scrape"}},
	"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true}, "dashboard": map[string]any{"enabled": true},
	"networkPolicy": map[string]any{"enabled": true, "egress": []any{map[string]any{"to": []any{map[string]any{"namespaceSelector": map[string]any{}}}}}}, "crds": map[string]any{"mpd": true}, "namespaces": []any{"a"},
}

func render(t *testing.T, values map[string]any) []Object {
	t.Helper()
	objects, err := Render(chartDir, Release{"pawl", "ops", "Helm"}, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// at follows a path of keys and numbers.
func at(t *testing.T, from any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := from.(map[string]any)
			if o, is := from.(Object); is {
				m, ok = o, true
			}
			if !ok {
				t.Fatalf("%v: %T is no mapping at %q", path, from, s)
			}
			from = m[s]
		case int:
			l, ok := from.([]any)
			if !ok || s >= len(l) {
				t.Fatalf("%v: there is no item %d in %v", path, s, from)
			}
			from = l[s]
		}
	}
	return from
}

func find(t *testing.T, all []Object, kind, namespace, name string) Object {
	t.Helper()
	for _, o := range all {
		if o.kind() == kind && o.namespace() == namespace && o.name() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s/%s in %v", kind, namespace, name, all)
	return nil
}

// allowed returns the rights of a role as "group/resource verb".
func allowed(t *testing.T, role Object) map[string]bool {
	t.Helper()
	rights := map[string]bool{}
	rules, _ := role["rules"].([]any)
	for _, rule := range rules {
		for _, group := range at(t, rule, "apiGroups").([]any) {
			for _, resource := range at(t, rule, "resources").([]any) {
				for _, verb := range at(t, rule, "verbs").([]any) {
					rights[fmt.Sprintf("%s/%s %s", group, resource, verb)] = true
				}
			}
		}
	}
	return rights
}

// helm lint reports no error, with the defaults and with all options.
func TestLint(t *testing.T) {
	for name, values := range map[string]map[string]any{"defaults": nil, "everything": allOptions} {
		t.Run(name, func(t *testing.T) {
			for _, m := range lint.RunAll(chartDir, values, "ops").Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("%s: %v", m.Path, m.Err)
				}
			}
		})
	}
}

// Without namespaces one ClusterRole has all rights. With namespaces each has a Role, and
// the ClusterRole covers only cluster-scoped resources; several namespaces need one
// read-only watch of all runs.
func TestNamespaces(t *testing.T) {
	bound := func(t *testing.T, all []Object) (names []string) {
		t.Helper()
		for _, o := range all {
			if o.kind() == "RoleBinding" {
				subject := at(t, o, "subjects", 0)
				if at(t, subject, "name") != "pawl" || at(t, subject, "namespace") != "ops" || at(t, o, "roleRef", "name") != "pawl" {
					t.Errorf("%s binds %v", o, o)
				}
				names = append(names, o.namespace())
			}
		}
		return names
	}
	all := render(t, nil)
	if rights := allowed(t, find(t, all, "ClusterRole", "", "pawl")); !rights["/secrets get"] || !rights["/nodes list"] || len(bound(t, all)) != 0 {
		t.Errorf("for all namespaces: %v, bindings in %v", rights, bound(t, all))
	}

	all = render(t, map[string]any{"namespaces": []any{"a"}})
	rights := allowed(t, find(t, all, "ClusterRole", "", "pawl"))
	if want := []string{"/nodes list", "/nodes watch", "/persistentvolumes get", "admissionregistration.k8s.io/mutatingadmissionpolicybindings get", "apiextensions.k8s.io/customresourcedefinitions list", "apiextensions.k8s.io/customresourcedefinitions watch"}; !slices.Equal(slices.Sorted(maps.Keys(rights)), want) {
		t.Errorf("for one namespace the ClusterRole may %v, want %v", slices.Sorted(maps.Keys(rights)), want)
	}
	if in := bound(t, all); !slices.Equal(in, []string{"a", "ops"}) {
		t.Errorf("for one namespace there are bindings in %v", in)
	}
	if rights := allowed(t, find(t, all, "Role", "a", "pawl")); !rights["/secrets get"] || !rights["pawl.dev/runs create"] {
		t.Errorf("in the namespace: %v", rights)
	}
	rights = allowed(t, find(t, all, "Role", "ops", "pawl"))
	if rights["/secrets get"] || rights["/configmaps create"] || rights["coordination.k8s.io/leases patch"] || !rights["coordination.k8s.io/leases update"] || !rights["/events create"] {
		t.Errorf("in that of the operator: %v", rights)
	}

	all = render(t, map[string]any{"namespaces": []any{"a", "b"}})
	for right := range allowed(t, find(t, all, "ClusterRole", "", "pawl")) {
		if verb := right[strings.LastIndex(right, " ")+1:]; verb != "get" && verb != "list" && verb != "watch" {
			t.Errorf("for two namespaces the ClusterRole may %s", right)
		}
	}
	if rights := allowed(t, find(t, all, "Role", "ops", "pawl")); rights["/secrets get"] || rights["/pods create"] || !rights["/configmaps create"] || !rights["coordination.k8s.io/leases patch"] {
		t.Errorf("in that of the operator of two namespaces: %v", rights)
	}
	if in := bound(t, all); !slices.Equal(in, []string{"a", "b", "ops"}) {
		t.Errorf("for two namespaces there are bindings in %v", in)
	}
	for _, o := range all {
		if args, ok := arguments(t, o); ok && !slices.Contains(args, "--namespaces=a,b") {
			t.Errorf("the operator does not get the namespaces: %v", args)
		}
	}
}

// Runs that are ConfigMaps need rights on ConfigMaps, and none on the kinds of runs.
func TestRuns(t *testing.T) {
	for kind, want := range map[string]map[string]bool{
		"Run":       {"pawl.dev/runs watch": true, "pawl.dev/runhistories deletecollection": true, "/configmaps update": true},
		"ConfigMap": {"/configmaps watch": true, "/configmaps patch": true, "/configmaps deletecollection": true, "/configmaps update": true},
	} {
		for _, namespaces := range [][]any{nil, {"a"}, {"a", "b"}} {
			all := render(t, map[string]any{"operator": map[string]any{"runs": kind}, "namespaces": namespaces})
			args, _ := arguments(t, find(t, all, "Deployment", "ops", "pawl"))
			if !slices.Contains(args, "--runs="+kind) {
				t.Errorf("%s: the arguments are %v", kind, args)
			}
			role := find(t, all, "ClusterRole", "", "pawl")
			if watched := allowed(t, role)["/configmaps watch"]; len(namespaces) > 1 && watched != (kind == "ConfigMap") {
				t.Errorf("%s: with %d namespaces all ConfigMaps are watched: %t", kind, len(namespaces), watched)
			}
			if len(namespaces) > 0 {
				role = find(t, all, "Role", "a", "pawl")
			}
			rights := allowed(t, role)
			for right := range want {
				if !rights[right] {
					t.Errorf("%s in %v: it may not %s", kind, namespaces, right)
				}
			}
			for right := range rights {
				if kind == "ConfigMap" && strings.HasPrefix(right, "pawl.dev/run") {
					t.Errorf("in %v ConfigMaps do, and it may %s", namespaces, right)
				}
			}
		}
	}
}

func arguments(t *testing.T, o Object) (args []string, ok bool) {
	t.Helper()
	if o.kind() != "Deployment" {
		return nil, false
	}
	for _, arg := range at(t, o, "spec", "template", "spec", "containers", 0, "args").([]any) {
		args = append(args, fmt.Sprint(arg))
	}
	return args, true
}

// The rights are those of the operators that are served: by default of all.
func TestOperators(t *testing.T) {
	for _, c := range []struct {
		operators []any
		want      map[string]bool
	}{
		{nil, map[string]bool{"pawl.dev/sharedstorageclusters watch": true, "pawl.dev/rollouts watch": true, "mpd.polardb.aliyun.com/mpdclusters watch": true}},
		{[]any{"sharedstorage"}, map[string]bool{"pawl.dev/sharedstorageclusters watch": true, "mpd.polardb.aliyun.com/mpdclusters watch": false}},
		{[]any{"rollout"}, map[string]bool{"pawl.dev/sharedstorageclusters watch": false, "pawl.dev/rollouts watch": true, "apps/statefulsets delete": false, "/secrets create": false, "rbac.authorization.k8s.io/roles create": false}},
		{[]any{"rollout", "application"}, map[string]bool{"pawl.dev/applications watch": true, "apps/statefulsets delete": true}},
		{[]any{"mpd"}, map[string]bool{"pawl.dev/sharedstorageclusters watch": false, "mpd.polardb.aliyun.com/mpdclusters watch": true}},
	} {
		all := render(t, map[string]any{"operators": c.operators})
		rights := allowed(t, find(t, all, "ClusterRole", "", "pawl"))
		for right, want := range c.want {
			if rights[right] != want {
				t.Errorf("operators %v: may %s: %t, want %t", c.operators, right, rights[right], want)
			}
		}
		args, _ := arguments(t, find(t, all, "Deployment", "ops", "pawl"))
		named := slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "--operators=") && arg != "--operators=-foundationdb"
		})
		if named != (c.operators != nil) {
			t.Errorf("operators %v: arguments %v", c.operators, args)
		}
	}
}

// FoundationDB is served where it is asked for: with its CRDs, its rights, an image that can run its tools,
// and the tools of each version.
func TestFoundationDB(t *testing.T) {
	const watch = "apps.foundationdb.org/foundationdbclusters watch"
	plain := render(t, nil)
	if args, _ := arguments(t, find(t, plain, "Deployment", "ops", "pawl")); !slices.Contains(args, "--operators=-foundationdb") {
		t.Errorf("it is not left out: %v", args)
	}
	if allowed(t, find(t, plain, "ClusterRole", "", "pawl"))[watch] {
		t.Error("it has rights without being served")
	}
	all := render(t, map[string]any{"foundationdb": map[string]any{"enabled": true, "versions": []any{"7.1.67", "7.3.79"}, "tlsSecret": "fdb", "taints": true}})
	rights := allowed(t, find(t, all, "ClusterRole", "", "pawl"))
	for _, right := range []string{watch, "apps.foundationdb.org/foundationdbrestores/status patch", "/persistentvolumeclaims delete", "/configmaps patch", "/nodes watch"} {
		if !rights[right] {
			t.Errorf("it may not %s", right)
		}
	}
	find(t, all, "CustomResourceDefinition", "", "foundationdbclusters.apps.foundationdb.org")
	d := find(t, all, "Deployment", "ops", "pawl")
	if args, _ := arguments(t, d); slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--operators=") }) {
		t.Errorf("arguments %v", args)
	}
	pod := at(t, d, "spec", "template", "spec")
	if image := at(t, pod, "containers", 0, "image"); image != "ghcr.io/pawl-dev/pawl:latest-fdb" {
		t.Errorf("the image is %v", image)
	}
	inits, _ := at(t, pod, "initContainers").([]any)
	if len(inits) != 2 {
		t.Fatalf("%d containers copy tools", len(inits))
	}
	if image, folder := at(t, inits[0], "image"), at(t, inits[0], "volumeMounts", 0, "mountPath"); image != "foundationdb/fdb-kubernetes-monitor:7.1.67" || folder != "/usr/bin/fdb" {
		t.Errorf("tools of %v in %v", image, folder)
	}
	args, _ := at(t, inits[0], "args").([]any) // the launcher makes the folder 7.1 itself: fdbkubernetesmonitor/copy.go at 7.3.69, getCopyDetails
	if !slices.Contains(args, any("--output-dir")) || args[len(args)-1] != "/usr/bin/fdb" {
		t.Errorf("tools are copied by %v", args)
	}
}

// All options are off by default, except the PodDisruptionBudget.
func TestOptions(t *testing.T) {
	kinds := func(all []Object) (names []string) {
		for _, o := range all {
			names = append(names, o.kind())
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	usual := []string{"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PodDisruptionBudget", "ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	if got := kinds(render(t, nil)); !slices.Equal(got, usual) {
		t.Errorf("by default: %v", got)
	}
	full := kinds(render(t, allOptions))
	for _, kind := range []string{"ConfigMap", "NetworkPolicy", "PrometheusRule", "Service", "ServiceMonitor"} {
		if !slices.Contains(full, kind) {
			t.Errorf("with everything there is no %s: %v", kind, full)
		}
	}
	least := render(t, map[string]any{
		"crds": map[string]any{"install": false}, "podDisruptionBudget": map[string]any{"enabled": false}, "rbac": map[string]any{"create": false, "aggregate": false},
		"serviceAccount": map[string]any{"create": false, "name": "ours"}, "rollout": map[string]any{"guard": false},
	})
	if got := kinds(least); !slices.Equal(got, []string{"Deployment"}) {
		t.Errorf("with nothing: %v", got)
	}
	if account := at(t, least[0], "spec", "template", "spec", "serviceAccountName"); account != "ours" {
		t.Errorf("the account is %v", account)
	}
}

// CRDs stay when the chart is uninstalled, and are those of deploy.
func TestCRDs(t *testing.T) {
	found := map[string]bool{}
	for _, o := range render(t, map[string]any{"crds": map[string]any{"mpd": true}}) {
		if o.kind() == "CustomResourceDefinition" {
			found[o.name()] = true
			if at(t, o, "metadata", "annotations", "helm.sh/resource-policy") != "keep" {
				t.Errorf("%s goes with the chart", o)
			}
		}
	}
	if want := []string{"applicationrevisions.pawl.dev", "applications.pawl.dev", "mpdclusters.mpd.polardb.aliyun.com", "rollouts.pawl.dev", "runhistories.pawl.dev", "runs.pawl.dev", "sharedstoragebackups.pawl.dev", "sharedstorageclusters.pawl.dev"}; !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Errorf("the CRDs are %v", found)
	}
}

// The operator's pod meets the Pod Security Standard "restricted" and has a read-only file
// system and limits. Two replicas elect a leader.
func TestRestricted(t *testing.T) {
	d := find(t, render(t, allOptions), "Deployment", "ops", "pawl")
	pod := at(t, d, "spec", "template", "spec")
	for _, c := range []struct {
		path []any
		want any
	}{
		{[]any{"securityContext", "runAsNonRoot"}, true},
		{[]any{"securityContext", "runAsUser"}, 65532},
		{[]any{"securityContext", "seccompProfile", "type"}, "RuntimeDefault"},
		{[]any{"containers", 0, "securityContext", "allowPrivilegeEscalation"}, false},
		{[]any{"containers", 0, "securityContext", "readOnlyRootFilesystem"}, true},
		{[]any{"containers", 0, "securityContext", "capabilities", "drop", 0}, "ALL"},
		{[]any{"containers", 0, "livenessProbe", "httpGet", "path"}, "/healthz"},
		{[]any{"containers", 0, "readinessProbe", "httpGet", "path"}, "/readyz"},
		{[]any{"containers", 0, "resources", "limits", "memory"}, "512Mi"},
		{[]any{"topologySpreadConstraints", 0, "topologyKey"}, "kubernetes.io/hostname"},
	} {
		if got := at(t, pod, c.path...); got != c.want {
			t.Errorf("%v is %v, want %v", c.path, got, c.want)
		}
	}
	if at(t, d, "spec", "replicas") != 2 {
		t.Errorf("%v replicas", at(t, d, "spec", "replicas"))
	}
	args, _ := arguments(t, d)
	for _, arg := range args {
		if strings.HasPrefix(arg, "--no-leader-election") {
			t.Errorf("there is no leader: %v", args)
		}
	}
	if !slices.Contains(args, "--operator-namespace=$(POD_NAMESPACE)") || !slices.Contains(args, "--metrics-token-file=/etc/pawl/metrics/token") {
		t.Errorf("the arguments are %v", args)
	}
}

// Unknown and contradictory values are refused, and the message names them.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		values map[string]any
		says   string
	}{
		{map[string]any{"replica": 3}, "replica"},
		{map[string]any{"replicas": "three"}, "replicas"},
		{map[string]any{"operator": map[string]any{"writerLease": "soon"}}, "writerLease"},
		{map[string]any{"operator": map[string]any{"runs": "Secret"}}, "runs"},
		{map[string]any{"image": map[string]any{"digest": "sha256:1"}}, "digest"},
		{map[string]any{"namespaces": []any{"Upper"}}, "namespaces"},
		{map[string]any{"operators": []any{"oracle"}}, "operators"},
		{map[string]any{"serviceMonitor": map[string]any{"enabled": true}}, "metrics.tokenSecret.name"},
	} {
		if _, err := Render(chartDir, Install, c.values); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want it to name %s", c.values, err, c.says)
		}
	}
}

// An image with a digest is referenced by the digest, in the pod and for the operator.
func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	d := find(t, render(t, map[string]any{"image": map[string]any{"repository": "r/pawl", "tag": "v1", "digest": digest}}), "Deployment", "ops", "pawl")
	if image := at(t, d, "spec", "template", "spec", "containers", 0, "image"); image != "r/pawl@"+digest {
		t.Errorf("the image is %v", image)
	}
	if args, _ := arguments(t, d); !slices.Contains(args, "--image=r/pawl@"+digest) {
		t.Errorf("the operator gives others %v", args)
	}
}

// What Rollouts may ask is a matter of the installation.
func TestRolloutValues(t *testing.T) {
	rights := func(all []Object) string {
		return fmt.Sprint(at(t, find(t, all, "ClusterRole", "", "pawl"), "rules"))
	}
	only := map[string]any{"operators": []any{"rollout"}}
	all := render(t, only)
	if text := rights(all); strings.Contains(text, "pods/exec") || !strings.Contains(text, "secrets") {
		t.Errorf("by default: %s", text)
	}
	if args, _ := arguments(t, find(t, all, "Deployment", "ops", "pawl")); slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--rollout-exec") || strings.HasPrefix(a, "--http-allow") || strings.HasPrefix(a, "--flows")
	}) {
		t.Errorf("by default: %v", args)
	}
	only["rollout"] = map[string]any{"exec": true, "secrets": false, "httpAllow": []any{"10.0.0.0/8"}, "flows": "hooks"}
	all = render(t, only)
	if text := rights(all); !strings.Contains(text, "pods/exec") || strings.Contains(text, "secrets") {
		t.Errorf("with exec and without secrets: %s", text)
	}
	d := find(t, all, "Deployment", "ops", "pawl")
	args, _ := arguments(t, d)
	for _, want := range []string{"--rollout-exec", "--http-allow=10.0.0.0/8", "--flows=/etc/pawl/flows"} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing from %v", want, args)
		}
	}
	if volumes := fmt.Sprint(at(t, d, "spec", "template", "spec", "volumes")); !strings.Contains(volumes, "hooks") {
		t.Errorf("the flows are not mounted: %s", volumes)
	}
}

// The notes name the next commands.
func TestNotes(t *testing.T) {
	files, err := renderFiles(chartDir, Release{"db", "ops", "Helm"}, map[string]any{"crds": map[string]any{"install": false}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl -n ops rollout status deployment/db-pawl", "KIND_MISSING", "port-forward"} {
		if !strings.Contains(files["pawl/templates/NOTES.txt"], want) {
			t.Errorf("the notes do not say %q:\n%s", want, files["pawl/templates/NOTES.txt"])
		}
	}
}

// -print prints the requested release as parsable objects.
func TestPrint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("crds: {install: false}\nnamespaces: [a]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printed(&out, "../..", Release{"db", "ops", "kubectl"}, file); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	decoder := yaml.NewDecoder(strings.NewReader(out.String()))
	for {
		var o map[string]any
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !strings.HasPrefix(Object(o).name(), "db-pawl") {
			t.Fatalf("%v, %v", o, err)
		}
		kinds = append(kinds, Object(o).kind())
	}
	if slices.Index(kinds, "Deployment") < slices.Index(kinds, "RoleBinding") || slices.Contains(kinds, "CustomResourceDefinition") || !slices.Contains(kinds, "Role") {
		t.Errorf("it prints %v", kinds)
	}
	if err := printed(&out, "../..", Install, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was taken")
	}
}

// Each value is explained, in a row of its own or together.
func TestTable(t *testing.T) {
	rows, err := table([]byte("# The file.\n\n# How\n# many.\nn: 3\nbox:\n  # One | other.\n  side: {a: \"1\"}\n"))
	if want := []string{"| `n` | `3` | How many. |\n", "| `box.side` | `{a: \"1\"}` | One \\| other. |\n"}; err != nil || !slices.Equal(rows, want) {
		t.Errorf("%q, %v", rows, err)
	}
	if _, err := table([]byte("# Yes.\na: 1\nb: 2\n")); err == nil || !strings.Contains(err.Error(), "b has no comment") {
		t.Errorf("a value without a comment: %v", err)
	}
	page := filepath.Join(t.TempDir(), "page.txt")
	if err := os.WriteFile(page, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := document(filepath.Join(chartDir, "values.yaml"), page); err == nil {
		t.Error("a page without marks was taken")
	}
}
