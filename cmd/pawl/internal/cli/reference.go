package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/notification"
	"github.com/pawl-dev/pawl/schedule"
)

// RunOf reads RUN, run RUN or run/RUN; false: the words name an object.
func RunOf(args []string) (id string, ok bool) {
	kind, name, named := strings.Cut(args[0], "/")
	if len(args) == 2 && !named {
		name, named = args[1], true
	}
	if !named {
		return kind, true
	}
	return name, isRun(kind)
}

func isRun(kind string) bool {
	return strings.EqualFold(kind, "run") || strings.EqualFold(kind, "runs")
}

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
	return control.Ref{Kind: a.KindOf(kind), Namespace: cmp.Or(namespace, a.Target.Namespace, "default"), Name: name}
}

// KindOf returns the name of a kind that people write in small letters, or as several.
func (a *App) KindOf(kind string) string {
	if lower := strings.ToLower(kind); !a.Target.Kubernetes && (lower == "schedule" || lower == "schedules") {
		return schedule.Kind
	} else if !a.Target.Kubernetes && (lower == "notification" || lower == "notifications") {
		return notification.Kind
	} else if !a.Target.Kubernetes && (lower == "bulk" || lower == "bulks") {
		return bulk.Kind
	}
	return kind
}

// ListNamespace is the namespace of a list; empty: all.
func (a *App) ListNamespace(namespace string) string {
	if a.Target.allNamespaces {
		return ""
	}
	return cmp.Or(namespace, a.Target.Namespace)
}

// Elsewhere says of an object that was not found that its kind stands in a cluster, where nobody has asked.
func (a *App) Elsewhere(kind string, err error) error {
	hint := a.ClusterHint(kind)
	if hint == "" || !errors.Is(err, control.NotFound) {
		return err
	}
	return fmt.Errorf("%w%s", err, hint)
}

// ClusterHint is where objects of a kind of Pawl's that only a cluster has are; empty: it was asked, or
// stores have the kind too.
func (a *App) ClusterHint(kind string) string {
	if a.Target.Kubernetes || !backend.IsApplication(kind) {
		return ""
	}
	return ": Applications are objects of a Kubernetes cluster: use kubectl pawl, --kubernetes or --context"
}
