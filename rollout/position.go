package rollout

import "time"

// State is where a rollout stands as a whole.
type State string

const (
	Locating     State = "locatingTargetApp"
	Verifying    State = "verifyingSpec"
	Initializing State = "initializing"
	InBatch      State = "rollingInBatches"
	Finalising   State = "finalising"
	Failing      State = "rolloutFailing"
	Abandoning   State = "rolloutAbandoning"
	Deleting     State = "rolloutDeleting"
	RollingBack  State = "rollingBack"
	Succeeded    State = "rolloutSucceed"
	Failed       State = "rolloutFailed"
)

// Terminal reports whether the state is left only by a new request.
func (s State) Terminal() bool { return s == Succeeded || s == Failed }

// BatchState is where the current batch stands.
type BatchState string

const (
	BatchInitializing BatchState = "batchInitializing"
	BatchInRolling    BatchState = "batchInRolling"
	BatchVerifying    BatchState = "batchVerifying"
	BatchFinalizing   BatchState = "batchFinalizing"
	BatchReady        BatchState = "batchReady"
	BatchVerifyFailed BatchState = "batchVerifyFailed"
)

// Mode is the movement: another size, or another revision.
type Mode string

const (
	Scale   Mode = "Scale"
	Rollout Mode = "Rollout"
)

// Position is where a rollout stands. It is the only memory of a rollout, and its JSON form is that
// of the status. The zero Position is before the first visit.
type Position struct {
	State        State      `json:"rollingState,omitempty"`
	BatchState   BatchState `json:"batchRollingState,omitempty"`
	CurrentBatch int        `json:"currentBatch"`
	Mode         Mode       `json:"mode,omitempty"`
	// Number counts the rollouts of this object. It is a part of the key of each hook.
	Number int `json:"number,omitempty"`
	// OriginalSize and TargetSize are numbers of pods; nil while unknown.
	OriginalSize *int `json:"rolloutOriginalSize,omitempty"`
	TargetSize   *int `json:"rolloutTargetSize,omitempty"`
	// TargetRevision and SourceRevision are the recorded pair.
	TargetRevision string `json:"lastTargetRevision,omitempty"`
	SourceRevision string `json:"lastSourceRevision,omitempty"`
	// Named is true if the pair are revisions of an Application.
	Named bool `json:"named,omitempty"`
	// TargetHash is the revision that updated pods carry.
	TargetHash string `json:"targetRevisionHash,omitempty"`
	// SourceHash is the revision that pods carried before.
	SourceHash string `json:"sourceRevisionHash,omitempty"`
	// TargetUID is the workload that was claimed.
	TargetUID string `json:"targetUID,omitempty"`
	// Before is the number of pods that had the target revision before anything was released.
	Before        int `json:"updatedBefore,omitempty"`
	Upgraded      int `json:"upgradedReplicas"`
	UpgradedReady int `json:"upgradedReadyReplicas"`
	// Strategy and Batches are the plan as far as it may not be edited any more.
	Strategy Strategy              `json:"rolloutStrategy,omitempty"`
	Batches  map[int]BatchPosition `json:"batches,omitempty"`
	// PlanHash is that of the plan that was taken over last.
	PlanHash string `json:"planHash,omitempty"`
	// Approved lets batches run in spite of batchPartition.
	Approved *Approval `json:"approved,omitempty"`
	Waiting  *Waiting  `json:"waiting,omitempty"`
	Pause    *Pause    `json:"pause,omitempty"`
	// Resumed is true after a resume while the plan still says paused.
	Resumed  bool              `json:"resumed,omitempty"`
	Rollback *RollbackPosition `json:"rollback,omitempty"`
	Replans  int               `json:"replans,omitempty"`
	Original *Original         `json:"original,omitempty"`
	// ScaleBase is from where a scale was planned anew.
	ScaleBase *ScaleBase `json:"scaleBase,omitempty"`
	// Sized is the newest size that was written, and the generation of the workload before it.
	Sized *Sized `json:"sized,omitempty"`
	// Answers are the hooks and metrics of this batch, by their key.
	Answers map[string]AnswerPosition `json:"answers,omitempty"`
	// Verified is since when the pods, probes, gates and metrics of the batch have held.
	Verified *time.Time `json:"verifiedSince,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Released *time.Time `json:"lastRelease,omitempty"`
	// Excused is time that no deadline counts: pauses, holds, and outages of the API server.
	Excused Duration `json:"excused,omitempty"`
	// Outage is how long the API server did not answer since the rollout began, as far as it is excused.
	Outage Duration `json:"outage,omitempty"`
	// NoDeadline is true after a resume that went past the deadline of all batches.
	NoDeadline bool `json:"noDeadline,omitempty"`
	// DeletedPod is the UID of the pod that was deleted last because an ordered set waited for it.
	DeletedPod string `json:"deletedPod,omitempty"`
	// Finalized is true when the workload needs no more writes at the end.
	Finalized bool `json:"finalized,omitempty"`
	// PlanRefused says why an edit of the plan is not taken over.
	PlanRefused string         `json:"planRefused,omitempty"`
	Failure     *Failure       `json:"failure,omitempty"`
	LastRequest *RequestAnswer `json:"lastRequest,omitempty"`
	// Sequence is the number of the newest record of the history.
	Sequence int `json:"sequence,omitempty"`
}

// Refused reports whether the plan was refused before anything was claimed: another plan begins anew.
func (at Position) Refused() bool {
	return at.State == Failed && at.Started == nil && at.PlanHash != "" && at.Failure != nil
}

// BatchPosition is one batch as it was resolved.
type BatchPosition struct {
	Replicas         *IntOrPercent `json:"replicas,omitempty"`
	PodList          []string      `json:"podList,omitempty"`
	Pods             *PodSet       `json:"pods,omitempty"`
	MaxUnavailable   *IntOrPercent `json:"maxUnavailable,omitempty"`
	InstanceInterval Duration      `json:"instanceInterval,omitempty"`
	Size             int           `json:"size"`   // pods of this batch
	Target           int           `json:"target"` // pods of this batch and all before it
	Start            *time.Time    `json:"start,omitempty"`
	End              *time.Time    `json:"end,omitempty"`
	Excused          Duration      `json:"excused,omitempty"`
	NoDeadline       bool          `json:"noDeadline,omitempty"` // a resume went past it
}

// Approval lets batches run up to an index.
type Approval struct {
	Batch int `json:"batch"`
	// Partition is batchPartition at the time of the approval; an edit of it ends the approval.
	Partition *int `json:"partition,omitempty"`
}

// Waiting is what the rollout waits for.
type Waiting struct {
	Reason   string     `json:"reason"`
	Message  string     `json:"message,omitempty"`
	Since    time.Time  `json:"since"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// PausedBy says what paused a rollout.
type PausedBy string

const (
	ByUser     PausedBy = "User"
	ByMetric   PausedBy = "Metric"
	ByGate     PausedBy = "Gate"
	ByProbe    PausedBy = "Probe"
	ByWebhook  PausedBy = "Webhook"
	ByDeadline PausedBy = "Deadline"
	ByFault    PausedBy = "Fault"
)

// Pause is a stop that lasts until someone acts.
type Pause struct {
	ID      string    `json:"id"`
	By      PausedBy  `json:"by"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
	// Key is that of the hook, metric, gate or probe; empty for others.
	Key string `json:"key,omitempty"`
}

// RollbackPosition is a rollback that has begun.
type RollbackPosition struct {
	Reason    string    `json:"reason,omitempty"`
	FromBatch int       `json:"fromBatch"`
	Since     time.Time `json:"since,omitzero"`
	// Size is T of the batch from which it went back.
	Size int `json:"size"`
	// Reverted is true when the source's template and the full hold are written.
	Reverted bool `json:"reverted,omitempty"`
}

// Original is what Initialize found and Finalize restores.
type Original struct {
	UpdateType string `json:"updateType,omitempty"`
	Strategy   string `json:"strategy,omitempty"` // the whole update strategy, in JSON
}

// AnswerPosition is what is known of one hook or metric of this batch.
type AnswerPosition struct {
	Attempts int        `json:"attempts,omitempty"`
	Verdict  string     `json:"verdict,omitempty"` // Passed, Failed, Inconclusive, Skipped; empty: still asked
	Value    string     `json:"value,omitempty"`
	Next     *time.Time `json:"next,omitempty"`
	Measured *Measured  `json:"measured,omitempty"`
	Since    *time.Time `json:"since,omitempty"` // of a gate: when it was first found closed; of a handover: its newest answer
}

// Failure is why a rollout failed or is failing.
type Failure struct {
	Reason  string `json:"reason"` // CamelCase form of the fault's code
	Message string `json:"message,omitempty"`
}

// RequestAnswer is what became of the newest request.
type RequestAnswer struct {
	ID      string `json:"id"`
	Verb    string `json:"verb"`
	Code    string `json:"code,omitempty"` // empty: accepted
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// ScaleBase is the size from which the rest of a scale goes.
type ScaleBase struct {
	Batch int `json:"batch"`
	Size  int `json:"size"`
}

// Sized is a size that was written, and the generation that the workload had before.
type Sized struct {
	Size       int   `json:"size"`
	Generation int64 `json:"generation"`
}
