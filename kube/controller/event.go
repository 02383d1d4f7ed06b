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

// maxNote is the longest note that the API server takes of an Event, in bytes.
const maxNote = 1024

// Events tells people of an object what `kubectl describe` shows. It never
// fails, and never waits for the API server.
type Events struct{ recorder events.EventRecorder }

// Say writes an Event of type Normal. The reason is CamelCase.
func (e Events) Say(about runtime.Object, reason, format string, args ...any) {
	e.write(about, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...))
}

// Warn writes an Event of type Warning.
func (e Events) Warn(about runtime.Object, reason, format string, args ...any) {
	e.write(about, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...))
}

// Fault writes a failure as a Warning: its code in CamelCase, what happened, and the remedy.
func (e Events) Fault(about runtime.Object, err error) {
	if err != nil {
		err = failure(err)
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

// action must differ where the note does: client-go counts Events of one object,
// reason and action as one and shows the first note of them only.
func action(note string) string {
	h := fnv.New32a()
	h.Write([]byte(note))
	return fmt.Sprintf("Reconcile-%08x", h.Sum32())
}
