package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// column is a column of the table of a kind; of a wide one it stands only in kubectl get -o wide.
type column struct {
	name, of string // of: its type
	wide     bool
	text     func(o runtime.Object) any
}

// columns are those between the name and the age, as the API server has them of its own kinds, and the CRDs of ours.
var columns = map[string][]column{
	"Pod": {
		{"Ready", "string", false, podOf(func(p *corev1.Pod) any {
			ready := 0
			for _, c := range p.Status.ContainerStatuses {
				if c.Ready {
					ready++
				}
			}
			return fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers))
		})},
		{"Status", "string", false, podOf(func(p *corev1.Pod) any {
			if p.DeletionTimestamp != nil {
				return "Terminating"
			}
			return string(p.Status.Phase)
		})},
		{"Restarts", "string", false, podOf(func(p *corev1.Pod) any {
			restarts := int32(0)
			for _, c := range p.Status.ContainerStatuses {
				restarts += c.RestartCount
			}
			return strconv.Itoa(int(restarts))
		})},
		{"IP", "string", true, podOf(func(p *corev1.Pod) any { return p.Status.PodIP })},
		{"Node", "string", true, podOf(func(p *corev1.Pod) any { return p.Spec.NodeName })},
	},
	"Event": {
		{"Type", "string", false, eventOf(func(e *corev1.Event) any { return e.Type })},
		{"Reason", "string", false, eventOf(func(e *corev1.Event) any { return e.Reason })},
		{"Object", "string", false, eventOf(func(e *corev1.Event) any { return strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name })},
		{"Message", "string", false, eventOf(func(e *corev1.Event) any { return e.Message })},
	},
	clusterKind: {
		{"Generation", "integer", false, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Generation })},
		{"Reconciled", "integer", false, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Status.Generations.Reconciled })},
		{"Available", "boolean", false, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Status.Health.Available })},
		{"FullReplication", "boolean", false, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Status.Health.FullReplication })},
		{"Version", "string", false, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Spec.Version })},
		{"Groups", "string", true, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Status.Groups })},
		{"Waiting", "string", true, clusterOf(func(c *v1beta2.FoundationDBCluster) any {
			if progress := meta.FindStatusCondition(c.Status.Conditions, "Progressing"); progress != nil {
				return progress.Reason
			}
			return ""
		})},
		{"Running", "string", true, clusterOf(func(c *v1beta2.FoundationDBCluster) any { return c.Status.RunningVersion })},
	},
}

func podOf(text func(*corev1.Pod) any) func(runtime.Object) any {
	return func(o runtime.Object) any { return text(o.(*corev1.Pod)) } //nolint:forcetypeassert // the table of pods
}

func eventOf(text func(*corev1.Event) any) func(runtime.Object) any {
	return func(o runtime.Object) any { return text(o.(*corev1.Event)) } //nolint:forcetypeassert // the table of Events
}

func clusterOf(text func(*v1beta2.FoundationDBCluster) any) func(runtime.Object) any {
	return func(o runtime.Object) any { return text(o.(*v1beta2.FoundationDBCluster)) } //nolint:forcetypeassert // the table of clusters
}

// shown returns what a caller gets: the answer, or the table that kubectl asks for. Ages are those of the world.
func (q query) shown(r *http.Request, objects []runtime.Object, answer any) any {
	if !strings.Contains(r.Header.Get("Accept"), "as=Table") {
		if o, single := answer.(runtime.Object); single {
			return q.named(o)
		}
		return answer
	}
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, Rows: []metav1.TableRow{}}
	if list, ok := answer.(*listed); ok {
		t.ListMeta = list.ListMeta
	}
	t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name"})
	for _, c := range columns[q.Kind] {
		definition := metav1.TableColumnDefinition{Name: c.name, Type: c.of}
		if c.wide {
			definition.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, definition)
	}
	t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Age", Type: "string"})
	for _, o := range objects {
		about, err := meta.Accessor(o)
		if err != nil {
			continue // none of our kinds
		}
		row := metav1.TableRow{Cells: []any{about.GetName()}}
		for _, c := range columns[q.Kind] {
			row.Cells = append(row.Cells, c.text(o))
		}
		row.Cells = append(row.Cells, age(about.GetCreationTimestamp(), q.now))
		part := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
		part.Name, part.Namespace, part.UID, part.ResourceVersion = about.GetName(), about.GetNamespace(), about.GetUID(), about.GetResourceVersion()
		part.Labels, part.CreationTimestamp = about.GetLabels(), about.GetCreationTimestamp()
		row.Object.Object = part
		t.Rows = append(t.Rows, row)
	}
	return t
}

func age(since metav1.Time, now time.Time) string { return duration.HumanDuration(now.Sub(since.Time)) }
