// Package condition makes the conditions of an object's status, and reads a fault back from
// one. It needs the types of Kubernetes and no client, so that decisions that write
// conditions run in a unit test.
//
//	condition.Set(&status.Conditions, generation, now,
//		condition.Ready(out),
//		condition.FromFault(StorageReady, port.StorageFull, "volume %s is full", id))
package condition

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// The conditions that objects of all kinds have.
const (
	TypeReady       = "Ready"       // everything that was requested is there
	TypeProgressing = "Progressing" // what is under way, or what holds it up
)

// New makes a condition without generation and time: Set adds both.
func New(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// FromFault is a condition that is False because of a fault. The reason is the code in
// CamelCase, and the message ends with the remedy.
func FromFault(kind string, why *fault.Kind, format string, args ...any) metav1.Condition {
	return New(kind, metav1.ConditionFalse, why.Reason(), "%s", sentence(why, fmt.Sprintf(format, args...)))
}

// FromCode is FromFault for a code that another program reported. A code that this program
// does not declare has no remedy.
func FromCode(kind, code, message string) metav1.Condition {
	if why, ok := fault.Lookup(code); ok {
		return FromFault(kind, why, "%s", message)
	}
	return New(kind, metav1.ConditionFalse, fault.Camel(fault.Code(code)), "%s", message)
}

// FromError is a condition about a failure, which must not be nil. The reason is the code in
// CamelCase, and the message ends with the remedy.
func FromError(kind string, status metav1.ConditionStatus, err error) metav1.Condition {
	return New(kind, status, fault.Of(err).Reason(), "%s", Message(err))
}

// Message says what happened and then the remedy, for conditions and Events. err must not be nil.
func Message(err error) string { return sentence(fault.Of(err), fault.Message(err)) }

// Unobserved is the condition of something that could not be read: Unknown, with the reason
// NotAsked.
func Unobserved(kind string, err error) metav1.Condition {
	return New(kind, metav1.ConditionUnknown, "NotAsked", "%s", fault.Message(err))
}

// Ready is the condition Ready of an object that is ready when its pass is done: True; False
// while it waits and after a failure; Unknown after trouble of the control plane.
func Ready(out outcome.Outcome) metav1.Condition {
	return fromOutcome(TypeReady, metav1.ConditionTrue, metav1.ConditionFalse, out)
}

// Progressing is the condition Progressing after a pass: True while it waits; False when it
// is done or a failure holds it up; Unknown after trouble of the control plane.
func Progressing(out outcome.Outcome) metav1.Condition {
	return fromOutcome(TypeProgressing, metav1.ConditionFalse, metav1.ConditionTrue, out)
}

func fromOutcome(kind string, done, waiting metav1.ConditionStatus, out outcome.Outcome) metav1.Condition {
	switch {
	case out.IsDone():
		return New(kind, done, "Done", "all that was asked for is done")
	case !out.IsFail():
		return New(kind, waiting, out.Reason(), "%s", out.Message())
	case fault.Of(out.Err()).Uncharged: // trouble of the control plane proves nothing about the object
		return FromError(kind, metav1.ConditionUnknown, out.Err())
	}
	return FromError(kind, metav1.ConditionFalse, out.Err())
}

// Fault reads a fault back from a condition that FromFault or FromError made; nil if its
// reason is no fault of this program.
func Fault(c metav1.Condition) *control.FaultRecord {
	why, ok := fault.Lookup(c.Reason)
	if !ok {
		return nil
	}
	message := strings.TrimSuffix(strings.TrimSuffix(c.Message, why.Remedy), " ")
	return &control.FaultRecord{
		Code: why.Code, Class: why.Class, Title: why.Title, Remedy: why.Remedy,
		Message:            strings.TrimPrefix(strings.TrimSuffix(message, "."), string(why.Code)+": "),
		ObservedGeneration: c.ObservedGeneration, At: c.LastTransitionTime.UTC(),
	}
}

// sentence says what happened, then the remedy.
func sentence(why *fault.Kind, message string) string {
	if message == "" {
		message = why.Title
	}
	if last := message[len(message)-1]; last != '.' && last != '!' && last != '?' {
		message += "."
	}
	return message + " " + why.Remedy
}
