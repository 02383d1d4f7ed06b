package operate

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// apiServer answers discovery with these kinds, and is empty.
func apiServer(t *testing.T, kinds ...schema.GroupVersionKind) *rest.Config {
	t.Helper()
	kinds = append(kinds, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		schema.GroupVersionKind{Version: "v1", Kind: "Service"}, schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"},
		schema.GroupVersionKind{Version: "v1", Kind: "Node"}, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := discovered(strings.Trim(r.URL.Path, "/"), kinds)
		if missing, ok := answer.(metav1.Status); ok {
			w.WriteHeader(int(missing.Code))
		}
		_ = json.NewEncoder(w).Encode(answer) // the caller is gone
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// discovered is the answer to a path of discovery. There is no other group, and nothing in any list.
func discovered(path string, kinds []schema.GroupVersionKind) any {
	switch path {
	case "api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, k := range kinds {
			v := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
			if k.Group != "" && !slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group }) {
				list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return list
	}
	root, path, _ := strings.Cut(path, "/")
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: path}
	for _, k := range kinds {
		if k.GroupVersion().String() == path {
			name := strings.ToLower(k.Kind)
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name + "s", SingularName: name, Kind: k.Kind, Namespaced: k.Kind != "Node", Verbs: metav1.Verbs{"get", "list", "watch"}})
		}
	}
	if len(list.APIResources) > 0 {
		return list
	}
	if root == "apis" && strings.Count(path, "/") < 2 {
		return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	return metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "List", APIVersion: "v1"}}
}

// TestOperatorsNeedTheirOwnKindsOnly: an operator that was not asked for need not have its kinds.
func TestOperatorsNeedTheirOwnKindsOnly(t *testing.T) {
	databases := []schema.GroupVersionKind{fdbkube.ClusterKind, fdbkube.BackupKind, fdbkube.RestoreKind}
	for name, test := range map[string]struct {
		installed []schema.GroupVersionKind
		operators []string
		missing   string // what KIND_MISSING says; "": nothing is
	}{
		"named":                  {databases, []string{"foundationdb"}, ""},
		"what is installed":      {databases, nil, ""},
		"a kind of it is absent": {databases[:1], []string{"foundationdb"}, "operator foundationdb: the kind FoundationDBBackup is not installed"},
		"another one is named":   {databases, []string{"rollout"}, "operator rollout: the kind Rollout is not installed"},
		"a part is absent":       {[]schema.GroupVersionKind{rollout.GroupVersionKind}, []string{"rollout"}, "operator rollout: the kind ApplicationRevision is not installed"},
		"nothing is installed":   {nil, nil, "none of the kinds"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(t.Context(), Options{
				Config: apiServer(t, test.installed...), Operators: test.operators, LeaseNamespace: "default", Alone: true, Lease: 15 * time.Second,
				Log: slog.New(slog.DiscardHandler), Runs: "ConfigMap", FoundationDB: fdbkube.Options{Tools: t.TempDir()},
				SharedStorage: SharedStorage{Images: map[string]string{"15": "postgres"}, Image: "pawl", User: 26},
			})
			switch {
			case test.missing == "" && err != nil:
				t.Error(err)
			case test.missing != "" && (fault.Of(err) != controller.KindMissing || !strings.Contains(fault.Message(err), test.missing)):
				t.Errorf("%v, want %s", err, test.missing)
			}
		})
	}
}
