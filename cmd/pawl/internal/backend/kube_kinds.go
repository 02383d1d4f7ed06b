package backend

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
)

// kubeKind is a kind of objects as the API server has it.
type kubeKind struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// category is that of the kinds which are listed together, as in `kubectl get pawl`.
const category = "pawl"

// kind finds what a person means: SharedStorageCluster, sharedstorageclusters,
// ssc, or one of these with its group behind a dot.
func (k *Kube) kind(word string) (kubeKind, error) {
	mapper := restmapper.NewShortcutExpander(k.mapper, k.discovery, nil)
	resource := schema.ParseGroupResource(strings.ToLower(word)).WithVersion("")
	found, err := mapper.ResourceFor(resource)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return kubeKind{}, controller.KindMissing.Errorf("the API server knows no kind %s", word)
		}
		return kubeKind{}, controller.Fault(err)
	}
	gvk, err := mapper.KindFor(found)
	if err != nil {
		return kubeKind{}, controller.Fault(err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return kubeKind{}, controller.Fault(err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return kubeKind{}, NotOnKubernetes.Errorf("objects of kind %s stand in no namespace: use kubectl for them", gvk.Kind)
	}
	return kubeKind{mapping.Resource, gvk}, nil
}

// served reports whether the API server knows what keeps runs.
func (k *Kube) served(runs kuberuns.Kind) bool {
	_, err := k.mapper.RESTMapping(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: string(runs)})
	return !meta.IsNoMatchError(err) // opening them reports other errors
}

// listed are the kinds that belong to Pawl and are no runs.
func (k *Kube) listed() ([]kubeKind, error) {
	lists, err := k.discovery.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return nil, controller.Fault(err)
	}
	var all []kubeKind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if r.Namespaced && slices.Contains(r.Categories, category) && slices.Contains(r.Verbs, "list") && !keepsRuns(gv.Group, r) {
				all = append(all, kubeKind{gv.WithResource(r.Name), gv.WithKind(r.Kind)})
			}
		}
	}
	slices.SortFunc(all, func(a, b kubeKind) int { return strings.Compare(a.kind.Kind, b.kind.Kind) })
	return all, nil
}

func keepsRuns(group string, r metav1.APIResource) bool {
	return group == v1alpha1.GroupVersion.Group && (r.Kind == "Run" || r.Kind == "RunHistory")
}

// Kinds are the kinds of objects that belong to Pawl, for suggestions.
func (k *Kube) Kinds() []string {
	all, err := k.listed()
	if err != nil {
		return nil
	}
	var names []string
	for _, one := range all {
		names = append(names, one.kind.Kind)
	}
	return names
}

// Namespaces are those of the cluster.
func (k *Kube) Namespaces(ctx context.Context) ([]string, error) {
	list, err := k.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, controller.Fault(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names, nil
}

// ref names an object as the API server does.
func (kind kubeKind) ref(ref control.Ref) control.Ref {
	ref.Kind = kind.kind.Kind
	return ref
}
