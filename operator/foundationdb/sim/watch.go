package sim

import "github.com/pawl-dev/pawl/operator/foundationdb/port"

// Watch has a function called at each change of an object, after it: before is nil for a new one, now for one that is
// gone. Neither may be changed, and the function must not call the world.
func (w *World) Watch(told func(before, now port.Object)) { w.watchers = append(w.watchers, told) }

// tell tells the watchers of a change.
func (w *World) tell(before, now port.Object) {
	for _, told := range w.watchers {
		told(before, now)
	}
}
