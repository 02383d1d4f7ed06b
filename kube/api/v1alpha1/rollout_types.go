package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout changes a running workload in batches: to another revision of its pods, or to another
// size. After each batch it goes on only if the pods, the gates, the budgets and the plan allow it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.rolloutPlan.targetSize,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=prol,categories={pawl}
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.rollingState`
// +kubebuilder:printcolumn:name="Batch",type=string,JSONPath=`.status.summary.batch`
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.summary.updated`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.lastTargetRevision`,priority=1
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.waiting.since`,priority=1
// +kubebuilder:printcolumn:name="Remedy",type=string,JSONPath=`.status.summary.remedy`,priority=1
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 63",optionalOldSelf=true,message="the name of a Rollout has at most 63 characters: a label of its workload holds it"
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutSpec `json:"spec"`
	// Status of a Rollout that the operator has not seen yet is of no generation, so that nobody takes it
	// for done.
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutList is a list of rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}

// Hub marks this version as the one that other versions are converted to and from.
func (*Rollout) Hub() {}

// RolloutSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) != has(self.application)",message="set exactly one of targetRef and application"
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) == has(oldSelf.targetRef)",message="targetRef cannot be changed: make another Rollout",fieldPath=".targetRef"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceRef) || has(self.targetRef) && self.targetRef.kind == 'Deployment'",message="only a rollout of Deployments has a sourceRef",fieldPath=".sourceRef"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceRef) || self.sourceRef.kind == 'Deployment'",message="sourceRef is a Deployment",fieldPath=".sourceRef"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceRef) || !has(self.targetRef) || self.sourceRef.name != self.targetRef.name",message="sourceRef and targetRef name the same Deployment",fieldPath=".sourceRef"
// +kubebuilder:validation:XValidation:rule="has(self.sourceRef) == has(oldSelf.sourceRef) && (!has(self.sourceRef) || self.sourceRef == oldSelf.sourceRef)",message="sourceRef cannot be changed: make another Rollout",fieldPath=".sourceRef"
type RolloutSpec struct {
	// TargetRef is the workload to change, in the namespace of the Rollout: this or application.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot be changed: make another Rollout"
	// +optional
	TargetRef WorkloadRef `json:"targetRef,omitzero"`
	// SourceRef is the old Deployment in a rollout of two Deployments.
	SourceRef *WorkloadRef `json:"sourceRef,omitempty"`
	// Application names two revisions of an Application: this or targetRef.
	Application *RolloutApplication `json:"application,omitempty"`
	// RolloutPlan is how the workload is changed.
	RolloutPlan RolloutPlan `json:"rolloutPlan"`
	// Hold says when a new template is held. Always: between rollouts too, so that nothing moves
	// before the plan allows it. DuringRollout: only while a rollout is under way. Default: Always
	// with targetRef, DuringRollout with application.
	// +kubebuilder:validation:Enum=Always;DuringRollout
	Hold string `json:"hold,omitempty"`
	// DeletionPolicy is what a delete in the middle does. Keep: no pod moves. Rollback: the pods go
	// back first. Complete: the remaining batches run first. Default: Keep.
	// +kubebuilder:validation:Enum=Keep;Rollback;Complete
	DeletionPolicy string `json:"deletionPolicy,omitempty"`
	// HistoryLimit is the number of records that are kept. Default: 1000.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// OperatorName is the name of the operator that serves this Rollout. An operator without a name
	// serves all; an operator with a name ignores Rollouts that name none.
	// +kubebuilder:validation:MaxLength=63
	OperatorName string `json:"operatorName,omitempty"`
}

// WorkloadRef names a workload.
type WorkloadRef struct {
	// APIVersion is apps/v1, or one of apps.kruise.io.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind is Deployment, StatefulSet or CloneSet. A StatefulSet of apps.kruise.io is the Advanced
	// StatefulSet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RolloutApplication is the pair of revisions of an Application that a rollout moves between.
//
// +kubebuilder:validation:XValidation:rule="!has(self.sourceRevision) || self.sourceRevision != self.targetRevision",message="the source must be another revision than the target",fieldPath=".sourceRevision"
type RolloutApplication struct {
	// Name is that of the Application.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the Application cannot be changed: make another Rollout"
	Name string `json:"name"`
	// TargetRevision is the name of the ApplicationRevision to reach. Another one, in the middle of a
	// rollout, begins anew from what is there; the source goes back.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TargetRevision string `json:"targetRevision"`
	// SourceRevision is the name of the ApplicationRevision to leave. Absent: a scale.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SourceRevision string `json:"sourceRevision,omitempty"`
	// Component is the component to change. Default: the only one that both revisions have.
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component,omitempty"`
}

// RolloutStatus is where the rollout stands. It is what the operator remembers.
type RolloutStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// RollingState is where the rollout stands as a whole.
	RollingState string `json:"rollingState,omitempty"`
	// BatchRollingState is where the current batch stands.
	BatchRollingState string `json:"batchRollingState,omitempty"`
	// CurrentBatch is the index of the current batch, from 0.
	// +optional
	CurrentBatch int32 `json:"currentBatch"`
	// Mode is Scale or Rollout.
	Mode string `json:"mode,omitempty"`
	// Number counts the rollouts of this object.
	Number int32 `json:"number,omitempty"`
	// RolloutOriginalSize and RolloutTargetSize are numbers of pods. Absent: unknown.
	RolloutOriginalSize *int32 `json:"rolloutOriginalSize,omitempty"`
	RolloutTargetSize   *int32 `json:"rolloutTargetSize,omitempty"`
	// Replicas is the size that the workload is asked for, and Selector selects its pods: for
	// autoscalers that target the Rollout.
	Replicas *int32 `json:"replicas,omitempty"`
	Selector string `json:"selector,omitempty"`
	// Workload is the workload that is changed, and Sources are the Deployments that are left: of a
	// pair of revisions.
	Workload *WorkloadRef `json:"workload,omitempty"`
	Sources  []string     `json:"sources,omitempty"`
	// LastTargetRevision and LastSourceRevision are the recorded pair of revisions.
	LastTargetRevision string `json:"lastTargetRevision,omitempty"`
	LastSourceRevision string `json:"lastSourceRevision,omitempty"`
	// Named is true if the pair are revisions of an Application.
	Named bool `json:"named,omitempty"`
	// TargetRevisionHash is the revision that updated pods carry, and SourceRevisionHash the one that
	// they carried before.
	TargetRevisionHash string `json:"targetRevisionHash,omitempty"`
	SourceRevisionHash string `json:"sourceRevisionHash,omitempty"`
	// TargetUID is the UID of the claimed workload.
	TargetUID string `json:"targetUID,omitempty"`
	// UpdatedBefore is the number of pods that had the target revision before anything was released.
	UpdatedBefore int32 `json:"updatedBefore,omitempty"`
	// UpgradedReplicas and UpgradedReadyReplicas are the pods that have the target revision, and those
	// of them that are ready.
	// +optional
	UpgradedReplicas int32 `json:"upgradedReplicas"`
	// +optional
	UpgradedReadyReplicas int32 `json:"upgradedReadyReplicas"`
	// RolloutStrategy and Batches are the plan as it was resolved, the batches by their index.
	RolloutStrategy string `json:"rolloutStrategy,omitempty"`
	// +mapType=atomic
	Batches map[string]RolloutBatchStatus `json:"batches,omitempty"`
	// PlanHash is that of the plan that was taken over last.
	PlanHash string `json:"planHash,omitempty"`
	// Approved batches.
	// +structType=atomic
	Approved *RolloutApproval `json:"approved,omitempty"`
	// Waiting is what the rollout waits for.
	// +structType=atomic
	Waiting *RolloutWaiting `json:"waiting,omitempty"`
	// Pause is a stop that lasts until somebody acts.
	// +structType=atomic
	Pause *RolloutPause `json:"pause,omitempty"`
	// Resumed is true after a resume while the plan still says paused.
	Resumed bool `json:"resumed,omitempty"`
	// +structType=atomic
	Rollback *RolloutRollbackStatus `json:"rollback,omitempty"`
	// Replans is how often the size was changed by something else.
	Replans int32 `json:"replans,omitempty"`
	// +structType=atomic
	Original *RolloutOriginal `json:"original,omitempty"`
	// +structType=atomic
	ScaleBase *RolloutScaleBase `json:"scaleBase,omitempty"`
	// +structType=atomic
	Sized *RolloutSized `json:"sized,omitempty"`
	// Answers of hooks and metrics of this batch, by their key.
	// +mapType=atomic
	Answers map[string]RolloutAnswer `json:"answers,omitempty"`
	// Delivered is, for each event hook, the newest record that it has got, or that was given up.
	// +mapType=atomic
	Delivered map[string]int32 `json:"delivered,omitempty"`
	// DeletedPod is the UID of the pod that was deleted last because an ordered set waited for it.
	DeletedPod string `json:"deletedPod,omitempty"`
	// VerifiedSince is since when the batch has been verified.
	VerifiedSince *RolloutTime `json:"verifiedSince,omitempty"`
	// Started is when the spec was verified, LastRelease when pods were released last.
	Started     *RolloutTime `json:"started,omitempty"`
	LastRelease *RolloutTime `json:"lastRelease,omitempty"`
	// Excused is time that no deadline counts.
	Excused RolloutDuration `json:"excused,omitempty"`
	// Outage is how long the API server did not answer, as far as it is excused.
	Outage RolloutDuration `json:"outage,omitempty"`
	// NoDeadline is true after a resume that went past the deadline of all batches.
	NoDeadline bool `json:"noDeadline,omitempty"`
	// Finalized is true when the workload needs no more writes at the end.
	Finalized bool `json:"finalized,omitempty"`
	// PlanRefused says why an edit of the plan is not taken over.
	PlanRefused string `json:"planRefused,omitempty"`
	// Failure is why it failed or is failing.
	// +structType=atomic
	Failure *RolloutFailure `json:"failure,omitempty"`
	// LastRequest is the answer to the newest request.
	// +structType=atomic
	LastRequest *RolloutRequestAnswer `json:"lastRequest,omitempty"`
	// Sequence is the number of the newest record.
	Sequence int32 `json:"sequence,omitempty"`
	// Summary is for people and printer columns.
	// +structType=atomic
	Summary *RolloutSummary `json:"summary,omitempty"`
	// Preview is what the rollout would do, by the index of the batch, while the annotation
	// pawl.dev/dry-run is "true".
	// +mapType=atomic
	Preview map[string]RolloutBatchPreview `json:"preview,omitempty"`
	// History are the newest records, by their number. Older ones are in the ConfigMaps
	// <rollout>-history-<number of their first record>. Each has the fields sequence, time, from, to,
	// event, by, request, why, batch, generation, plan, values, pods and morePods.
	// ---
	// With a schema the API server takes twice as long for each write of a status with 40 records.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +mapType=atomic
	History map[string]RolloutRecord `json:"history,omitempty"`
	// Conditions are Ready, Progressing, Paused, Stalled, HoldUnguarded, RolledBack and Succeeded.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutSummary is the status in a few words.
type RolloutSummary struct {
	Batch   string `json:"batch,omitempty"`   // "2/5"
	Updated string `json:"updated,omitempty"` // "4/10"
	// Remedy is what to do about a stop.
	Remedy string `json:"remedy,omitempty"`
}

// RolloutBatchPreview is what one batch would do.
type RolloutBatchPreview struct {
	// Index from 0.
	Index int32 `json:"index"`
	// Size is the number of pods of this batch.
	Size int32 `json:"size"`
	// Target is how many pods have moved after it; of a scale, the size.
	Target int32               `json:"target"`
	Pods   []RolloutPodPreview `json:"pods,omitempty"`
	// Partition at its end.
	Partition *int32 `json:"partition,omitempty"`
	// Replicas of each workload at its end.
	Replicas map[string]int32 `json:"replicas,omitempty"`
	// Releases is the number of writes that release pods.
	Releases int32 `json:"releases"`
	// Unavailable is the most pods that are away at once if all goes well.
	Unavailable int32 `json:"unavailable"`
	// WorstCase is the most if no released pod comes back.
	WorstCase int32 `json:"worstCase"`
	// QuorumLeft is the least number of healthy members.
	QuorumLeft *int32 `json:"quorumLeft,omitempty"`
	// Gates that are evaluated.
	Gates []string `json:"gates,omitempty"`
	// Metrics that are measured.
	Metrics []string `json:"metrics,omitempty"`
	// Webhooks that are called.
	Webhooks []string `json:"webhooks,omitempty"`
	// Handovers are the pods that give up their role first.
	Handovers []string `json:"handovers,omitempty"`
	// Stops are where it waits for a person.
	Stops []string `json:"stops,omitempty"`
	// Warnings of the batch.
	Warnings []string `json:"warnings,omitempty"`
}

// RolloutPodPreview is one pod that would move.
type RolloutPodPreview struct {
	// Name of the pod.
	Name string `json:"name"`
	// Ordinal; -1: it has none.
	Ordinal int32 `json:"ordinal"`
	// Role now.
	Role string `json:"role,omitempty"`
	// Zone of the pod.
	Zone string `json:"zone,omitempty"`
}

// RolloutBatchStatus is one batch as it was resolved.
type RolloutBatchStatus struct {
	// Replicas, PodList, Pods, MaxUnavailable and InstanceInterval are those of the plan when the batch was resolved.
	Replicas         *intstr.IntOrString `json:"replicas,omitempty"`
	PodList          []string            `json:"podList,omitempty"`
	Pods             *RolloutPods        `json:"pods,omitempty"`
	MaxUnavailable   *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	InstanceInterval RolloutDuration     `json:"instanceInterval,omitempty"`
	Size             int32               `json:"size"`   // pods of this batch
	Target           int32               `json:"target"` // pods of this batch and all before it
	// Start and End of the batch.
	Start *RolloutTime `json:"start,omitempty"`
	End   *RolloutTime `json:"end,omitempty"`
	// Excused is time that its deadline does not count.
	Excused RolloutDuration `json:"excused,omitempty"`
	// NoDeadline is true when a resume went past its deadline.
	NoDeadline bool `json:"noDeadline,omitempty"`
}

// RolloutApproval lets batches run up to an index, whatever batchPartition says.
type RolloutApproval struct {
	// Batch is the last one that is approved.
	Batch int32 `json:"batch"`
	// Partition is batchPartition at the time of the approval: an edit of it takes the approval back.
	Partition *int32 `json:"partition,omitempty"`
}

// RolloutWaiting is what the rollout waits for.
type RolloutWaiting struct {
	// Reason and Message of the wait; the code of a fault in CamelCase, or a word such as Soaking.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Since when it waits for this, over restarts of the operator.
	Since RolloutTime `json:"since"`
	// Deadline after which onFailure acts.
	Deadline *RolloutTime `json:"deadline,omitempty"`
}

// RolloutPause is a stop that lasts until somebody acts.
type RolloutPause struct {
	// ID of the pause: a resume or retry is for one pause only.
	ID string `json:"id"`
	// By is User, Metric, Gate, Probe, Webhook, Deadline or Fault.
	By string `json:"by"`
	// Reason and Message say what paused it, and Since when.
	Reason  string      `json:"reason"`
	Message string      `json:"message,omitempty"`
	Since   RolloutTime `json:"since"`
	// Key of the hook, metric, gate or probe that paused it.
	Key string `json:"key,omitempty"`
}

// RolloutRollbackStatus is a rollback that has begun.
type RolloutRollbackStatus struct {
	// Reason of the rollback.
	Reason string `json:"reason,omitempty"`
	// FromBatch is the batch at which it turned: the batches 0 to this one go back.
	FromBatch int32 `json:"fromBatch"`
	// Since when it goes on.
	Since *RolloutTime `json:"since,omitempty"`
	// Size is how many pods had been moved.
	Size int32 `json:"size"`
	// Reverted is true when the old template and the full hold are written.
	Reverted bool `json:"reverted,omitempty"`
}

// RolloutOriginal is what the end of the rollout restores.
type RolloutOriginal struct {
	// UpdateType of the workload before the rollout.
	UpdateType string `json:"updateType,omitempty"`
	// Strategy is the whole update strategy, in JSON.
	Strategy string `json:"strategy,omitempty"`
}

// RolloutScaleBase is the size from which the rest of a scale goes.
type RolloutScaleBase struct {
	// Batch in which it was planned anew, and the Size then.
	Batch int32 `json:"batch"`
	Size  int32 `json:"size"`
}

// RolloutSized is a size that was written, and the generation of the workload before it.
type RolloutSized struct {
	// Size that was written last, and the Generation of the workload before it.
	Size       int32 `json:"size"`
	Generation int64 `json:"generation"`
}

// RolloutAnswer is what is known of one hook or metric of this batch.
type RolloutAnswer struct {
	// Attempts so far.
	Attempts int32 `json:"attempts,omitempty"`
	// Verdict is Passed, Failed or Skipped; absent while it is asked.
	Verdict string `json:"verdict,omitempty"`
	// Value is the newest one: of a metric, of a gate, or what a hook said.
	Value string `json:"value,omitempty"`
	// Next is when it is asked again.
	Next     *RolloutTime     `json:"next,omitempty"`
	Measured *RolloutMeasured `json:"measured,omitempty"`
	// Since when a gate has been closed.
	Since *RolloutTime `json:"since,omitempty"`
}

// RolloutMeasured counts the measurements of a metric.
type RolloutMeasured struct {
	// Passed, Failed and Inconclusive are measurements; the last ones in a row.
	Passed       int32 `json:"passed,omitempty"`
	Failed       int32 `json:"failed,omitempty"`
	Inconclusive int32 `json:"inconclusive,omitempty"`
}

// RolloutFailure is why a rollout failed or is failing.
type RolloutFailure struct {
	// Reason is the code of the fault in CamelCase; Message says more.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// RolloutRequestAnswer is what became of a request. Code is empty if it was accepted.
type RolloutRequestAnswer struct {
	// ID under which it was accepted.
	ID string `json:"id"`
	// Verb that was asked for.
	Verb string `json:"verb"`
	// Code and Message of a refusal.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// By is the name in the request.
	By string `json:"by,omitempty"`
}

// RolloutRecord is one line of the history.
type RolloutRecord struct {
	// Sequence is its number, from 1.
	Sequence int32 `json:"sequence"`
	// Time when it was decided.
	Time RolloutTime `json:"time"`
	// From and To are the states.
	From string `json:"from"`
	To   string `json:"to"`
	// Event of the state table, or Paused, Resumed, Replanned, RequestAnswered, FailureSkipped, PodDeleted.
	Event string `json:"event"`
	// By is controller, or the name in a request; Request is its id.
	By      string `json:"by"`
	Request string `json:"request,omitempty"`
	// Why it happened.
	Why string `json:"why,omitempty"`
	// Batch is its index.
	Batch int32 `json:"batch"`
	// Generation of the workload, and the hash of the Plan.
	Generation int64  `json:"generation,omitempty"`
	Plan       string `json:"plan,omitempty"`
	// Values of gates and metrics at that time, by their key.
	Values map[string]string `json:"values,omitempty"`
	// Pods that were moved, at most 20 names; MorePods is how many there were beside them.
	Pods     []string `json:"pods,omitempty"`
	MorePods int32    `json:"morePods,omitempty"`
}
