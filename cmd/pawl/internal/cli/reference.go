package cli

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/control"
)

// ObjectOf reads KIND NAME, or KIND/NAMESPACE/NAME. One word is the id of a run.
func (a *App) ObjectOf(args []string, namespace string) (control.Ref, bool) {
	if len(args) == 2 {
		return a.RefOf(args[0], namespace, args[1]), true
	}
	kind, name, ok := strings.Cut(args[0], "/")
	return a.RefOf(kind, namespace, name), ok
}

// RefOf returns the reference of an object: NAME, or NAMESPACE/NAME.
func (a *App) RefOf(kind, namespace, name string) control.Ref {
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	return control.Ref{Kind: kind, Namespace: cmp.Or(namespace, a.Target.Namespace, "default"), Name: name}
}

// ListNamespace is the namespace of a list; empty: all.
func (a *App) ListNamespace(namespace string) string {
	if a.Target.allNamespaces {
		return ""
	}
	return cmp.Or(namespace, a.Target.Namespace)
}
