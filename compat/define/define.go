// Package define holds the words that steps, flows and resources share:
// configuration keys, and the two errors with which a step stops its flow or
// lets it wait.
package define

import (
	"errors"
	"fmt"
)

// WFConfKey names an item of a manager's configuration.
type WFConfKey string

// The keys. The first six have defaults in [DefaultWfConf]; the others are read
// as Go durations or numbers, and an empty one has the default that stands here.
const (
	WorkFlowResourceName      WFConfKey = "WorkFlowResourceName"      // key of the resource's name in the context of steps
	WorkFlowResourceNameSpace WFConfKey = "WorkFlowResourceNameSpace" // and of its namespace
	WFInterruptReason         WFConfKey = "WFInterruptReason"         // annotation: why a flow was interrupted
	WFInterruptMessage        WFConfKey = "WFInterruptMessage"        // annotation: the message of it
	WFInterruptPrevious       WFConfKey = "WFInterruptPrevious"       // annotation: the state to go back to
	WFInterruptToRecover      WFConfKey = "WFInterruptToRecover"      // annotation: true lets the flow go on

	WFStepTimeout   WFConfKey = "WFStepTimeout"   // of one attempt; default 24h
	WFRetryAttempts WFConfKey = "WFRetryAttempts" // failures in a row of one step until its flow is interrupted; default 10
	WFRetryFirst    WFConfKey = "WFRetryFirst"    // delay before the second attempt, doubled each time; default 1s
	WFRetryLongest  WFConfKey = "WFRetryLongest"  // longest such delay; default 1m
	WFCancelEvery   WFConfKey = "WFCancelEvery"   // how often a resource is asked IsCancelled; default 5s
)

// DefaultWfConf is what a manager begins with. Each manager has a copy.
var DefaultWfConf = map[WFConfKey]string{
	WorkFlowResourceName:      "_resourceName",
	WorkFlowResourceNameSpace: "_resourceNameSpace",
	WFInterruptReason:         "interrupt.reason",
	WFInterruptMessage:        "interrupt.message",
	WFInterruptPrevious:       "interrupt.previous.status",
	WFInterruptToRecover:      "interrupt.recover",
}

// InterruptError stops a flow until someone lets it go on.
type InterruptError struct {
	Reason   string // a code; that of a declared fault brings its remedy along
	ErrorMsg string
}

// Error tells reason and message.
func (e *InterruptError) Error() string {
	return fmt.Sprintf("reason: %s, message: %s", e.Reason, e.ErrorMsg)
}

// NewInterruptError makes one.
func NewInterruptError(reason, msg string) error {
	return &InterruptError{Reason: reason, ErrorMsg: msg}
}

// IsInterruptError finds an InterruptError in what err wraps.
func IsInterruptError(err error) (bool, *InterruptError) {
	var found *InterruptError
	is := errors.As(err, &found)
	return is, found
}

// WaitingError lets a flow wait at its step, without a failure.
type WaitingError struct{}

// Error says that it is no failure.
func (e *WaitingError) Error() string { return "the step waits for something to be ready" }

// NewWaitingError makes one.
func NewWaitingError() error { return &WaitingError{} }

// IsWaitingError finds a WaitingError in what err wraps.
func IsWaitingError(err error) bool {
	var found *WaitingError
	return errors.As(err, &found)
}
