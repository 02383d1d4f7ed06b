package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Run is one execution of a flow. Create a Run with a flow and an input to start a
// run. Deleting a Run that has not ended stops it for good.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=prun,categories={pawl}
// +kubebuilder:selectablefield:JSONPath=`.spec.flow`
// +kubebuilder:selectablefield:JSONPath=`.spec.subject`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Flow",type=string,JSONPath=`.spec.flow`
// +kubebuilder:printcolumn:name="Subject",type=string,JSONPath=`.spec.subject`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.fault.code`
// +kubebuilder:printcolumn:name="Queue",type=integer,JSONPath=`.status.queue`,priority=1
// +kubebuilder:printcolumn:name="Worker",type=string,JSONPath=`.status.owner`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.fault.message`,priority=1
// +kubebuilder:printcolumn:name="Remedy",type=string,JSONPath=`.status.fault.remedy`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Run struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RunSpec `json:"spec"`
	// +optional
	Status RunStatus `json:"status,omitempty"`
}

// RunList is a list of runs.
//
// +kubebuilder:object:root=true
type RunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Run `json:"items"`
}

// RunSpec is the request for a run, and the signals that were sent to it since.
// All fields but mail, signals and input are written once.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="self.flow == oldSelf.flow",message="flow cannot be changed: start another run",fieldPath=".flow"
// +kubebuilder:validation:XValidation:rule="has(self.subject) == has(oldSelf.subject) && (!has(self.subject) || self.subject == oldSelf.subject)",message="subject cannot be changed: start another run",fieldPath=".subject"
// +kubebuilder:validation:XValidation:rule="has(self.inputText) == has(oldSelf.inputText) && (!has(self.inputText) || self.inputText == oldSelf.inputText)",message="inputText cannot be changed: start another run",fieldPath=".inputText"
// +kubebuilder:validation:XValidation:rule="has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels)",message="labels cannot be changed: start another run",fieldPath=".labels"
// +kubebuilder:validation:XValidation:rule="has(self.requestID) == has(oldSelf.requestID) && (!has(self.requestID) || self.requestID == oldSelf.requestID)",message="requestID cannot be changed",fieldPath=".requestID"
// +kubebuilder:validation:XValidation:rule="has(self.actor) == has(oldSelf.actor) && (!has(self.actor) || self.actor == oldSelf.actor)",message="actor cannot be changed",fieldPath=".actor"
// +kubebuilder:validation:XValidation:rule="has(self.reason) == has(oldSelf.reason) && (!has(self.reason) || self.reason == oldSelf.reason)",message="reason cannot be changed",fieldPath=".reason"
// +kubebuilder:validation:XValidation:rule="has(self.parent) == has(oldSelf.parent) && (!has(self.parent) || self.parent == oldSelf.parent)",message="parent cannot be changed",fieldPath=".parent"
// +kubebuilder:validation:XValidation:rule="has(self.parentRef) == has(oldSelf.parentRef) && (!has(self.parentRef) || self.parentRef == oldSelf.parentRef)",message="parentRef cannot be changed",fieldPath=".parentRef"
// +kubebuilder:validation:XValidation:rule="has(self.inline) == has(oldSelf.inline) && (!has(self.inline) || self.inline == oldSelf.inline)",message="inline cannot be changed",fieldPath=".inline"
// +kubebuilder:validation:XValidation:rule="has(self.depth) == has(oldSelf.depth) && (!has(self.depth) || self.depth == oldSelf.depth)",message="depth cannot be changed",fieldPath=".depth"
// +kubebuilder:validation:XValidation:rule="has(self.createdAt) == has(oldSelf.createdAt) && (!has(self.createdAt) || self.createdAt == oldSelf.createdAt)",message="createdAt cannot be changed",fieldPath=".createdAt"
// +kubebuilder:validation:XValidation:rule="has(self.birth) == has(oldSelf.birth)",message="birth cannot be changed",fieldPath=".birth"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.mail) || (has(self.mail) && self.mail >= oldSelf.mail)",message="mail only grows",fieldPath=".mail"
type RunSpec struct {
	// Flow is the name of a loaded flow.
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`
	Flow string `json:"flow"`
	// Subject is what the run works on: kind/namespace/name[/uid]. Empty: the run itself.
	// +kubebuilder:validation:MaxLength=1024
	Subject string `json:"subject,omitempty"`
	// Input of the flow, as a person writes it. It is read when the run starts. If the
	// start was refused, it may be corrected.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Input json.RawMessage `json:"input,omitempty"`
	// InputText is the input as JSON text, stored unchanged. Programs use it instead of input.
	// +kubebuilder:validation:MaxLength=262144
	InputText string `json:"inputText,omitempty"`
	// Labels of the run for limits (for example a tenant).
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// RequestID identifies the request: a repeated request with this id starts no second run.
	// +kubebuilder:validation:MaxLength=1024
	RequestID string `json:"requestID,omitempty"`
	// Actor has requested the run; Reason says why.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Parent is the id of the run that started this one, ParentRef its step and round.
	// +kubebuilder:validation:MaxLength=253
	Parent    string `json:"parent,omitempty"`
	ParentRef string `json:"parentRef,omitempty"`
	// Inline marks a child run that works within the slot of its parent: it takes no slot of its own.
	Inline bool `json:"inline,omitempty"`
	Depth  int  `json:"depth,omitempty"`
	// CreatedAt is when the request was accepted, with nanoseconds.
	// +kubebuilder:validation:MaxLength=64
	CreatedAt string `json:"createdAt,omitempty"`
	// Birth is the initial status of the run. It is used until status is written for the first time.
	Birth *RunStatus `json:"birth,omitempty"`
	// Mail counts the signals that were accepted.
	Mail int64 `json:"mail,omitempty"`
	// Signals by their number, with leading zeros. A signal that status.consumed names has been read.
	// +kubebuilder:validation:MaxProperties=1100
	Signals map[string]RunSignal `json:"signals,omitempty"`
}

// RunSignal is a message to a run.
type RunSignal struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Payload is JSON text.
	Payload string `json:"payload,omitempty"`
	Actor   string `json:"actor,omitempty"`
	At      string `json:"at,omitempty"`
}

// RunStatus is the checkpoint. Only the worker that owns the run writes it.
// Times are RFC 3339 in UTC with nanoseconds.
//
// +structType=atomic
type RunStatus struct {
	// ID of the run, where it is not the object's name.
	ID string `json:"id,omitempty"`
	// Phase: Queued, Running, Waiting, Paused, Cancelling, Cancelled, Succeeded.
	Phase string `json:"phase,omitempty"`
	// Step is the current step.
	Step string `json:"step,omitempty"`
	// Message says why a request for a run was refused.
	Message string `json:"message,omitempty"`
	// Version and Hash of the flow the run is pinned to.
	Version int    `json:"version,omitempty"`
	Hash    string `json:"hash,omitempty"`
	// Revision rises with each save, Epoch with each claim. Revision 0: not accepted yet.
	Revision int64 `json:"revision,omitempty"`
	Epoch    int64 `json:"epoch,omitempty"`
	// Owner is the worker that executes the run.
	Owner string `json:"owner,omitempty"`
	// Queue is the number in the queue of the subject, while Queued.
	Queue int64 `json:"queue,omitempty"`
	// NextAt is when the run is due; none: it waits for a signal or another event.
	NextAt    string `json:"nextAt,omitempty"`
	StartedAt string `json:"startedAt,omitempty"`
	EndedAt   string `json:"endedAt,omitempty"`
	// Seq is the number of the newest event.
	Seq int64 `json:"seq,omitempty"`
	// Ord is the order of the newest step.
	Ord int64 `json:"ord,omitempty"`
	// Seen is how many signals the last owner of the run had seen.
	Seen  int64     `json:"seen,omitempty"`
	Fault *RunFault `json:"fault,omitempty"`
	// State is the part of the checkpoint that only the engine reads.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	State json.RawMessage `json:"state,omitempty"`
	// LastRequest is the answer to the newest annotation.
	LastRequest *RunRequest `json:"lastRequest,omitempty"`
	// InputText, RequestID and CreatedAt of a run that was started as an object.
	InputText string `json:"inputText,omitempty"`
	RequestID string `json:"requestID,omitempty"`
	CreatedAt string `json:"createdAt,omitempty"`
	// Steps by instance name.
	Steps map[string]RunStep `json:"steps,omitempty"`
	// Events are the newest 50 to 150 events of the history, by number with leading zeros.
	// RunHistory objects hold the older ones.
	Events map[string]RunEvent `json:"events,omitempty"`
	// Consumed signals: number to id, the newest 1,000.
	Consumed map[string]string `json:"consumed,omitempty"`
	// Outbox has the signals to other runs that are not delivered yet.
	Outbox map[string]RunMail `json:"outbox,omitempty"`
}

// RunFault is the record of a failure.
type RunFault struct {
	Code string `json:"code"`
	// Title and Remedy of the code; the fault of a step has neither.
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Details is JSON text.
	Details   string `json:"details,omitempty"`
	Step      string `json:"step,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	At        string `json:"at,omitempty"`
	Exhausted bool   `json:"exhausted,omitempty"`
	Healer    string `json:"healer,omitempty"`
}

// RunStep is the record of one step instance.
type RunStep struct {
	Phase string `json:"phase,omitempty"`
	Ord   int64  `json:"ord,omitempty"`
	Round int    `json:"round,omitempty"`
	// Attempt is how many attempts were started in this round. None: one.
	Attempt        *int   `json:"attempt,omitempty"`
	Failures       int    `json:"failures,omitempty"`
	Uncharged      int    `json:"uncharged,omitempty"`
	UnchargedSince string `json:"unchargedSince,omitempty"`
	Lost           int    `json:"lost,omitempty"`
	Isolated       bool   `json:"isolated,omitempty"`
	Undoing        bool   `json:"undoing,omitempty"`
	StartedAt      string `json:"startedAt,omitempty"`
	// AttemptAt is when the newest attempt was started, if that is not startedAt.
	AttemptAt string `json:"attemptAt,omitempty"`
	EndedAt   string `json:"endedAt,omitempty"`
	NextAt    string `json:"nextAt,omitempty"`
	// Output is JSON text.
	Output   string       `json:"output,omitempty"`
	Fault    *RunFault    `json:"fault,omitempty"`
	Wait     *RunWait     `json:"wait,omitempty"`
	Progress *RunProgress `json:"progress,omitempty"`
	Items    []RunItem    `json:"items,omitempty"`
	Note     string       `json:"note,omitempty"`
	Actor    string       `json:"actor,omitempty"`
}

// RunWait is the condition that a waiting step waits for.
type RunWait struct {
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	Since    string `json:"since,omitempty"`
	Deadline string `json:"deadline,omitempty"`
	// Every is the poll interval, as a Go duration.
	Every  string `json:"every,omitempty"`
	Signal string `json:"signal,omitempty"`
	Child  string `json:"child,omitempty"`
	Until  string `json:"until,omitempty"`
}

// RunProgress is the progress of a step: done of total.
type RunProgress struct {
	Done  int64  `json:"done,omitempty"`
	Total int64  `json:"total,omitempty"`
	Text  string `json:"text,omitempty"`
	At    string `json:"at,omitempty"`
	High  int64  `json:"high,omitempty"`
}

// RunItem is one stored item of a loop; its value is JSON text.
type RunItem struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// RunEvent is one event of the history.
type RunEvent struct {
	At   string `json:"at,omitempty"`
	Kind string `json:"kind"`
	Step string `json:"step,omitempty"`
	// Attempt of the step. None: the first, or the event has no step.
	Attempt *int   `json:"attempt,omitempty"`
	Actor   string `json:"actor,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Code    string `json:"code,omitempty"`
	// Data is JSON text.
	Data string `json:"data,omitempty"`
	// After is the version of the object that the write of this event replaced.
	After string `json:"after,omitempty"`
}

// RunMail is a signal to another run.
type RunMail struct {
	To     string    `json:"to"`
	Signal RunSignal `json:"signal"`
}

// RunRequest is the answer to an annotation.
type RunRequest struct {
	ID   string `json:"id"`
	Verb string `json:"verb"`
	// State is Accepted or Refused.
	State   string `json:"state"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	At      string `json:"at,omitempty"`
}

// RunHistory has up to a hundred older events of a Run. It is written once.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=runhistories,shortName=prunh,categories={pawl}
// +kubebuilder:validation:XValidation:rule="self.run == oldSelf.run && self.first == oldSelf.first && self.last == oldSelf.last && self.events == oldSelf.events",message="history is never changed"
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.run`
// +kubebuilder:printcolumn:name="First",type=integer,JSONPath=`.first`
// +kubebuilder:printcolumn:name="Last",type=integer,JSONPath=`.last`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RunHistory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Run is the id of the run.
	// +kubebuilder:validation:MaxLength=253
	Run   string `json:"run"`
	First int64  `json:"first"`
	Last  int64  `json:"last"`
	// Events as JSON text, oldest first. Programs read them.
	// +kubebuilder:validation:MaxLength=524288
	Events string `json:"events"`
}

// RunHistoryList is a list of run histories.
//
// +kubebuilder:object:root=true
type RunHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RunHistory `json:"items"`
}

// Hub marks this version as the one that other versions are converted to and from.
func (*Run) Hub() {}

// Hub marks this version as the one that other versions are converted to and from.
func (*RunHistory) Hub() {}
