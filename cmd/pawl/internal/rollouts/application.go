package rollouts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// applicationKind is the kind of the objects whose revisions a Rollout may name.
const applicationKind = "applications.pawl.dev"

// pair is what a Rollout with spec.application names.
type pair struct {
	Name, TargetRevision, SourceRevision, Component string
}

// pairOf reads spec.application; false: the Rollout names a workload.
func pairOf(o control.Object) (pair, bool) {
	var spec struct{ Application *pair }
	if json.Unmarshal(o.Spec, &spec) != nil || spec.Application == nil {
		return pair{}, false
	}
	return *spec.Application, true
}

// driven reports whether an Application drives a Rollout: then its spec is that of the Application.
func driven(o control.Object) bool { return o.Owner != nil && o.Owner.Kind == "Application" }

// restartApplication sets the annotation of kubectl rollout restart in the template of the component that
// a Rollout moves: that is another revision.
func (a verbs) restartApplication(ctx context.Context, name, namespace string, wait time.Duration) error {
	return a.editComponent(ctx, name, namespace, wait, "restarted: its Rollout changes the pods in batches", func(_ control.Objects, _ control.Object, workload map[string]any) error {
		inside(workload, "spec", "template", "metadata", "annotations")["kubectl.kubernetes.io/restartedAt"] = time.Now().UTC().Format(time.RFC3339)
		return nil
	})
}

// toApplicationRevision writes the workload that a revision has for the component to the Application.
func (a verbs) toApplicationRevision(ctx context.Context, name, namespace, revision string, wait time.Duration) error {
	text := fmt.Sprintf("has the component of revision %s: its Rollout changes the pods in batches", revision)
	return a.editComponent(ctx, name, namespace, wait, text, func(objects control.Objects, o control.Object, workload map[string]any) error {
		p, _ := pairOf(o)
		r, err := objects.Get(ctx, control.Ref{Kind: "applicationrevisions.pawl.dev", Namespace: o.Namespace, Name: revision})
		if errors.Is(err, control.NotFound) {
			return rollout.TargetRevisionMissing.Errorf("Application %s has no revision %s", p.Name, revision)
		}
		if err != nil {
			return err
		}
		components, err := componentsOf(r)
		if err != nil {
			return err
		}
		was := componentNamed(components, p.Component)
		if was == nil {
			return rollout.TargetRevisionMissing.Errorf("revision %s has no component %s", revision, p.Component)
		}
		clear(workload)
		maps.Copy(workload, inside(was, "workload"))
		return nil
	})
}

// revisionNumber is the name of the revision of an Application with a number.
func revisionNumber(p pair, n int64) string { return p.Name + "-v" + strconv.FormatInt(n, 10) }

// swap asks a Rollout that no Application drives for its pair the other way round.
func (a verbs) swap(ctx context.Context, o control.Object, wait time.Duration) error {
	b, objects, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	changed, err := control.Modify(ctx, objects, o.Ref, func(o *control.Object) error {
		return editSpec(o, func(spec map[string]any) error {
			p := inside(spec, "application")
			if p["sourceRevision"] == nil {
				return rollout.RequestUnknown.Errorf("%s has no source: it was a scale", o.Ref)
			}
			p["targetRevision"], p["sourceRevision"] = p["sourceRevision"], p["targetRevision"]
			return nil
		})
	})
	if err != nil {
		return err
	}
	return a.done(ctx, b, objects, changed, o.Ref, "goes back: target and source are swapped", wait)
}

// editComponent changes the workload of the component that a Rollout of an Application moves.
func (a verbs) editComponent(ctx context.Context, name, namespace string, wait time.Duration, done string, change func(objects control.Objects, o control.Object, workload map[string]any) error) error {
	return a.edit(ctx, name, namespace, wait, done, func(objects control.Objects, o control.Object) (control.Object, error) {
		p, _ := pairOf(o)
		if !driven(o) {
			return o, rollout.RequestUnknown.Errorf("no Application drives %s: write the revision that it is to reach into spec.application", o.Ref)
		}
		return control.Modify(ctx, objects, control.Ref{Kind: applicationKind, Namespace: o.Namespace, Name: p.Name}, func(application *control.Object) error {
			return editSpec(application, func(spec map[string]any) error {
				all, _ := spec["components"].([]any)
				c := componentNamed(all, p.Component)
				if c == nil {
					return rollout.ComponentAmbiguous.Errorf("Application %s has no component %s", p.Name, cmp.Or(p.Component, "that the Rollout names"))
				}
				return change(objects, o, inside(c, "workload"))
			})
		})
	})
}

func editSpec(o *control.Object, change func(spec map[string]any) error) error {
	var spec map[string]any
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return err
	}
	if err := change(spec); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	o.Spec = text
	return err
}

func componentsOf(revision control.Object) (all []any, err error) {
	var spec struct{ Components []any }
	err = json.Unmarshal(revision.Spec, &spec)
	return spec.Components, err
}

// componentNamed is a component by its name; without a name the only one; nil: there is none.
func componentNamed(all []any, name string) map[string]any {
	for _, entry := range all {
		if c, ok := entry.(map[string]any); ok && (c["name"] == name || name == "" && len(all) == 1) {
			return c
		}
	}
	return nil
}
