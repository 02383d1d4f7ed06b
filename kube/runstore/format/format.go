// Package format writes runs as objects of Kubernetes and reads them: a Run with its status, or a ConfigMap.
//
//	runtype.Run ─▶ SpecOf, HeadOf, StepOf ─▶ Object ─▶ Format: Runs or ConfigMaps ─▶ what is sent
//	Edit ─▶ Format.Save ─▶ a merge patch of what changed
//
// It has no state and sends nothing.
package format

import (
	"crypto/sha256"
	"encoding/base32"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Format encodes a run as an object: a Run, or a ConfigMap.
type Format interface {
	// Resource returns the group and resource of the runs, the selector of their labels
	// ("": all), and the subresource that a save writes ("": the object itself).
	Resource() (group, resource, selector, status string)
	// NewObject returns an empty object to decode into, and newList an empty list.
	NewObject() runtime.Object
	NewList() runtime.Object
	Items(list runtime.Object) []runtime.Object
	// Name returns the name of the object of a run.
	Name(id string) string
	// Create returns the new object of a run.
	Create(o *Object) (any, error)
	// Decode reads an object.
	Decode(from runtime.Object) (*Object, error)
	// Subject reads only the subject of an object; "" if it cannot be read.
	Subject(from runtime.Object) string
	// MatchesName reports whether an object of this format may have the name.
	MatchesName(name string) bool
	// Save returns the merge patch of an edit.
	Save(o *Object, e *Edit) ([]byte, error)
	// PatchSignals returns the merge patch of a signalEdit.
	PatchSignals(o *Object, p *SignalEdit) ([]byte, error)
	// NewHistory returns the object that keeps older events of a run.
	NewHistory(o *Object, events []runtype.Event) (any, error)
	HistoryResource() (group, resource string)
	NewHistoryList() runtime.Object
	// DecodeHistory reads the events of such objects.
	DecodeHistory(list runtime.Object) ([]runtype.Event, error)
}

// Runs returns the format that keeps a run as an object of the kind Run.
func Runs() Format { return runs{} }

// ConfigMaps returns the format that keeps a run as a ConfigMap, where no CRD may be installed.
func ConfigMaps() Format { return configMaps{} }

// Names of labels and annotations.
const (
	Domain            = "pawl.dev/"
	LabelKind         = Domain + "kind" // run, history, flow, slot, worker
	LabelRun          = Domain + "run"
	LabelOwner        = Domain + "operator" // of runs and slots: Options.Operator
	AnnotationSubject = Domain + "subject"
	AnnotationQueue   = Domain + "queue"
	AnnotationLast    = Domain + "last"
	AnnotationLease   = Domain + "lease"
)

// setMeta copies the metadata of an object, and of its annotations the requests.
func (o *Object) setMeta(m *metav1.ObjectMeta) {
	o.Name, o.Namespace, o.UID, o.Version = m.Name, m.Namespace, string(m.UID), ParseVersion(m.ResourceVersion)
	o.Owners, o.Generation, o.Operator = m.OwnerReferences, m.Generation, m.Labels[LabelOwner]
	o.Annotations = nil
	for key, value := range m.Annotations {
		if requests.IsRequest(key) {
			if o.Annotations == nil {
				o.Annotations = map[string]string{}
			}
			o.Annotations[key] = value
		}
	}
}

// NewMeta returns the metadata of a new object.
func NewMeta(name, namespace string, labels map[string]string) map[string]any {
	m := map[string]any{"name": name, "namespace": namespace}
	if len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

// Marked returns labels with the mark of an operator; "": without one.
func Marked(labels map[string]string, operator string) map[string]string {
	if operator != "" {
		labels[LabelOwner] = operator
	}
	return labels
}

var base = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Digest returns a valid object name for any text.
func Digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base.EncodeToString(sum[:16])
}

// LabelValue returns a name as the value of a label: its digest if it is too long.
func LabelValue(name string) string {
	if len(name) > 63 {
		return Digest(name)
	}
	return name
}
