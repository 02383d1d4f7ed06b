package runstore

import (
	"crypto/sha256"
	"encoding/base32"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// format encodes a run as an object: a Run, or a ConfigMap.
type format interface {
	// resource returns the group and resource of the runs, the selector of their labels
	// ("": all), and the subresource that a save writes ("": the object itself).
	resource() (group, resource, selector, status string)
	// newObject returns an empty object to decode into, and newList an empty list.
	newObject() runtime.Object
	newList() runtime.Object
	items(list runtime.Object) []runtime.Object
	// name returns the name of the object of a run.
	name(id string) string
	// create returns the new object of a run.
	create(o *object) (any, error)
	// decode reads an object.
	decode(from runtime.Object) (*object, error)
	// subject reads only the subject of an object; "" if it cannot be read.
	subject(from runtime.Object) string
	// matchesName reports whether an object of this format may have the name.
	matchesName(name string) bool
	// save returns the merge patch of an edit.
	save(o *object, e *edit) ([]byte, error)
	// patchSignals returns the merge patch of a signalEdit.
	patchSignals(o *object, p *signalEdit) ([]byte, error)
	// newHistory returns the object that keeps older events of a run.
	newHistory(o *object, events []runtype.Event) (any, error)
	historyResource() (group, resource string)
	newHistoryList() runtime.Object
	// decodeHistory reads the events of such objects.
	decodeHistory(list runtime.Object) ([]runtype.Event, error)
}

// Names of labels and annotations.
const (
	domain            = "pawl.dev/"
	labelKind         = domain + "kind" // run, history, flow, slot, worker
	labelRun          = domain + "run"
	labelOwner        = domain + "operator" // of runs and slots: Options.Operator
	annotationSubject = domain + "subject"
	annotationQueue   = domain + "queue"
	annotationLast    = domain + "last"
	annotationLease   = domain + "lease"
)

// setMeta copies the metadata of an object, and of its annotations the requests.
func (o *object) setMeta(m *metav1.ObjectMeta) {
	o.name, o.namespace, o.uid, o.version = m.Name, m.Namespace, string(m.UID), parseVersion(m.ResourceVersion)
	o.owners, o.generation, o.operator = m.OwnerReferences, m.Generation, m.Labels[labelOwner]
	o.annotations = nil
	for key, value := range m.Annotations {
		if requests.IsRequest(key) {
			if o.annotations == nil {
				o.annotations = map[string]string{}
			}
			o.annotations[key] = value
		}
	}
}

// newMeta returns the metadata of a new object.
func newMeta(name, namespace string, labels map[string]string) map[string]any {
	m := map[string]any{"name": name, "namespace": namespace}
	if len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

// marked returns labels with the mark of an operator; "": without one.
func marked(labels map[string]string, operator string) map[string]string {
	if operator != "" {
		labels[labelOwner] = operator
	}
	return labels
}

var base = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// digest returns a valid object name for any text.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base.EncodeToString(sum[:16])
}

// labelValue returns a name as the value of a label: its digest if it is too long.
func labelValue(name string) string {
	if len(name) > 63 {
		return digest(name)
	}
	return name
}
