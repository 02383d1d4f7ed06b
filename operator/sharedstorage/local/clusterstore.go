package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// ClusterStore keeps clusters as standalone objects of kind SharedStorageCluster. Their spec and
// status have the form that they have on Kubernetes. Two fields are added to status, where the commands
// of pawl look for them: fault, which blocks the cluster, with its remedy, and StatusFolder.
type ClusterStore struct {
	Objects   control.Objects
	Placement *Placement // its installed versions resolve spec.engine.version; nil: the spec's version is used as it is
}

var _ sharedstorage.ClusterStore = ClusterStore{}

// Load implements sharedstorage.ClusterStore.
func (h ClusterStore) Load(ctx context.Context, ref port.Ref) (*sharedstorage.Cluster, error) {
	o, err := h.Objects.Get(ctx, control.Ref{Kind: sharedstorage.Kind, Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, err
	}
	return h.Of(o)
}

// Of returns the cluster that an object describes. An invalid spec is in Refused; an unreadable
// status is an error.
func (h ClusterStore) Of(o control.Object) (*sharedstorage.Cluster, error) {
	c := &sharedstorage.Cluster{
		Kind: o.Kind, Ref: port.Ref{Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		Generation: o.Generation, CreatedAt: o.CreatedAt, DeletedAt: o.DeletionMark,
		Annotations: maps.Clone(o.Annotations), Finalized: slices.Contains(o.Finalizers, sharedstorage.Finalizer), Version: o,
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &c.Status); err != nil {
			return nil, fmt.Errorf("the status of %s: %w", o.Ref, err)
		}
	}
	c.Spec, c.Refused = specOf(o)
	c.Spec.Engine.Version = h.version(c.Spec.Engine.Version, c.Status.Version)
	return c, nil
}

// version returns the installed version that a spec means: 15 is the newest 15.x. A spec without a
// version keeps the major version of the cluster.
func (h ClusterStore) version(want, is string) string {
	if h.Placement == nil {
		return want
	}
	prefix := want
	if prefix == "" {
		prefix = major(is)
	}
	if found, _, err := h.Placement.binaries(prefix); err == nil {
		return found
	}
	return want // the flow reports that it is not installed
}

// Save implements sharedstorage.ClusterStore.
func (h ClusterStore) Save(ctx context.Context, c *sharedstorage.Cluster) error {
	return h.write(ctx, c, func(o *control.Object) (err error) {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == sharedstorage.Finalizer })
		if c.Finalized {
			o.Finalizers = append(o.Finalizers, sharedstorage.Finalizer)
		}
		o.Status, err = h.statusOf(c)
		return err
	})
}

// Annotate implements sharedstorage.ClusterStore.
func (h ClusterStore) Annotate(ctx context.Context, c *sharedstorage.Cluster, key, from, to string) error {
	return h.write(ctx, c, func(o *control.Object) error {
		if o.Annotations[key] != from {
			return fault.WriteConflict.Errorf("annotation %s is %q, not %q", key, o.Annotations[key], from)
		}
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		if o.Annotations[key] = to; to == "" {
			delete(o.Annotations, key)
		}
		return nil
	})
}

// write changes the object if it still has the version that was loaded.
func (h ClusterStore) write(ctx context.Context, c *sharedstorage.Cluster, change func(o *control.Object) error) error {
	o, ok := c.Version.(control.Object)
	if !ok {
		return fmt.Errorf("local: cluster %s was not loaded from here", c.Ref)
	}
	next := o.Copy()
	if err := change(&next); err != nil {
		return err
	}
	saved, err := h.Objects.Update(ctx, next)
	if err != nil {
		return err
	}
	c.Version = saved
	return nil
}

// Classes implements sharedstorage.ClusterStore. The classes of a namespace are in an object of
// kind ConfigMap with the same name as on Kubernetes.
func (h ClusterStore) Classes(ctx context.Context, namespace string) (map[string]port.Class, error) {
	o, err := h.Objects.Get(ctx, control.Ref{Kind: "ConfigMap", Namespace: namespace, Name: sharedstorage.ClassesName})
	if errors.Is(err, control.NotFound) {
		return sharedstorage.DefaultClasses(), nil
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(o.Spec, &list); err != nil {
		return nil, sharedstorage.SpecInvalid.Errorf("%s: %w", o.Ref, err)
	}
	return sharedstorage.ParseClasses(list.Data)
}

// statusOf returns the status as it is stored, without null fields.
func (h ClusterStore) statusOf(c *sharedstorage.Cluster) (json.RawMessage, error) {
	raw, err := json.Marshal(c.Status)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var status map[string]any
	if err := dec.Decode(&status); err != nil {
		return nil, err
	}
	position := status["position"]
	withoutNulls(status)
	if position != nil {
		status["position"] = position
	}
	if held := sharedstorage.HeldBy(c.Status.Conditions); held != nil {
		status[control.StatusFault] = held
	}
	if h.Placement != nil {
		status[StatusFolder] = h.Placement.folder(c.Ref)
	}
	return json.Marshal(status)
}

// withoutNulls removes null fields.
func withoutNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, one := range v {
			if one == nil {
				delete(v, key)
			}
			withoutNulls(one)
		}
	case []any:
		for _, one := range v {
			withoutNulls(one)
		}
	}
}
