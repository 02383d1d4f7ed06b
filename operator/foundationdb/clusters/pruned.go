package clusters

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// StatusPruned says that the API server drops fields of the status.
var StatusPruned = fault.Declare(fault.Kind{
	Code: "FDB_STATUS_PRUNED", Class: fault.Blocked,
	Title:  "the CRD of the cluster drops fields of its status",
	Remedy: "Install the CRDs of this operator (foundationdb.crds of the chart); until then pawl fdb plan and the Events tell what the status cannot.",
	Guide:  "foundationdb.md#coming-from-the-other-operator",
})

// TypeStatusPruned is the condition of a cluster whose CRD, that of another operator, drops fields of the status. It is
// there once that has been seen, and only if that CRD keeps conditions.
const TypeStatusPruned = "StatusPruned"

// pruned is what the API server has dropped of the status.
type pruned struct {
	fields []string // by name in JSON; empty: none
	// status is what was sent last: the fields that were dropped are taken from it, as if they had been stored.
	status   v1beta2.FoundationDBClusterStatus
	observed bool   // a status was written
	hash     string // of a plan that waits for its approval, as it was told
}

// recall gives the status that was read what the API server has dropped of it. Without that each pass would find
// conditions and plan new, and write.
func (p *pass) recall() {
	known := p.memory.pruned
	if len(known.fields) == 0 {
		return
	}
	sent := known.status.DeepCopy()
	into, from := reflect.ValueOf(&p.stored.Status).Elem(), reflect.ValueOf(sent).Elem()
	for i := range into.NumField() {
		if slices.Contains(known.fields, jsonName(into.Type().Field(i))) && into.Field(i).IsZero() {
			into.Field(i).Set(from.Field(i))
		}
	}
	p.cluster.Status = *p.stored.Status.DeepCopy()
	p.index()
}

// notePruned compares what was written with what was stored.
func (p *pass) notePruned(stored v1beta2.FoundationDBClusterStatus) {
	known := &p.memory.pruned
	known.observed = true
	lost := lostFields(p.cluster.Status, stored)
	if len(lost) == 0 {
		known.fields, known.status = nil, v1beta2.FoundationDBClusterStatus{}
		return
	}
	known.status = *p.cluster.Status.DeepCopy()
	all := slices.Compact(slices.Sorted(slices.Values(append(lost, known.fields...))))
	if !slices.Equal(all, known.fields) {
		known.fields = all
		p.objects.Tell(p.stored, port.Event{Reason: StatusPruned.Reason(), Message: p.prunedMessage() + ". " + StatusPruned.Remedy, Warning: true})
	}
}

func (p *pass) prunedMessage() string {
	paths := make([]string, len(p.memory.pruned.fields))
	for i, field := range p.memory.pruned.fields {
		paths[i] = "status." + field
	}
	return "the CRD that is installed does not keep " + strings.Join(paths, ", ")
}

// lostFields names the fields of a status that was written which are not in what was stored.
func lostFields(written, stored v1beta2.FoundationDBClusterStatus) []string {
	if equality.Semantic.DeepEqual(written, stored) {
		return nil
	}
	var sent, kept map[string]json.RawMessage
	for _, one := range []struct {
		status v1beta2.FoundationDBClusterStatus
		into   *map[string]json.RawMessage
	}{{written, &sent}, {stored, &kept}} {
		text, err := json.Marshal(one.status)
		if err == nil {
			err = json.Unmarshal(text, one.into)
		}
		if err != nil {
			panic(err) // a status always has a JSON form
		}
	}
	var lost []string
	for name := range sent {
		if _, there := kept[name]; !there {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	return lost
}

// publishedStatus is a status with the fields only that other operators of the kind know.
func publishedStatus(s v1beta2.FoundationDBClusterStatus) v1beta2.FoundationDBClusterStatus {
	s.ObservedGeneration, s.Groups, s.Conditions, s.Plan = 0, "", nil, nil
	return s
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// statusPruned is the condition; nil: nothing was ever dropped.
func (p *pass) statusPruned() *metav1.Condition {
	known := p.memory.pruned
	var c metav1.Condition
	switch {
	case len(known.fields) > 0:
		c = condition.FromFault(TypeStatusPruned, StatusPruned, "%s", p.prunedMessage())
		c.Status = metav1.ConditionTrue
	case known.observed && meta.FindStatusCondition(p.stored.Status.Conditions, TypeStatusPruned) != nil:
		c = condition.New(TypeStatusPruned, metav1.ConditionFalse, "AllKept", "the CRD that is installed keeps all fields of the status")
	default:
		return nil
	}
	return &c
}

// forgetsConditions reports whether the status cannot tell who has made the cluster.
func (p *pass) forgetsConditions() bool { return slices.Contains(p.memory.pruned.fields, "conditions") }

// tellHash tells by an Event which plan waits for an approval, where the status cannot.
func (p *pass) tellHash() {
	if !p.forgetsConditions() || p.hash == "" || p.hash == p.memory.pruned.hash {
		return
	}
	p.memory.pruned.hash = p.hash
	p.event("ApprovalMissing", "links are held: the annotation %s: %s lets what they would do pass", foundationdb.ApproveAnnotation, p.hash)
}
