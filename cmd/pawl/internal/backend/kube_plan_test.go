package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
)

// On Kubernetes a kind that this program brings is planned by its own function, of what the API
// server says; another kind is not.
func TestKubePlansAKindWithAChain(t *testing.T) {
	answer := func(what any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(what)
		}
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "test.pawl.dev/v1", Version: "v1"}
	garden := map[string]any{"apiVersion": "test.pawl.dev/v1", "kind": "Garden", "metadata": map[string]any{"name": "g", "namespace": "green"}, "spec": map[string]any{"plants": 3}}
	mux := http.NewServeMux()
	mux.Handle("GET /api", answer(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}))
	mux.Handle("GET /apis", answer(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
		{Name: "test.pawl.dev", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}}))
	mux.Handle("GET /apis/test.pawl.dev/v1", answer(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "test.pawl.dev/v1",
		APIResources: []metav1.APIResource{
			{Name: "gardens", SingularName: "garden", Kind: "Garden", Namespaced: true, Verbs: []string{"get", "list", "patch"}},
			{Name: "others", SingularName: "other", Kind: "Other", Namespaced: true, Verbs: []string{"get", "list"}}}}))
	mux.Handle("GET /apis/test.pawl.dev/v1/namespaces/green/gardens/g", answer(garden))
	api := httptest.NewServer(mux)
	defer api.Close()

	table := chain.Chain[int]{{Name: "Plant", Decide: func(plants int) (d chain.Decision[int]) {
		d.Acts = make([]chain.Act[int], plants)
		for i := range d.Acts {
			d.Acts[i].Name = "plant"
		}
		return d
	}}}
	k, err := OpenKube(t.Context(), KubeOptions{Config: &rest.Config{Host: api.URL}, Namespace: "green", Kinds: []driver.ServedKind{
		{Kind: "Garden", Plan: func(_ context.Context, o control.Object) (machine.Plan, error) {
			var spec struct{ Plants int }
			err := json.Unmarshal(o.Spec, &spec)
			return machine.PlanOfLinks(o.Ref.String(), table.Plan(spec.Plants)), err
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	p, err := k.PlanObject(t.Context(), control.Ref{Kind: "garden", Namespace: "green", Name: "g"}, nil)
	if err != nil || p.Object != "Garden/green/g" || p.Act != machine.Work || len(p.Links) != 1 || len(p.Links[0].Acts) != 3 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if _, err := k.PlanObject(t.Context(), control.Ref{Kind: "other", Namespace: "green", Name: "o"}, nil); fault.Of(err) != MachineUnknown {
		t.Errorf("a kind of another operator: %v", err)
	}
}
