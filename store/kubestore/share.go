package kubestore

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds serves the runs whose subject is of one of some kinds, for Options.Serves.
// A subject is kind/namespace/name, or kind/namespace/name/uid.
func Kinds(kinds ...string) func(subject string) bool {
	return func(subject string) bool {
		kind, _, _ := strings.Cut(subject, "/")
		return slices.Contains(kinds, kind)
	}
}

// serves reports whether the runs of a subject that stand in a namespace are this
// store's; in its own namespace those of subjects that stand there may be
// another's. A subject that cannot be read ("") is nobody's kind.
func (s *Store) serves(namespace, subject string) bool {
	if len(s.o.Namespaces) > 0 && !slices.Contains(s.o.Namespaces, namespace) {
		parts := strings.Split(subject, "/")
		if namespace != s.o.Namespace || len(parts) > 2 && parts[0] != string(Run) && parts[1] == namespace {
			return false
		}
	}
	return subject == "" || s.o.Serves == nil || s.o.Serves(subject)
}

// foreign reports an object that is somebody else's run: it is not decoded, and
// never comes into the cache.
func (s *Store) foreign(obj any) bool {
	if len(s.o.Namespaces) == 0 && s.o.Serves == nil {
		return false
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	return !s.serves(m.GetNamespace(), s.format.subject(obj.(runtime.Object)))
}
