package clusters

import (
	"maps"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// sight is how long a list may miss what was written: later the list is right.
const sight = time.Minute

// memory is what an operator knows of a cluster from former passes. Nothing in it is needed: after a
// restart the world says all of it again.
type memory struct {
	// written are objects as the API server returned them, until the lists have them too.
	written map[types.UID]written
	// deleted are objects that were deleted, until the lists show it.
	deleted map[types.UID]time.Time
	// variables are those of pods: of the split image they do not change while the pod lives, of the unified
	// one they are read from an annotation.
	variables map[types.UID]variables
	// present are the pods that have the binary of a version.
	present map[types.UID]string
	// pods are the children as they should be, with what was worked out of them.
	pods *foundationdb.Wanted
	// clusterFileWritten is when the connection string was written into a pod whose servers do not report.
	clusterFileWritten map[types.UID]time.Time
	// told is what the other operators know of the groups that something is to be done with; nil: that is not known.
	told map[fdb.Action][]string
	// lockMayBeOurs: the lock was taken, or could have been.
	lockMayBeOurs bool
	// answers is the version whose tools are expected to reach the coordinators: they did last, or the servers were
	// restarted for it.
	answers fdb.Version
	known   known
	pruned  pruned
	fixed   map[string]bool // storage classes whose volumes cannot grow
	removed time.Time       // when the last removal began
	turn    int             // counts the lines of tools that were tried while nobody answered
	// moved is a change of the connection string that may not be stored yet: a conflict must not lose it, since nobody may
	// be left at the former coordinators.
	moved struct{ from, to string }
	// disturbed is the last act that started a recovery, and when it was done.
	disturbed   string
	disturbedAt time.Time
}

// variables are those of a pod, and the annotation that tells them.
type variables struct {
	text   string
	values map[string]string
}

type written struct {
	object  port.Object
	created bool // and not only changed
	at      time.Time
}

// remember returns the memory of a cluster.
func (o *Operator) remember(uid types.UID) *memory {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.memories[uid]
	if m == nil {
		m = &memory{written: map[types.UID]written{}, deleted: map[types.UID]time.Time{}, variables: map[types.UID]variables{}, present: map[types.UID]string{}, clusterFileWritten: map[types.UID]time.Time{}, fixed: map[string]bool{}}
		o.memories[uid] = m
	}
	return m
}

func (o *Operator) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.memories, uid)
}

func (m *memory) wrote(object port.Object, created bool, now time.Time) {
	if before, ok := m.written[object.GetUID()]; ok && before.created {
		m.written[object.GetUID()] = written{object: object, created: true, at: before.at}
		return
	}
	m.written[object.GetUID()] = written{object: object, created: created, at: now}
}

// older reports whether a resource version comes before another one; false where that cannot be said.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}

// connection is the connection string of a cluster whose status has this one.
func (m *memory) connection(stored string) string {
	switch stored {
	case m.moved.from:
		return m.moved.to
	case m.moved.to:
		m.moved.from, m.moved.to = "", ""
	}
	return stored
}

// keep drops what is known of pods that are gone.
func (m *memory) keep(there map[types.UID]bool) {
	maps.DeleteFunc(m.variables, func(uid types.UID, _ variables) bool { return !there[uid] })
	maps.DeleteFunc(m.clusterFileWritten, func(uid types.UID, _ time.Time) bool { return !there[uid] })
	maps.DeleteFunc(m.present, func(uid types.UID, _ string) bool { return !there[uid] })
}

// tidy drops what the lists must have shown by now.
func (m *memory) tidy(now time.Time) {
	for uid, w := range m.written {
		if now.Sub(w.at) > sight {
			delete(m.written, uid)
		}
	}
	for uid, at := range m.deleted {
		if now.Sub(at) > sight {
			delete(m.deleted, uid)
		}
	}
}
