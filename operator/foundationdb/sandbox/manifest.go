package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Apply creates the objects of a manifest, YAML or JSON. Kinds that a sandbox does not have, such as roles, are left
// out: what has been made, and what not, is in the order of the manifest.
func (s *Sandbox) Apply(_ context.Context, manifest []byte) (made, left []control.Ref, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		u := unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return made, left, nil
		} else if err != nil {
			return made, left, control.Invalid.Errorf("the manifest: %w", err)
		}
		if len(u.Object) == 0 {
			continue
		}
		ref := control.Ref{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
		at := slices.IndexFunc(kinds, func(k kind) bool {
			return k.object != nil && k.version.WithKind(k.Kind) == u.GroupVersionKind()
		})
		if at < 0 {
			left = append(left, ref)
			continue
		}
		o := kinds[at].object()
		if err := decode(u.Object, o, true); err != nil {
			return made, left, control.Invalid.Errorf("%s: %w", ref, err)
		}
		if kinds[at].Namespaced && o.GetNamespace() == "" {
			o.SetNamespace(Namespace)
		}
		if err := s.add(kinds[at], o, false); err != nil {
			return made, left, control.Invalid.Errorf("%s: %w", ref, err)
		}
		made = append(made, refOf(o))
	}
}

// decode fills an object. Strict: a field that its kind does not have is refused, and dropped otherwise.
func decode(from map[string]any, into port.Object, strict bool) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, strict)
}
