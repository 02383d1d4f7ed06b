package format

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Object is a run as the API server keeps it, independent of its kind.
type Object struct {
	Name, Namespace string
	UID             string
	Version         uint64
	Generation      int64
	Operator        string // that created it; "": none has marked it
	RunID           string // "": the object is not a run yet
	Annotations     map[string]string
	Owners          []metav1.OwnerReference
	Spec            api.RunSpec
	Status          api.RunStatus
	Fresh           bool // status is the initial status of the spec: none was written yet
	SlotPending     bool // not yet written whether the run holds the slot of its subject
}

// ID returns the id of the run; "" before it was accepted.
func (o *Object) ID() string { return o.RunID }

// Accepted reports whether the object has the state of a run.
func (o *Object) Accepted() bool { return o.Status.Revision > 0 }

// Phase returns the phase of the run.
func (o *Object) Phase() runtype.Phase {
	return runtype.Phase(o.Status.Phase)
}

// Subject returns the subject of the run.
func (o *Object) Subject() string {
	if o.Spec.Subject == "" {
		return "Run/" + o.Namespace + "/" + o.Name
	}
	return o.Spec.Subject
}

// Unread returns the keys of the signals that are not consumed, in order of arrival.
func (o *Object) Unread() []string {
	var keys []string
	for key := range o.Spec.Signals {
		if _, read := o.Status.Consumed[key]; !read {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, ByNumber)
	return keys
}

// ByNumber orders keys that are numbers, also those with more digits than number pads to.
func ByNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare([]byte(a), []byte(b))
}

// Knows reports whether a signal was accepted: it is unread, or among the newest consumed.
func (o *Object) Knows(id string) bool {
	for _, s := range o.Spec.Signals {
		if s.ID == id {
			return true
		}
	}
	for _, known := range o.Status.Consumed {
		if known == id {
			return true
		}
	}
	return false
}

// ResolveStatus takes the initial status from the spec if no status was written yet.
func (o *Object) ResolveStatus() {
	if o.Status.Revision == 0 && o.Spec.Birth != nil {
		request := o.Status.LastRequest
		o.Status, o.Fresh, o.SlotPending = *o.Spec.Birth, true, true
		o.Status.LastRequest = request
	}
	o.Spec.Birth = nil
}

// Head returns a status without its maps: the part that a save replaces.
func Head(st *api.RunStatus) api.RunStatus {
	h := *st
	h.Steps, h.Events, h.Consumed, h.Outbox = nil, nil, nil, nil
	return h
}

// Edit is one write of a status: all or nothing.
type Edit struct {
	Head     api.RunStatus
	Steps    map[string]api.RunStep
	Events   map[string]*api.RunEvent // nil: removed
	consumed map[string]string        // "": removed
	Outbox   map[string]*api.RunMail  // nil: removed
}

// AddInitial adds the steps and events of the initial status to an edit of a fresh object.
func (e *Edit) AddInitial(o *Object) {
	if !o.Fresh {
		return
	}
	e.Steps = mergeSteps(e.Steps, o.Status.Steps)
	events := maps.Clone(e.Events)
	if events == nil {
		events = map[string]*api.RunEvent{}
	}
	for key, event := range o.Status.Events {
		if _, set := events[key]; !set {
			events[key] = &event
		}
	}
	e.Events = events
}

func mergeSteps(top, base map[string]api.RunStep) map[string]api.RunStep {
	all := maps.Clone(base)
	if all == nil {
		return top
	}
	maps.Copy(all, top)
	return all
}

// Apply applies an edit that the API server has accepted.
func (o *Object) Apply(e *Edit, version uint64) {
	st := &o.Status
	steps, events, consumed, outbox := st.Steps, st.Events, st.Consumed, st.Outbox
	*st = e.Head
	st.Steps, st.Events, st.Consumed, st.Outbox = steps, events, consumed, outbox
	mergeInto(&st.Steps, e.Steps)
	applyChanges(&st.Events, e.Events)
	applyChanges(&st.Outbox, e.Outbox)
	for key, id := range e.consumed {
		if id == "" {
			delete(st.Consumed, key)
			continue
		}
		if st.Consumed == nil {
			st.Consumed = map[string]string{}
		}
		st.Consumed[key] = id
	}
	o.Fresh, o.SlotPending, o.Version = false, false, version
}

func mergeInto[T any](to *map[string]T, from map[string]T) {
	if *to == nil && len(from) > 0 {
		*to = make(map[string]T, len(from))
	}
	for key, value := range from {
		(*to)[key] = value
	}
}

func applyChanges[T any](to *map[string]T, from map[string]*T) {
	for key, value := range from {
		if value == nil {
			delete(*to, key)
			continue
		}
		if *to == nil {
			*to = map[string]T{}
		}
		(*to)[key] = *value
	}
}

// SignalEdit is one write of the signals of a run.
type SignalEdit struct {
	Mail   int64
	Add    map[string]api.RunSignal
	Remove []string
}

// ApplySignals makes the change that a patch has made; version is the new one.
func (o *Object) ApplySignals(p *SignalEdit, version uint64) {
	o.Spec.Mail = p.Mail
	mergeInto(&o.Spec.Signals, p.Add)
	for _, key := range p.Remove {
		delete(o.Spec.Signals, key)
	}
	o.Version = version
}

// VersionText returns a version as the API server writes it.
func VersionText(v uint64) string { return strconv.FormatUint(v, 10) }

// ParseVersion reads the version of an object.
func ParseVersion(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64) // since Kubernetes 1.35 a version is a growing number
	return v
}

// CreatedText returns when the run was created.
func (o *Object) CreatedText() string { return cmp.Or(o.Status.CreatedAt, o.Spec.CreatedAt) }

// Consume adds the ids of the signals that were read, and removes the oldest ids beyond
// MaxSignalIDs.
func (e *Edit) Consume(o *Object, consumed []string) {
	if len(consumed) == 0 {
		return
	}
	e.consumed = map[string]string{}
	for key, sig := range o.Spec.Signals {
		if _, read := o.Status.Consumed[key]; !read && slices.Contains(consumed, sig.ID) {
			e.consumed[key] = sig.ID
		}
	}
	over := len(o.Status.Consumed) + len(e.consumed) - runstore.MaxSignalIDs
	if over <= 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.Status.Consumed), ByNumber)[:min(over, len(o.Status.Consumed))] {
		if _, still := o.Spec.Signals[key]; !still { // without its id, a signal in spec would count as unread
			e.consumed[key] = ""
		}
	}
}
