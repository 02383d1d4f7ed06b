package format

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// configMaps keeps each run as a ConfigMap, with one key for each part that changes
// on its own:
//
//	spec          the request, written once
//	phase, owner… each other field of the status, as JSON; not step, which follows from the records
//	step.NAME     the record of a step; characters that a key may not have are written as _XX
//	event.N       an event of the history: time, kind and step; JSON if it has more fields
//	signal.N      an unread signal
//	mail          how many signals were ever sent
//	consumed.N    the id of a signal that was read
//	outbox.N      a signal to another run that is not delivered yet
type configMaps struct{}

const ConfigMapPrefix = "pawl-run-"

// maxKey bounds the keys of a ConfigMap; Kubernetes allows 253.
const maxKey = 240

// namedStep is a record whose name is too long for a key.
type namedStep struct {
	Name string `json:"name,omitempty"`
	api.RunStep
}

func (configMaps) Resource() (group, resource, selector, status string) {
	return "", "configmaps", LabelKind + "=run", ""
}
func (configMaps) HistoryResource() (group, resource string) { return "", "configmaps" }
func (configMaps) NewObject() runtime.Object                 { return &corev1.ConfigMap{} }
func (configMaps) NewList() runtime.Object                   { return &corev1.ConfigMapList{} }
func (configMaps) NewHistoryList() runtime.Object            { return &corev1.ConfigMapList{} }
func (configMaps) Name(id string) string                     { return ConfigMapPrefix + id }

func (configMaps) Items(list runtime.Object) []runtime.Object {
	all := list.(*corev1.ConfigMapList).Items
	items := make([]runtime.Object, len(all))
	for i := range all {
		items[i] = &all[i]
	}
	return items
}

func (configMaps) Create(o *Object) (any, error) {
	meta := NewMeta(o.Name, o.Namespace, Marked(map[string]string{LabelKind: "run"}, o.Operator))
	if len(o.Owners) > 0 {
		meta["ownerReferences"] = o.Owners
	}
	spec := o.Spec
	spec.Birth = nil
	e := &Edit{Head: Head(o.Spec.Birth), Steps: o.Spec.Birth.Steps, Events: map[string]*api.RunEvent{}}
	for key, event := range o.Spec.Birth.Events {
		e.Events[key] = &event
	}
	data, err := entries(api.RunStatus{}, e)
	if err != nil {
		return nil, err
	}
	data["spec"], data["unplaced"] = text(spec), "true"
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}, nil
}

// text encodes one of our own values as JSON; that never fails.
func text(v any) string {
	data, err := client.Encode(v)
	if err != nil {
		return "null"
	}
	return string(data)
}

func (configMaps) Subject(from runtime.Object) string {
	m, ok := from.(*corev1.ConfigMap)
	if !ok {
		return ""
	}
	var spec struct{ Subject string }
	if json.Unmarshal([]byte(m.Data["spec"]), &spec) != nil {
		return ""
	}
	return (&Object{Name: m.Name, Namespace: m.Namespace, Spec: api.RunSpec{Subject: spec.Subject}}).Subject()
}

func (configMaps) MatchesName(name string) bool { return strings.HasPrefix(name, ConfigMapPrefix) }

func (configMaps) Decode(from runtime.Object) (*Object, error) {
	m, ok := from.(*corev1.ConfigMap)
	if !ok {
		return nil, fmt.Errorf("a %T is not a ConfigMap", from)
	}
	o := &Object{}
	o.setMeta(&m.ObjectMeta)
	var err error
	read := func(key string, into any) {
		if e := json.Unmarshal([]byte(m.Data[key]), into); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", key, e)
		}
	}
	st := &o.Status
	fields := map[string]json.RawMessage{}
	for key, value := range m.Data {
		kind, rest, dotted := strings.Cut(key, ".")
		if !dotted && kind != "spec" && kind != "mail" && kind != "unplaced" {
			fields[key] = json.RawMessage(value)
			continue
		}
		switch kind {
		case "spec":
			signals, mail := o.Spec.Signals, o.Spec.Mail
			read(key, &o.Spec)
			o.Spec.Signals, o.Spec.Mail = signals, mail
		case "unplaced":
			o.SlotPending = true
		case "mail":
			if o.Spec.Mail, err = strconv.ParseInt(value, 10, 64); err != nil {
				err = fmt.Errorf("mail: %w", err)
			}
		case "step":
			var s namedStep
			read(key, &s)
			if s.Name == "" {
				s.Name = unescape(rest)
			}
			mergeInto(&st.Steps, map[string]api.RunStep{s.Name: s.RunStep})
		case "event":
			e, plain := eventLine(value)
			if !plain {
				read(key, &e)
			}
			mergeInto(&st.Events, map[string]api.RunEvent{rest: e})
		case "signal":
			var s api.RunSignal
			read(key, &s)
			mergeInto(&o.Spec.Signals, map[string]api.RunSignal{rest: s})
		case "outbox":
			var p api.RunMail
			read(key, &p)
			mergeInto(&st.Outbox, map[string]api.RunMail{rest: p})
		case "consumed":
			mergeInto(&st.Consumed, map[string]string{rest: value})
		}
	}
	if err == nil && len(fields) > 0 {
		err = readFields(fields, st)
	}
	if err != nil {
		return nil, runstore.StoreCorrupt.Errorf("ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	o.ResolveStatus()
	if id, ours := strings.CutPrefix(o.Name, ConfigMapPrefix); ours && o.Accepted() {
		o.RunID = id
	}
	return o, nil
}

func (configMaps) Save(o *Object, e *Edit) ([]byte, error) {
	data, err := entries(Head(&o.Status), e)
	if err != nil {
		return nil, err
	}
	meta := Tree{"resourceVersion": VersionText(o.Version)}
	if o.SlotPending { // managedFields would grow with every key
		data["unplaced"], meta["managedFields"] = nil, client.Untracked
	}
	return client.Encode(Tree{"metadata": meta, "data": data})
}

// entries returns the keys that an edit changes.
func entries(from api.RunStatus, e *Edit) (Tree, error) {
	a, err := treeOf(from)
	if err != nil {
		return nil, err
	}
	b, err := treeOf(e.Head)
	if err != nil {
		return nil, err
	}
	data := Tree{}
	delete(a, "step")
	delete(b, "step")
	for field, value := range b {
		if old, known := a[field]; !known || !reflect.DeepEqual(old, value) {
			data[field] = text(value)
		}
	}
	for field := range a {
		if _, stays := b[field]; !stays {
			data[field] = nil
		}
	}
	for name, step := range e.Steps {
		key, named := "step."+escape(name), namedStep{RunStep: step}
		if len(key) > maxKey {
			key, named.Name = "step."+Digest(name), name
		}
		data[key] = text(named)
	}
	for key, event := range e.Events {
		data["event."+key] = nil
		if event != nil {
			lean := *event
			lean.After = "" // quotes are escaped here; without After, a restarted reader gets more events twice
			data["event."+key] = eventText(&lean)
		}
	}
	for key, mail := range e.Outbox {
		data["outbox."+key] = nil
		if mail != nil {
			data["outbox."+key] = text(mail)
		}
	}
	for key, id := range e.consumed {
		data["consumed."+key] = nil
		if id != "" {
			data["consumed."+key], data["signal."+key] = id, nil
		}
	}
	return data, nil
}

// eventText encodes an event as a line that a person can read and that needs no
// quotes: "2026-11-21T02:47:15.2Z StepDone InitMeta". An event with more fields is JSON.
func eventText(e *api.RunEvent) string {
	line := e.At + " " + e.Kind
	if e.Step != "" {
		line += " " + e.Step
	}
	if plain, ok := eventLine(line); !ok || plain != *e {
		return text(e)
	}
	return line
}

// eventLine decodes such a line. It returns false for JSON.
func eventLine(line string) (e api.RunEvent, ok bool) {
	if e.At, line, ok = strings.Cut(line, " "); !ok || e.At == "" || strings.HasPrefix(e.At, "{") {
		return api.RunEvent{}, false
	}
	e.Kind, e.Step, _ = strings.Cut(line, " ")
	return e, true
}

// readFields reads the keys that are fields of the status.
func readFields(fields map[string]json.RawMessage, into *api.RunStatus) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return json.Unmarshal(data, into)
}

func (configMaps) PatchSignals(o *Object, p *SignalEdit) ([]byte, error) {
	data := Tree{}
	if p.Mail != o.Spec.Mail {
		data["mail"] = strconv.FormatInt(p.Mail, 10)
	}
	for key, s := range p.Add {
		data["signal."+key] = text(s)
	}
	for _, key := range p.Remove {
		data["signal."+key] = nil
	}
	return client.Encode(Tree{"metadata": Tree{"resourceVersion": VersionText(o.Version)}, "data": data})
}

func (configMaps) NewHistory(o *Object, events []runtype.Event) (any, error) {
	data, err := client.Encode(events)
	if err != nil {
		return nil, err
	}
	meta := NewMeta(fmt.Sprintf("%s-%s", o.Name, Number(events[0].Seq)), o.Namespace, map[string]string{LabelKind: "history", LabelRun: LabelValue(o.Name)})
	meta["ownerReferences"] = historyOwner(o, "v1", "ConfigMap")
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": true, "data": map[string]string{"run": o.ID(), "events": string(data)}}, nil
}

func (configMaps) DecodeHistory(list runtime.Object) ([]runtype.Event, error) {
	var events []runtype.Event
	for _, item := range list.(*corev1.ConfigMapList).Items {
		var part []runtype.Event
		if err := json.Unmarshal([]byte(item.Data["events"]), &part); err != nil {
			return nil, runstore.StoreCorrupt.Errorf("ConfigMap %s/%s: %w", item.Namespace, item.Name, err)
		}
		events = append(events, part...)
	}
	return events, nil
}

// escape encodes the name of a step for use in a key: letters, digits, "-" and "."
// stay, every other byte becomes _XX.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02X", c)
		}
	}
	return b.String()
}

func unescape(key string) string {
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i+2 < len(key) {
			if n, err := strconv.ParseUint(key[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(key[i])
	}
	return b.String()
}
