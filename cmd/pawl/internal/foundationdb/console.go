package foundationdb

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	served "github.com/pawl-dev/pawl/server/foundationdb"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// consoleSource are the FoundationDB clusters of a Kubernetes cluster for a server, with the caller's rights.
type consoleSource struct {
	*source
	changes func(ctx context.Context, namespace, name string) <-chan struct{}
}

var _ served.Source = consoleSource{}

// ConsoleSource returns the FoundationDB clusters of a Kubernetes cluster, of its namespace or of all; nil: the
// Kubernetes cluster does not have the kinds.
func ConsoleSource(a *cli.App, b *backend.Kube, namespace string) (served.Source, error) {
	changes := b.DatabaseChanges()
	if changes == nil {
		return nil, nil //nolint:nilnil // there are none, which is no error
	}
	reader, err := b.DatabaseClient()
	if err != nil {
		return nil, err
	}
	objects, err := b.Objects()
	if err != nil {
		return nil, err
	}
	return consoleSource{&source{app: a, reader: reader, backend: b, objects: objects, exec: b.Exec, now: b.Now, home: namespace}, changes}, nil
}

// List implements the source of a server.
func (s consoleSource) List(ctx context.Context, namespace string, limit int, cursor string) (fdbview.Clusters, error) {
	if namespace == "" {
		namespace = s.home
	}
	var list v1beta2.FoundationDBClusterList
	if err := s.reader.List(ctx, &list, client.InNamespace(namespace), client.Limit(int64(limit)), client.Continue(cursor)); err != nil {
		return fdbview.Clusters{}, err
	}
	page := fdbview.Clusters{Items: []fdbview.Cluster{}, Next: list.Continue}
	for i := range list.Items {
		v := report.Of(report.Facts{Cluster: &list.Items[i], Now: s.now()})
		v.Classes, v.Plan.Entries = []fdbview.Class{}, []fdbview.Entry{}
		page.Items = append(page.Items, v)
	}
	return page, nil
}

func (s consoleSource) read(ctx context.Context, ref control.Ref) (*v1beta2.FoundationDBCluster, error) {
	c := &v1beta2.FoundationDBCluster{}
	err := s.reader.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, c)
	if fault.Of(err) == control.NotFound {
		return nil, control.NotFoundError(ref)
	}
	return c, err
}

// Get implements the source of a server.
func (s consoleSource) Get(ctx context.Context, ref control.Ref) (fdbview.Detail, error) {
	c, err := s.read(ctx, ref)
	if err != nil {
		return fdbview.Detail{}, err
	}
	var backups v1beta2.FoundationDBBackupList
	var restores v1beta2.FoundationDBRestoreList
	failed := s.reader.List(ctx, &backups, client.InNamespace(c.Namespace))
	if err := s.reader.List(ctx, &restores, client.InNamespace(c.Namespace)); failed == nil {
		failed = err
	}
	d := report.DetailOf(report.Facts{Cluster: c, Now: s.now()}, backups.Items, restores.Items, linkNames)
	if failed != nil {
		d.Unseen = fault.Message(failed)
	}
	return d, nil
}

// Explain implements the source of a server.
func (s consoleSource) Explain(ctx context.Context, ref control.Ref, group string, database bool) (fdbview.Explanation, error) {
	c, err := s.read(ctx, ref)
	if err != nil {
		return fdbview.Explanation{}, err
	}
	id := v1beta2.ProcessGroupID(group)
	if database {
		return report.Explain(s.facts(ctx, c, true), id)
	}
	f := report.Facts{Cluster: c, Now: s.now()}
	if parsed, err := fdb.ParseGroupID(group); err == nil {
		pod := &corev1.Pod{} // one of what may be a thousand
		if s.reader.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: foundationdb.PodName(c, parsed)}, pod) == nil {
			f.Pods = report.PodsOf(c, []corev1.Pod{*pod})
		}
	}
	return report.Explain(f, id)
}

// Hold implements the source of a server.
func (s consoleSource) Hold(ctx context.Context, ref control.Ref, links []string) error {
	if len(links) == 0 {
		links = linkNames
	}
	return s.rehold(ctx, ref, links, func(held []string) []string { return append(held, links...) })
}

// Release implements the source of a server.
func (s consoleSource) Release(ctx context.Context, ref control.Ref, links []string) error {
	if len(links) == 0 {
		links = linkNames
	}
	return s.rehold(ctx, ref, links, func(held []string) []string {
		return slices.DeleteFunc(held, func(link string) bool { return slices.Contains(links, link) })
	})
}

// rehold writes which links are held, from those that are.
func (s consoleSource) rehold(ctx context.Context, ref control.Ref, links []string, change func(held []string) []string) error {
	for _, link := range links {
		if !slices.Contains(linkNames, link) {
			return route.Refused.Errorf("there is no link %s%s", link, cli.Suggest(link, linkNames))
		}
	}
	_, err := control.Modify(ctx, s.objects, ref, func(o *control.Object) error {
		setAnnotation(o, foundationdb.HoldAnnotation, holdText(change(report.Held(o.Annotations, linkNames))))
		return nil
	})
	return err
}

// holdText is the annotation that holds links; "": none is held.
func holdText(held []string) string {
	var sorted []string
	for _, link := range linkNames {
		if slices.Contains(held, link) {
			sorted = append(sorted, link)
		}
	}
	if len(sorted) == len(linkNames) {
		return "*"
	}
	return strings.Join(sorted, ",")
}

// Approve implements the source of a server.
func (s consoleSource) Approve(ctx context.Context, ref control.Ref, hash string) error {
	_, err := approve(ctx, s.objects, ref, hash)
	return err
}

// Changes implements the source of a server.
func (s consoleSource) Changes(ctx context.Context, ref control.Ref) <-chan struct{} {
	return s.changes(ctx, ref.Namespace, ref.Name)
}
