package sim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// kinds are the kinds that the API server has, and whether their objects are in a namespace.
var kinds = map[string]bool{
	"FoundationDBCluster": true, "FoundationDBBackup": true, "FoundationDBRestore": true,
	"Pod": true, "PersistentVolumeClaim": true, "Service": true, "ConfigMap": true, "Deployment": true, "Node": false,
}

// counted are the kinds whose generation counts the changes of the spec.
func counted(kind string) bool { return custom(kind) || kind == "Deployment" }

// custom are the three kinds of our own.
func custom(kind string) bool {
	return kind == "FoundationDBCluster" || kind == "FoundationDBBackup" || kind == "FoundationDBRestore"
}

// name is the namespace and the name of an object.
type name struct{ namespace, name string }

func nameOf(o metav1.Object) name { return name{o.GetNamespace(), o.GetName()} }

func (n name) compare(other name) int {
	return cmp.Or(cmp.Compare(n.namespace, other.namespace), cmp.Compare(n.name, other.name))
}

func (n name) String() string {
	if n.namespace == "" {
		return n.name
	}
	return n.namespace + "/" + n.name
}

func kindOf(o any) string { return reflect.TypeOf(o).Elem().Name() }

// reference is the kind and the name of an object.
type reference struct {
	kind string
	name
}

// store has the objects. A stored object is never changed, only replaced.
type store struct {
	w        *World
	tables   map[string]*table
	version  int
	uids     int
	byUID    map[types.UID]reference
	children map[types.UID]map[reference]bool // by owner
}

// table has the objects of one kind.
type table struct {
	names   []name // sorted
	objects map[name]port.Object
	history []change
}

// change is what a name stood for before a moment; nil: nothing.
type change struct {
	at     time.Time
	name   name
	before port.Object
}

// memory is how late a list can be.
const memory = 10 * time.Minute

func newStore(w *World) *store {
	s := &store{w: w, tables: map[string]*table{}, byUID: map[types.UID]reference{}, children: map[types.UID]map[reference]bool{}}
	for kind := range kinds {
		s.tables[kind] = &table{objects: map[name]port.Object{}}
	}
	return s
}

// get returns an object as it is stored; nil if there is none.
func get[T port.Object](s *store, n name) (found T) {
	if o, ok := s.tables[kindOf(found)].objects[n].(T); ok {
		return o
	}
	return found
}

// clone returns a copy of an object.
func clone[T port.Object](o T) T {
	c, _ := o.DeepCopyObject().(T)
	return c
}

// put stores an object, with the next resource version, in place of what has its name, and tells the controllers.
func (s *store) put(o port.Object) {
	kind, n := kindOf(o), nameOf(o)
	t := s.tables[kind]
	before := t.objects[n]
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.remember(t, n, before)
	t.objects[n] = o
	if before == nil {
		at, _ := slices.BinarySearchFunc(t.names, n, name.compare)
		t.names = slices.Insert(t.names, at, n)
	} else {
		s.disown(kind, before)
	}
	s.byUID[o.GetUID()] = reference{kind, n}
	for _, owner := range o.GetOwnerReferences() {
		if s.children[owner.UID] == nil {
			s.children[owner.UID] = map[reference]bool{}
		}
		s.children[owner.UID][reference{kind, n}] = true
	}
	s.w.tell(before, o)
	s.w.changed(before, o)
}

func (s *store) disown(kind string, o port.Object) {
	for _, owner := range o.GetOwnerReferences() {
		delete(s.children[owner.UID], reference{kind, nameOf(o)})
	}
}

func (s *store) remember(t *table, n name, before port.Object) {
	now := s.w.Now()
	if len(t.history) > 1024 && now.Sub(t.history[len(t.history)/2].at) > memory {
		t.history = slices.Clone(t.history[len(t.history)/2:])
	}
	t.history = append(t.history, change{now, n, before})
}

// update stores a changed copy of an object, if it is still there. A change of nothing stores nothing.
func update[T port.Object](s *store, o T, edit func(T)) {
	now := get[T](s, nameOf(o))
	if reflect.ValueOf(now).IsNil() || now.GetUID() != o.GetUID() {
		return
	}
	next := clone(now)
	edit(next)
	if !reflect.DeepEqual(now, next) {
		s.put(next)
	}
}

// add stores a new object.
func (s *store) add(o port.Object) {
	s.uids++
	o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012d", s.uids, s.uids))) // the first 8 characters are its own, and the last 12
	o.SetCreationTimestamp(s.w.metaNow())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if o.SetGeneration(0); counted(kindOf(o)) {
		o.SetGeneration(1)
	}
	s.put(o)
	s.orphan(o)
}

// orphan has an object deleted whose owner is not there.
func (s *store) orphan(o port.Object) {
	owners := o.GetOwnerReferences()
	if len(owners) == 0 || slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { _, there := s.byUID[r.UID]; return there }) {
		return
	}
	s.w.after(s.w.options.Times.Collect, func() {
		if r, there := s.byUID[o.GetUID()]; there {
			s.delete(s.tables[r.kind].objects[r.name], "")
		}
	})
}

// delete begins to delete an object on behalf of an owner: it is gone once nothing holds it.
func (s *store) delete(o port.Object, owner string) {
	if o.GetDeletionTimestamp() != nil { // whoever was first answers for it
		return
	}
	grace := int64(0)
	if p, found := s.w.kubelet.pods[o.GetUID()]; found {
		grace = p.grace()
		p.owner = owner
	}
	if len(o.GetFinalizers()) > 0 {
		s.w.claims.deleters[o.GetUID()] = owner
	}
	if grace == 0 && len(o.GetFinalizers()) == 0 {
		s.remove(o, owner)
		return
	}
	next := clone(o)
	next.SetDeletionTimestamp(&metav1.Time{Time: s.w.metaNow().Add(time.Duration(grace) * time.Second)})
	next.SetDeletionGracePeriodSeconds(&grace)
	s.put(next)
}

// remove takes an object out, and has what it owns deleted.
func (s *store) remove(o port.Object, owner string) {
	kind, n := kindOf(o), nameOf(o)
	t := s.tables[kind]
	before := t.objects[n]
	if before == nil || before.GetUID() != o.GetUID() {
		return
	}
	s.remember(t, n, before)
	delete(t.objects, n)
	if at, found := slices.BinarySearchFunc(t.names, n, name.compare); found {
		t.names = slices.Delete(t.names, at, at+1)
	}
	delete(s.byUID, o.GetUID())
	delete(s.w.claims.deleters, o.GetUID())
	s.disown(kind, before)
	s.w.tell(before, nil)
	s.w.removed(before, owner)
	children := slices.SortedFunc(maps.Keys(s.children[o.GetUID()]), func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), a.compare(b.name))
	})
	delete(s.children, o.GetUID())
	for _, child := range children {
		if o := s.tables[child.kind].objects[child.name]; o != nil {
			s.orphan(o)
		}
	}
}

// finalized removes an object that is being deleted once its finalizers are gone.
func (s *store) finalized(o port.Object, owner string) {
	p := s.w.kubelet.pods[o.GetUID()]
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (p == nil || p.over) {
		s.remove(o, owner)
	}
}

// view returns the objects of a kind as they were some time ago, sorted by name.
func (s *store) view(kind string, ago time.Duration) []port.Object {
	t := s.tables[kind]
	if ago <= 0 {
		found := make([]port.Object, len(t.names))
		for i, n := range t.names {
			found[i] = t.objects[n]
		}
		return found
	}
	then := maps.Clone(t.objects)
	until := s.w.Now().Add(-ago)
	for i := len(t.history) - 1; i >= 0 && t.history[i].at.After(until); i-- {
		if c := t.history[i]; c.before == nil {
			delete(then, c.name)
		} else {
			then[c.name] = c.before
		}
	}
	return slices.SortedFunc(maps.Values(then), func(a, b port.Object) int { return nameOf(a).compare(nameOf(b)) })
}
