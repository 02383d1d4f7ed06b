package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
)

// Template is the pod template of a named revision, as its author wrote it.
type Template struct {
	Name string
	Raw  map[string]any
}

// Templates are the pod templates of named revisions, in the order in which they are compared. A nil
// Templates has none.
type Templates struct {
	All []Template
	// Plain leaves the names of ControllerRevisions in what is observed.
	Plain bool
	// Revisions are the ControllerRevisions that have the template of a name. Observe fills them.
	Revisions map[string]string
	// Complete are the templates with the defaults of the API server, by the UID of the workload and
	// the name. Observe fills them; who keeps them saves a dry run for each.
	Complete map[string]*corev1.PodTemplateSpec
}

func (t *Templates) raw(name string) map[string]any {
	if t == nil {
		return nil
	}
	for _, of := range t.All {
		if of.Name == name {
			return runtime.DeepCopyJSON(of.Raw)
		}
	}
	return nil
}

// observe returns the name of the template that the workload has, or that of its ControllerRevision.
func (t *Templates) observe(ctx context.Context, c client.Client, o *unstructured.Unstructured, revisions []appsv1.ControllerRevision, revision string) (string, error) {
	if t == nil {
		return revision, nil
	}
	live, err := templateOf(o.Object)
	if err != nil {
		return revision, err
	}
	t.Revisions = map[string]string{}
	name := ""
	for _, of := range t.All {
		complete, err := t.complete(ctx, c, o, of)
		if err != nil {
			return revision, err
		}
		if complete == nil {
			continue
		}
		if name == "" && equality.Semantic.DeepEqual(complete, live) {
			name = of.Name
		}
		for _, r := range revisions {
			if had, err := templateOfRevision(r); err == nil && equality.Semantic.DeepEqual(complete, had) {
				t.Revisions[of.Name] = r.Name
			}
		}
	}
	if name == "" || t.Plain {
		return revision, nil
	}
	return name, nil
}

// complete is a template with the defaults of the API server, which a dry run of its write shows. nil:
// the API server refuses the template, and will say so when it is written.
func (t *Templates) complete(ctx context.Context, c client.Client, o *unstructured.Unstructured, of Template) (*corev1.PodTemplateSpec, error) {
	key := string(o.GetUID()) + "/" + of.Name
	if done := t.Complete[key]; done != nil {
		return done, nil
	}
	patch, err := controller.SameObject(o, controller.Operation{Op: "replace", Path: "/spec/template", Value: of.Raw})
	if err != nil {
		return nil, err
	}
	dry := o.DeepCopy()
	err = controller.Fault(c.Patch(ctx, dry, patch, client.DryRunAll, client.FieldOwner(FieldOwner)))
	switch {
	case err != nil && fault.Of(err).Class == fault.Transient:
		return nil, err
	case err != nil:
		return nil, nil //nolint:nilerr,nilnil // the API server refuses the template: nothing is compared with it
	}
	template, err := templateOf(dry.Object)
	if err == nil && t.Complete != nil {
		t.Complete[key] = template
	}
	return template, err
}

// RevisionCache keeps which ControllerRevision has the template of a workload, as it was found last. The
// zero RevisionCache has found nothing. One observation works with it at a time.
type RevisionCache struct {
	of       string // UID and generation of the workload, and the UIDs of its revisions
	revision string
}

// revisionOf returns the name of the revision that has the template of a workload; Unobserved: none has.
func (k *RevisionCache) revisionOf(o *unstructured.Unstructured, revisions []appsv1.ControllerRevision) (string, error) {
	of := fmt.Sprintf("%s/%d", o.GetUID(), o.GetGeneration())
	for _, r := range revisions {
		of += "/" + string(r.UID) // the template of a revision never changes
	}
	if k != nil && k.of == of {
		return k.revision, nil
	}
	template, err := templateOf(o.Object)
	if err != nil {
		return "", err
	}
	name := Unobserved
	for _, r := range revisions {
		if had, err := templateOfRevision(r); err == nil && equality.Semantic.DeepEqual(had, template) {
			name = r.Name
		}
	}
	if k != nil {
		k.of, k.revision = of, name
	}
	return name, nil
}
