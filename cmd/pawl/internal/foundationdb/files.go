package foundationdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/kube/controller"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
)

// files are the objects of files: what kubectl get -o yaml prints of clusters and their children.
type files struct {
	scheme *runtime.Scheme
	all    []client.Object
}

var _ client.Reader = (*files)(nil)

// readFiles reads objects. Kinds that say nothing about clusters are left out; objects without a namespace are in
// default. Every document is a YAML or JSON object, or a list of them.
func readFiles(paths []string, in io.Reader) (*files, error) {
	f := &files{scheme: runtime.NewScheme()}
	if err := fdbkube.AddToScheme(f.scheme); err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := cli.ReadInput(path, in)
		if err != nil {
			return nil, err
		}
		if err := f.parse(path, data); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *files) parse(path string, data []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		switch err := decoder.Decode(&u.Object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return cli.FileWrong.Errorf("%s: %w", path, err)
		case len(u.Object) == 0:
			continue
		}
		one := func(o runtime.Object) error {
			each, ok := o.(*unstructured.Unstructured)
			if !ok {
				return nil
			}
			return f.add(path, each)
		}
		if u.IsList() {
			if err := u.EachListItem(one); err != nil {
				return err
			}
			continue
		}
		if err := one(u); err != nil {
			return err
		}
	}
}

func (f *files) add(path string, u *unstructured.Unstructured) error {
	if u.GetKind() == "" {
		return cli.FileWrong.Errorf("%s: an object has no kind", path)
	}
	typed, err := f.scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // another kind
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return cli.FileWrong.Errorf("%s: %s %s: %w", path, u.GetKind(), u.GetName(), err)
	}
	o, ok := typed.(client.Object)
	if !ok {
		return nil
	}
	if o.GetNamespace() == "" && u.GetKind() != "Node" {
		o.SetNamespace("default")
	}
	f.all = append(f.all, o)
	return nil
}

// Get implements client.Reader.
func (f *files) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, o := range f.all {
		if reflect.TypeOf(o) == reflect.TypeOf(into) && client.ObjectKeyFromObject(o) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return controller.Fault(apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).Elem().Name()}, key.Name))
}

// List implements client.Reader.
func (f *files) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	kinds, _, err := f.scheme.ObjectKinds(into)
	if err != nil {
		return err
	}
	var found []runtime.Object
	for _, one := range f.all {
		own, _, err := f.scheme.ObjectKinds(one)
		if err != nil || own[0].Kind+"List" != kinds[0].Kind {
			continue
		}
		if o.Namespace != "" && one.GetNamespace() != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(one.GetLabels())) {
			continue
		}
		found = append(found, one.DeepCopyObject())
	}
	return meta.SetList(into, found)
}

// snapshot is a reader without one object, in whose place there is another one.
type snapshot struct {
	client.Reader

	object client.Object
}

// Get implements client.Reader.
func (s snapshot) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if reflect.TypeOf(s.object) == reflect.TypeOf(into) && client.ObjectKeyFromObject(s.object) == key {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(s.object.DeepCopyObject()).Elem())
		return nil
	}
	return s.Reader.Get(ctx, key, into, options...)
}

// statusFile reads what `status json` has printed.
func statusFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.FileWrong.Errorf("%w", err)
	}
	return data, nil
}

// matching are labels as options of a list.
func matching(namespace string, want map[string]string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(maps.Clone(want))}
}

// nameOf is namespace/name.
func nameOf(o client.Object) string { return fmt.Sprintf("%s/%s", o.GetNamespace(), o.GetName()) }
