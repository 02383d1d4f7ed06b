package runstore

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// object is a run as the API server keeps it, independent of its kind.
type object struct {
	name, namespace string
	uid             string
	version         uint64
	generation      int64
	operator        string // that created it; "": none has marked it
	runID           string // "": the object is not a run yet
	annotations     map[string]string
	owners          []metav1.OwnerReference
	spec            api.RunSpec
	status          api.RunStatus
	fresh           bool // status is the initial status of the spec: none was written yet
	slotPending     bool // not yet written whether the run holds the slot of its subject
}

func (o *object) id() string     { return o.runID }
func (o *object) accepted() bool { return o.status.Revision > 0 }
func (o *object) phase() runtype.Phase {
	return runtype.Phase(o.status.Phase)
}

func (o *object) subject() string {
	if o.spec.Subject == "" {
		return "Run/" + o.namespace + "/" + o.name
	}
	return o.spec.Subject
}

// unread returns the keys of the signals that are not consumed, in order of arrival.
func (o *object) unread() []string {
	var keys []string
	for key := range o.spec.Signals {
		if _, read := o.status.Consumed[key]; !read {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, byNumber)
	return keys
}

// byNumber orders keys that are numbers, also those with more digits than number pads to.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare([]byte(a), []byte(b))
}

// knows reports whether a signal was accepted: it is unread, or among the newest consumed.
func (o *object) knows(id string) bool {
	for _, s := range o.spec.Signals {
		if s.ID == id {
			return true
		}
	}
	for _, known := range o.status.Consumed {
		if known == id {
			return true
		}
	}
	return false
}

// resolveStatus takes the initial status from the spec if no status was written yet.
func (o *object) resolveStatus() {
	if o.status.Revision == 0 && o.spec.Birth != nil {
		request := o.status.LastRequest
		o.status, o.fresh, o.slotPending = *o.spec.Birth, true, true
		o.status.LastRequest = request
	}
	o.spec.Birth = nil
}

// head returns a status without its maps: the part that a save replaces.
func head(st *api.RunStatus) api.RunStatus {
	h := *st
	h.Steps, h.Events, h.Consumed, h.Outbox = nil, nil, nil, nil
	return h
}

// edit is one write of a status: all or nothing.
type edit struct {
	head     api.RunStatus
	steps    map[string]api.RunStep
	events   map[string]*api.RunEvent // nil: removed
	consumed map[string]string        // "": removed
	outbox   map[string]*api.RunMail  // nil: removed
}

// addInitial adds the steps and events of the initial status to an edit of a fresh object.
func (e *edit) addInitial(o *object) {
	if !o.fresh {
		return
	}
	e.steps = mergeSteps(e.steps, o.status.Steps)
	events := maps.Clone(e.events)
	if events == nil {
		events = map[string]*api.RunEvent{}
	}
	for key, event := range o.status.Events {
		if _, set := events[key]; !set {
			events[key] = &event
		}
	}
	e.events = events
}

func mergeSteps(top, base map[string]api.RunStep) map[string]api.RunStep {
	all := maps.Clone(base)
	if all == nil {
		return top
	}
	maps.Copy(all, top)
	return all
}

// apply applies an edit that the API server has accepted.
func (o *object) apply(e *edit, version uint64) {
	st := &o.status
	steps, events, consumed, outbox := st.Steps, st.Events, st.Consumed, st.Outbox
	*st = e.head
	st.Steps, st.Events, st.Consumed, st.Outbox = steps, events, consumed, outbox
	mergeInto(&st.Steps, e.steps)
	applyChanges(&st.Events, e.events)
	applyChanges(&st.Outbox, e.outbox)
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
	o.fresh, o.slotPending, o.version = false, false, version
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

// signalEdit is one write of the signals of a run.
type signalEdit struct {
	mail   int64
	add    map[string]api.RunSignal
	remove []string
}

func (o *object) applySignals(p *signalEdit, version uint64) {
	o.spec.Mail = p.mail
	mergeInto(&o.spec.Signals, p.add)
	for _, key := range p.remove {
		delete(o.spec.Signals, key)
	}
	o.version = version
}

func versionText(v uint64) string { return strconv.FormatUint(v, 10) }

func parseVersion(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64) // since Kubernetes 1.35 a version is a growing number
	return v
}
