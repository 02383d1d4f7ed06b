package controller

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
)

// maxNote is the longest note of an Event that the API server accepts, in bytes.
const maxNote = 1024

// Events writes Events about objects, which `kubectl describe` shows. It returns no errors
// and does not wait for the API server.
type Events struct{ recorder events.EventRecorder }

// Normal writes an Event of type Normal. The reason is CamelCase.
func (e Events) Normal(about runtime.Object, reason, format string, args ...any) {
	e.write(about, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...))
}

// Warn writes an Event of type Warning.
func (e Events) Warn(about runtime.Object, reason, format string, args ...any) {
	e.write(about, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...))
}

// Fault writes an error as a Warning: its code in CamelCase, its message and the remedy.
func (e Events) Fault(about runtime.Object, err error) {
	if err != nil {
		err = faultOf(err)
		e.write(about, corev1.EventTypeWarning, fault.Of(err).Reason(), condition.Message(err))
	}
}

func (e Events) write(about runtime.Object, kind, why, note string) {
	if e.recorder == nil {
		return
	}
	why, note = condition.Reason(why), condition.Shorten(note, maxNote)
	why = why[:min(len(why), 128)]
	e.recorder.Eventf(about, nil, kind, why, action(note), "%s", note)
}

// action returns a different action for each note: client-go merges Events with the same
// object, reason and action, and keeps only the first note.
func action(note string) string {
	h := fnv.New32a()
	h.Write([]byte(note))
	return fmt.Sprintf("Reconcile-%08x", h.Sum32())
}
