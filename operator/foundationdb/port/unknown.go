package port

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

var strict = func() *json.Serializer {
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		panic(err) // types of ours
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
}()

// UnknownIn returns the paths of the fields of spec that an object of the three kinds, as JSON with kind and version,
// has and its type does not: spec.automationOptions.fly, sorted. An implementation of Objects that holds the stored
// document uses it.
func UnknownIn(document []byte) ([]string, error) {
	_, _, err := strict.Decode(document, nil, nil)
	wrong, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil, err
	}
	var paths []string
	for _, one := range wrong.Errors() {
		path, unknown := strings.CutPrefix(one.Error(), `unknown field "`)
		if path = strings.TrimSuffix(path, `"`); unknown && strings.HasPrefix(path, "spec.") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
