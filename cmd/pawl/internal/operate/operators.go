package operate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/application"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
)

// operator is one operator of the process.
type operator struct {
	name  string                  // as --operators has it
	kind  schema.GroupVersionKind // it is served where this kind is installed
	about string
	more  []schema.GroupVersionKind // that it serves too, and cannot begin without
	also  []schema.GroupVersionKind // of the same group, whose objects have runs too; served where they are installed
}

// revisions are those of Applications; a Rollout reads them too.
var revisions = v1alpha1.GroupVersion.WithKind("ApplicationRevision")

// operators are all there are. Their subjects keep their runs as their own.
var operators = []operator{
	{name: "sharedstorage", kind: kube.ClusterKind, about: "SharedStorageClusters: PostgreSQL of one writer and any number of readers, and their SharedStorageBackups", also: []schema.GroupVersionKind{kube.BackupKind}},
	{
		name: "rollout", kind: rollout.GroupVersionKind, about: "Rollouts: StatefulSets and Deployments, changed in batches",
		more: []schema.GroupVersionKind{revisions},
	},
	{
		name: "application", kind: application.GroupVersionKind, about: "Applications: workloads with revisions, changed by their Rollout",
		more: []schema.GroupVersionKind{revisions, rollout.GroupVersionKind},
	},
	{
		name: "foundationdb", kind: fdbkube.ClusterKind, about: "FoundationDBClusters, FoundationDBBackups and FoundationDBRestores",
		more: []schema.GroupVersionKind{fdbkube.BackupKind, fdbkube.RestoreKind},
	},
	{name: "mpd", kind: kube.MPDClusterKind, about: "MPDClusters: the kind of PolarDB Stack"},
}

// Names are the names of all operators.
func Names() (all []string) {
	for _, o := range operators {
		all = append(all, o.name)
	}
	return all
}

// About says what each operator serves, a line each, for the help.
func About() string {
	var b strings.Builder
	for _, o := range operators {
		fmt.Fprintf(&b, "  %-14s %s\n", o.name, o.about)
	}
	return b.String()
}

func kinds() (all []string) {
	for _, o := range operators {
		all = append(all, o.kind.Kind)
		for _, k := range o.also {
			all = append(all, k.Kind)
		}
	}
	return all
}

// part adds the controllers of one operator to the manager.
type part struct {
	name  string
	setup func() error
}

// once returns a setup that makes an operator when its kinds are served: its cache cannot be made before, and
// whoever does not ask for it need not have its kinds. A setup that is tried again uses the same operator.
func once[O interface{ Setup() error }](create func() (O, error)) func() error {
	var made *O
	return func() error {
		if made == nil {
			o, err := create()
			if err != nil {
				return err
			}
			made = &o
		}
		return (*made).Setup()
	}
}

// serve sets up the parts that are named: at once, and KIND_MISSING if a kind is
// not installed. Without names, or with names of operators to leave out (-mpd), it sets up
// those whose kinds are installed, the others when theirs are; KIND_MISSING if none is.
func serve(m *controller.Manager, parts []part, names []string) error {
	names, leftOut := split(names)
	missing, waiting := controller.KindMissing.Errorf("none of the kinds %v is installed", kinds()), []part{}
	served := 0
	for _, p := range parts {
		switch installed, err := m.Served(kindsOf(p.name)...); {
		case err != nil:
			return err
		case len(names) > 0 && !slices.Contains(names, p.name), slices.Contains(leftOut, p.name):
		case len(names) > 0 && !installed:
			return controller.KindMissing.Errorf("operator %s: the kind %s is not installed", p.name, missingOf(m, p.name))
		case installed:
			if err := p.setup(); err != nil {
				return err
			}
			served++
		default:
			waiting = append(waiting, p)
		}
	}
	if served == 0 {
		return missing
	}
	for _, p := range waiting {
		if err := m.WhenServed(kindsOf(p.name), p.setup); err != nil {
			return err
		}
	}
	return nil
}

// split separates the names of operators from those that are left out.
func split(names []string) (served, leftOut []string) {
	for _, name := range names {
		if without, ok := strings.CutPrefix(name, "-"); ok {
			leftOut = append(leftOut, without)
		} else {
			served = append(served, name)
		}
	}
	return served, leftOut
}

// kindsOf are the kinds without which an operator cannot begin.
func kindsOf(name string) []schema.GroupVersionKind {
	i := slices.IndexFunc(operators, func(o operator) bool { return o.name == name })
	return append([]schema.GroupVersionKind{operators[i].kind}, operators[i].more...)
}

// missingOf is the first kind of an operator that is not installed.
func missingOf(m *controller.Manager, name string) string {
	all := kindsOf(name)
	i := slices.IndexFunc(all, func(kind schema.GroupVersionKind) bool {
		served, err := m.Served(kind)
		return !served && err == nil
	})
	return all[max(i, 0)].Kind
}
