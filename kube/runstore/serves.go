package runstore

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/kube/runstore/format"
)

// Kinds returns a function for Options.Serves that serves the runs whose subject has one
// of these kinds. A subject is kind/namespace/name, or kind/namespace/name/uid.
func Kinds(kinds ...string) func(subject string) bool {
	return func(subject string) bool {
		kind, _, _ := strings.Cut(subject, "/")
		return slices.Contains(kinds, kind)
	}
}

// serves reports whether this store works on a run of a subject in a namespace, marked by an
// operator or by none (""). Its own
// namespace may also contain runs of other stores: those whose subject is in it.
// Options.Serves is not called for a subject that cannot be read ("").
func (s *shared) serves(namespace, subject, operator string) bool {
	if operator != "" && s.o.Operator != "" && operator != s.o.Operator {
		return false
	}
	if len(s.o.Namespaces) > 0 && !slices.Contains(s.o.Namespaces, namespace) {
		parts := strings.Split(subject, "/")
		if namespace != s.o.Namespace || len(parts) > 2 && parts[0] != string(Run) && parts[1] == namespace {
			return false
		}
	}
	return subject == "" || s.o.Serves == nil || s.o.Serves(subject)
}

// foreign reports whether an object is a run of another store. Such an object is not
// decoded and not cached.
func (s *shared) foreign(obj any) bool {
	if len(s.o.Namespaces) == 0 && s.o.Serves == nil && s.o.Operator == "" {
		return false
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	return !s.serves(m.GetNamespace(), s.format.Subject(obj.(runtime.Object)), m.GetLabels()[format.LabelOwner])
}
