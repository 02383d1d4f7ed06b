package report

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// The kinds, as an API server writes them.
const (
	ClusterKind = "FoundationDBCluster"
	BackupKind  = "FoundationDBBackup"
	RestoreKind = "FoundationDBRestore"
)

// words are what people call the kinds.
var words = map[string][]string{
	ClusterKind: {"fdb", "foundationdbcluster", "foundationdbclusters"},
	BackupKind:  {"fdbbackup", "foundationdbbackup", "foundationdbbackups"},
	RestoreKind: {"fdbrestore", "foundationdbrestore", "foundationdbrestores"},
}

// KindOf returns the kind that a word means; "": none of the three.
func KindOf(word string) string {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for kind, all := range words {
		for _, one := range all {
			if one == word {
				return kind
			}
		}
	}
	return ""
}

// Facts are what is known of a cluster. Only Cluster and Now must be there.
type Facts struct {
	Cluster *v1beta2.FoundationDBCluster
	// Status is the database's own; nil: it was not read, or did not come.
	Status *fdb.Status
	// Silence is why Status did not come; "": nobody has asked.
	Silence string
	// Pods are those of the cluster by group; nil: they were not read.
	Pods map[v1beta2.ProcessGroupID]*corev1.Pod
	Now  time.Time
}

// ClusterOf is a cluster from its object.
func ClusterOf(o control.Object) (*v1beta2.FoundationDBCluster, error) {
	c := &v1beta2.FoundationDBCluster{}
	c.ObjectMeta = metadataOf(o)
	return c, decode(o, &c.Spec, &c.Status)
}

// BackupOf is a backup from its object.
func BackupOf(o control.Object) (*v1beta2.FoundationDBBackup, error) {
	b := &v1beta2.FoundationDBBackup{}
	b.ObjectMeta = metadataOf(o)
	return b, decode(o, &b.Spec, &b.Status)
}

// RestoreOf is a restore from its object.
func RestoreOf(o control.Object) (*v1beta2.FoundationDBRestore, error) {
	r := &v1beta2.FoundationDBRestore{}
	r.ObjectMeta = metadataOf(o)
	return r, decode(o, &r.Spec, &r.Status)
}

func metadataOf(o control.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID), Generation: o.Generation,
		Labels: o.Labels, Annotations: o.Annotations, CreationTimestamp: metav1.NewTime(o.CreatedAt),
	}
	if !o.DeletionMark.IsZero() {
		m.DeletionTimestamp = &metav1.Time{Time: o.DeletionMark}
	}
	return m
}

func decode(o control.Object, spec, status any) error {
	for from, into := range map[*json.RawMessage]any{&o.Spec: spec, &o.Status: status} {
		if len(*from) == 0 {
			continue
		}
		if err := json.Unmarshal(*from, into); err != nil {
			return control.Invalid.Errorf("%s cannot be read: %w", o.Ref, err)
		}
	}
	return nil
}

// PodsOf sorts the pods of a cluster by group.
func PodsOf(c *v1beta2.FoundationDBCluster, pods []corev1.Pod) map[v1beta2.ProcessGroupID]*corev1.Pod {
	found := map[v1beta2.ProcessGroupID]*corev1.Pod{}
	match := foundationdb.MatchLabels(c)
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace != c.Namespace || !labelled(pod.Labels, match) {
			continue
		}
		if id, ok := foundationdb.GroupIDOf(pod.Labels, foundationdb.Effective(c.Spec)); ok {
			found[id] = pod
		}
	}
	return found
}

func labelled(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// processes are the servers of a group that report.
func (f Facts) processes(id v1beta2.ProcessGroupID) []*fdb.Process {
	if f.Status == nil {
		return nil
	}
	var found []*fdb.Process
	for i := range f.Status.Cluster.Processes {
		p := &f.Status.Cluster.Processes[i]
		if p.Locality[fdb.InstanceLocality] == string(id) {
			found = append(found, p)
		}
	}
	return found
}

func yes(p *bool) bool { return p != nil && *p }
