package kubestore

import (
	"crypto/sha256"
	"encoding/base32"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/workflow"
)

// format is how a run is kept: as a Run, or as a ConfigMap.
type format interface {
	// resource names the kind of the runs, selector their labels ("": all),
	// and status the part of the object that a save writes ("": all of it).
	resource() (group, resource, selector, status string)
	// empty gives an empty object, and list an empty list, to decode into.
	empty() runtime.Object
	list() runtime.Object
	items(list runtime.Object) []runtime.Object
	// name is the object's name of a run.
	name(id string) string
	// create gives the new object of a run.
	create(o *object) (any, error)
	// decode reads an object, and subject no more of it than whose run it is; "" if that cannot be read.
	decode(from runtime.Object) (*object, error)
	subject(from runtime.Object) string
	// bears tells whether the name of an object may be that of a run kept so.
	bears(name string) bool
	// save gives the merge patch of an edit, and post that of new mail.
	save(o *object, e *edit) ([]byte, error)
	post(o *object, p *post) ([]byte, error)
	// shard gives the object that keeps older events of a run.
	shard(o *object, events []workflow.Event) (any, error)
	shardResource() (group, resource string)
	emptyShards() runtime.Object
	// shards reads such objects.
	shards(list runtime.Object) ([]workflow.Event, error)
}

// names of labels and annotations.
const (
	domain       = "pawl.dev/"
	labelKind    = domain + "kind" // run, history, flow, slot, worker
	labelRun     = domain + "run"
	noteSubject  = domain + "subject"
	noteQueue    = domain + "queue"
	noteLast     = domain + "last"
	noteLease    = domain + "lease"
	fieldManager = "pawl"
)

// meta is what one can know of an object without its content.
func (o *object) meta(m *metav1.ObjectMeta) {
	o.name, o.namespace, o.uid, o.version = m.Name, m.Namespace, string(m.UID), parseVersion(m.ResourceVersion)
	o.owners, o.generation = m.OwnerReferences, m.Generation
	o.annotations = nil
	for key, value := range m.Annotations {
		if isRequest(key) {
			if o.annotations == nil {
				o.annotations = map[string]string{}
			}
			o.annotations[key] = value
		}
	}
}

// labelled gives the metadata of a new object of ours.
func labelled(name, namespace string, labels map[string]string) map[string]any {
	m := map[string]any{"name": name, "namespace": namespace}
	if len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

var base = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// digest is a name for what has one that no object may bear.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base.EncodeToString(sum[:16])
}

// labelValue is a name as the value of a label.
func labelValue(name string) string {
	if len(name) > 63 {
		return digest(name)
	}
	return name
}
