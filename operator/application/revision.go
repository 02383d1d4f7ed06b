package application

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// defaultHistoryLimit is the number of revisions that are kept unless the Application says otherwise.
const defaultHistoryLimit = 10

// numberOf is the number of a revision, counted from 1; 0: it is no revision of the Application.
func numberOf(application, revision string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(revision, application+"-v"))
	if err != nil || rollout.RevisionName(application, n) != revision {
		return 0
	}
	return n
}

// inOrder sorts revisions of one Application by their number, and leaves out what is none.
func inOrder(application string, all []api.ApplicationRevision) []api.ApplicationRevision {
	all = slices.DeleteFunc(slices.Clone(all), func(r api.ApplicationRevision) bool { return numberOf(application, r.Name) == 0 })
	slices.SortFunc(all, func(a, b api.ApplicationRevision) int {
		return cmp.Compare(numberOf(application, a.Name), numberOf(application, b.Name))
	})
	return all
}

func find(all []api.ApplicationRevision, name string) *api.ApplicationRevision {
	i := slices.IndexFunc(all, func(r api.ApplicationRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// hashOf names the content of components, whatever their order and that of their fields.
func hashOf(components []api.ApplicationComponent) (string, error) {
	sorted := slices.Clone(components)
	slices.SortFunc(sorted, func(a, b api.ApplicationComponent) int { return cmp.Compare(a.Name, b.Name) })
	text, err := json.Marshal(sorted)
	if err != nil {
		return "", err
	}
	var plain any
	if err := utiljson.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	if text, err = json.Marshal(plain); err != nil { // keys in order
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// next is the revision to make; nil: the newest one has these components. A Deployment whose template
// is that of the newest revision, or of the one that was reached, keeps its name.
func next(a *api.Application, all []api.ApplicationRevision) (*api.ApplicationRevision, error) {
	hash, err := hashOf(a.Spec.Components)
	if err != nil {
		return nil, err
	}
	var newest *api.ApplicationRevision
	n := 1
	if len(all) > 0 {
		newest = &all[len(all)-1]
		n = numberOf(a.Name, newest.Name) + 1
	}
	if newest != nil && newest.Spec.Hash == hash {
		return nil, nil
	}
	r := &api.ApplicationRevision{}
	r.Namespace, r.Name, r.Spec.Hash = a.Namespace, rollout.RevisionName(a.Name, n), hash
	for _, c := range a.Spec.Components {
		made := api.ApplicationRevisionComponent{ApplicationComponent: c, WorkloadName: c.Name}
		if c.Workload.Kind == string(rollout.Deployment) {
			made.WorkloadName = rollout.RevisionName(c.Name, n)
			for _, earlier := range []*api.ApplicationRevision{find(all, a.Status.ReachedRevision), newest} {
				if was := componentOf(earlier, c.Name); was != nil && sameTemplate(*was, made) {
					made.WorkloadName = was.WorkloadName
				}
			}
		}
		r.Spec.Components = append(r.Spec.Components, made)
	}
	return r, nil
}

// removable are the revisions that nobody needs: the oldest ones beyond the limit that are not in use.
func removable(all []api.ApplicationRevision, limit int, inUse func(name string) bool) (names []string) {
	for _, r := range all {
		if len(all)-len(names) <= limit {
			break
		}
		if !inUse(r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

func componentOf(r *api.ApplicationRevision, name string) *api.ApplicationRevisionComponent {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.Spec.Components, func(c api.ApplicationRevisionComponent) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Spec.Components[i]
}

// specOf is the spec of the workload of a component. The API server lets only objects in.
func specOf(c api.ApplicationRevisionComponent) map[string]any {
	var spec map[string]any
	if err := utiljson.Unmarshal(c.Workload.Spec.Raw, &spec); err != nil {
		return map[string]any{}
	}
	return spec
}

// sameTemplate reports whether the pods of two components are the same. A Deployment with another
// selector is another one.
func sameTemplate(a, b api.ApplicationRevisionComponent) bool {
	one, two := specOf(a), specOf(b)
	return a.Workload.Kind == b.Workload.Kind && reflect.DeepEqual(one["template"], two["template"]) && reflect.DeepEqual(one["selector"], two["selector"])
}

// replicasOf is the size that a component names; nil: none.
func replicasOf(c api.ApplicationRevisionComponent) *int32 {
	n, found, err := unstructured.NestedInt64(specOf(c), "replicas")
	if !found || err != nil {
		return nil
	}
	return new(int32(n)) //nolint:gosec // a size
}
