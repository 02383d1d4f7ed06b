// Package define has the definitions that steps, flows and resources share: configuration keys,
// and the two errors with which a step interrupts its flow or makes it wait.
package define

import (
	"errors"
	"fmt"
)

// WFConfKey is the key of an item in a manager's configuration.
type WFConfKey string

// The keys. The first six have defaults in [DefaultWfConf]. The others are Go durations or
// numbers; an empty one has the default given here.
const (
	WorkFlowResourceName      WFConfKey = "WorkFlowResourceName"      // context key of the resource's name
	WorkFlowResourceNameSpace WFConfKey = "WorkFlowResourceNameSpace" // context key of the resource's namespace
	WFInterruptReason         WFConfKey = "WFInterruptReason"         // annotation: why a flow was interrupted
	WFInterruptMessage        WFConfKey = "WFInterruptMessage"        // annotation: the message of the interruption
	WFInterruptPrevious       WFConfKey = "WFInterruptPrevious"       // annotation: the state before the interruption
	WFInterruptToRecover      WFConfKey = "WFInterruptToRecover"      // annotation: true lets the flow continue

	WFStepTimeout   WFConfKey = "WFStepTimeout"   // limit for one attempt; default 24h
	WFRetryAttempts WFConfKey = "WFRetryAttempts" // failures of one step in a row before its flow is interrupted; default 10
	WFRetryFirst    WFConfKey = "WFRetryFirst"    // delay before the second attempt, doubled for each further one; default 1s
	WFRetryLongest  WFConfKey = "WFRetryLongest"  // limit for this delay; default 1m
	WFCancelEvery   WFConfKey = "WFCancelEvery"   // how often IsCancelled of a resource is called; default 5s
)

// DefaultWfConf is the initial configuration of a manager. Each manager has its own copy.
var DefaultWfConf = map[WFConfKey]string{
	WorkFlowResourceName:      "_resourceName",
	WorkFlowResourceNameSpace: "_resourceNameSpace",
	WFInterruptReason:         "interrupt.reason",
	WFInterruptMessage:        "interrupt.message",
	WFInterruptPrevious:       "interrupt.previous.status",
	WFInterruptToRecover:      "interrupt.recover",
}

// InterruptError interrupts a flow until somebody resumes it.
type InterruptError struct {
	Reason   string // a code; the remedy of a declared fault with this code is reported with it
	ErrorMsg string
}

// Error returns reason and message.
func (e *InterruptError) Error() string {
	return fmt.Sprintf("reason: %s, message: %s", e.Reason, e.ErrorMsg)
}

// NewInterruptError returns an InterruptError.
func NewInterruptError(reason, msg string) error {
	return &InterruptError{Reason: reason, ErrorMsg: msg}
}

// IsInterruptError finds an InterruptError in the chain of err.
func IsInterruptError(err error) (bool, *InterruptError) {
	var found *InterruptError
	is := errors.As(err, &found)
	return is, found
}

// WaitingError makes a flow wait at its step. It does not count as a failure.
type WaitingError struct{}

// Error implements error.
func (e *WaitingError) Error() string { return "the step waits for something to be ready" }

// NewWaitingError returns a WaitingError.
func NewWaitingError() error { return &WaitingError{} }

// IsWaitingError finds a WaitingError in the chain of err.
func IsWaitingError(err error) bool {
	var found *WaitingError
	return errors.As(err, &found)
}
