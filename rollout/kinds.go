package rollout

import "github.com/pawl-dev/pawl/fault"

// The faults of plans and specs: the request must change.
var (
	PlanInvalid = fault.Declare(fault.Kind{
		Code: "PLAN_INVALID", Class: fault.Invalid,
		Title:  "the plan of the rollout is not valid",
		Remedy: "Correct the field that the message names. pawl plan -f shows all of them, with line and column.",
	})
	TargetSizeMissing = fault.Declare(fault.Kind{
		Code: "TARGET_SIZE_MISSING", Class: fault.Invalid,
		Title:  "a scale has no targetSize",
		Remedy: "Set spec.rolloutPlan.targetSize to the number of pods to reach.",
	})
	SizeAndTemplateChanged = fault.Declare(fault.Kind{
		Code: "SIZE_AND_TEMPLATE_CHANGED", Class: fault.Invalid,
		Title:  "the size and the template changed together",
		Remedy: "Change one of them: remove targetSize or set it to the present number of replicas, and scale after the rollout.",
	})
	SourceMissing = fault.Declare(fault.Kind{
		Code: "SOURCE_MISSING", Class: fault.Invalid,
		Title:  "the template of a Deployment changed, and there is no sourceRef",
		Remedy: "A rollout of Deployments moves pods from one to another: make a second Deployment for the new template, and another Rollout to it with the old one in spec.sourceRef, which cannot be changed later.",
	})
	ComponentAmbiguous = fault.Declare(fault.Kind{
		Code: "COMPONENT_AMBIGUOUS", Class: fault.Invalid,
		Title:  "it is not clear which component to roll out",
		Remedy: "Name one component that both revisions have in spec.application.component.",
	})
	NothingToRoll = fault.Declare(fault.Kind{
		Code: "NOTHING_TO_ROLL", Class: fault.Invalid,
		Title:  "all pods have the target revision",
		Remedy: "Change the template of the workload, or set targetSize.",
	})
	UnsupportedWorkload = fault.Declare(fault.Kind{
		Code: "UNSUPPORTED_WORKLOAD", Class: fault.Invalid,
		Title:  "workloads of this kind cannot be rolled out",
		Remedy: "Use a Deployment, a StatefulSet, a CloneSet or an Advanced StatefulSet.",
	})
	FieldNotHonoured = fault.Declare(fault.Kind{
		Code: "FIELD_NOT_HONOURED", Class: fault.Invalid,
		Title:  "the plan has a field that this kind of workload cannot honour",
		Remedy: "Remove the field that the message names.",
	})
	GateInvalid = fault.Declare(fault.Kind{
		Code: "GATE_INVALID", Class: fault.Invalid,
		Title:  "the expression of a gate cannot be evaluated",
		Remedy: "Correct the expression: it is CEL, and its result must be a boolean.",
	})
	NotPaused = fault.Declare(fault.Kind{
		Code: "NOT_PAUSED", Class: fault.Invalid,
		Title:  "the rollout is not paused, or this pause has ended",
		Remedy: "Look at the rollout with pawl describe. Only the present pause can be resumed or retried.",
	})
	RequestUnknown = fault.Declare(fault.Kind{
		Code: "ROLLOUT_REQUEST_INVALID", Class: fault.Invalid,
		Title:  "the request cannot be understood",
		Remedy: "Use approve, resume, retry, abandon or rollback; approve takes the index of a batch, next or all.",
	})
)

// The faults that hold a rollout until someone acts.
var (
	ClaimedByOther = fault.Declare(fault.Kind{
		Code: "CLAIMED_BY_OTHER", Class: fault.Blocked,
		Title:  "another controller owns the workload",
		Remedy: "Let one controller own the workload: delete the other Rollout, or remove the owner reference that the message names.",
	})
	BatchOutOfRange = fault.Declare(fault.Kind{
		Code: "BATCH_OUT_OF_RANGE", Class: fault.Blocked,
		Title:  "the number of moved pods does not fit the batch",
		Remedy: "Something else moved pods of the workload. Look at its pods, then start the rollout again.",
	})
	ReplicasContested = fault.Declare(fault.Kind{
		Code: "REPLICAS_CONTESTED", Class: fault.Blocked,
		Title:  "something else keeps changing the number of replicas",
		Remedy: "Stop what else scales the workload, or let it scale the Rollout. Then resume.",
	})
	ReplicasOwned = fault.Declare(fault.Kind{
		Code: "REPLICAS_OWNED", Class: fault.Blocked,
		Title:  "a HorizontalPodAutoscaler scales the workload",
		Remedy: "Let the autoscaler target the Rollout in place of the workload.",
	})
	TargetReplaced = fault.Declare(fault.Kind{
		Code: "TARGET_REPLACED", Class: fault.Blocked,
		Title:  "the workload was deleted and made again during the rollout",
		Remedy: "Look at the new workload, then change its template or the Rollout to start again.",
	})
	StateUnknown = fault.Declare(fault.Kind{
		Code: "ROLLOUT_STATE_UNKNOWN", Class: fault.Blocked,
		Title:  "the rollout stands in a state that this version does not know",
		Remedy: "Run the version of Pawl that wrote it, or ask for another target, which starts anew.",
	})
	IllegalEvent = fault.Declare(fault.Kind{
		Code: "ILLEGAL_EVENT", Class: fault.Blocked,
		Title:  "an event arrived that the state of the rollout does not have",
		Remedy: "This is a defect of Pawl: report it with the history of the rollout.",
	})
	DeadlinePassed = fault.Declare(fault.Kind{
		Code: "BATCH_DEADLINE", Class: fault.Blocked,
		Title:  "the batch or the rollout was not done before its deadline",
		Remedy: "Look at what it waits for. Retry gives it the whole time again, resume goes on without the deadline.",
	})
	MetricFailed = fault.Declare(fault.Kind{
		Code: "METRIC_FAILED", Class: fault.Blocked,
		Title:  "a metric was outside of its range",
		Remedy: "Look at the value in the message. Retry measures anew, resume goes past the metric, rollback takes the pods back.",
	})
	MetricInconclusive = fault.Declare(fault.Kind{
		Code: "METRIC_INCONCLUSIVE", Class: fault.Blocked,
		Title:  "a metric gave no answer that decides",
		Remedy: "Correct the query or its server. Retry measures anew, resume goes past the metric.",
	})
	GateClosed = fault.Declare(fault.Kind{
		Code: "GATE_CLOSED", Class: fault.Blocked,
		Title:  "a gate is closed",
		Remedy: "Look at the values in the message: the rollout goes on by itself when the expression is true, or when the gate is edited. If it is paused, as the timeout of the gate has passed, retry waits for the gate again and resume goes past it.",
	})
	ProbeFailed = fault.Declare(fault.Kind{
		Code: "PROBE_FAILED", Class: fault.Blocked,
		Title:  "a probe of a pod keeps failing",
		Remedy: "Look at the pod that the message names. Retry probes again, resume goes past it.",
	})
	WebhookFailed = fault.Declare(fault.Kind{
		Code: "WEBHOOK_FAILED", Class: fault.Blocked,
		Title:  "a webhook refused, or did not answer",
		Remedy: "Look at the answer in the message. Retry calls it again, resume goes past it.",
	})
	HandoverFailed = fault.Declare(fault.Kind{
		Code: "HANDOVER_FAILED", Class: fault.Blocked,
		Title:  "the role did not move away from a pod",
		Remedy: "Move the role by hand, or correct the handover, then retry.",
	})
	BudgetImpossible = fault.Declare(fault.Kind{
		Code: "BUDGET_IMPOSSIBLE", Class: fault.Blocked,
		Title:  "the disruption budget never allows a release, or counts no pod of the workload",
		Remedy: "Lower minHealthy, raise maxUnavailable, or add members: one pod must be able to be away. The selector of a quorum must select pods of the workload.",
	})
	PlanChangeRefused = fault.Declare(fault.Kind{
		Code: "PLAN_CHANGE_REFUSED", Class: fault.Blocked,
		Title:  "the change of the plan cannot be taken over now",
		Remedy: "Take the change back, or correct the field that the message names. Until then the sizes and pods of all batches and the strategy stay as they were, and every other field counts as the plan has it now.",
	})
)

// The faults that end by themselves.
var (
	WorkloadBusy = fault.Declare(fault.Kind{
		Code: "WORKLOAD_BUSY", Class: fault.Transient,
		Title:  "the workload is still scaling or updating",
		Remedy: "Wait until it has settled. An update that never does is taken over by a Rollout with hold: Always.",
	})
	TargetMissing = fault.Declare(fault.Kind{
		Code: "TARGET_MISSING", Class: fault.Transient,
		Title:  "the workload does not exist",
		Remedy: "Create the workload, or correct the reference.",
	})
	TargetRevisionMissing = fault.Declare(fault.Kind{
		Code: "TARGET_REVISION_MISSING", Class: fault.Transient,
		Title:  "a revision that the rollout needs does not exist",
		Remedy: "Create the revision, or correct its name.",
	})
	KindNotServed = fault.Declare(fault.Kind{
		Code: "KIND_NOT_SERVED", Class: fault.Transient,
		Title:  "the API server does not serve this kind",
		Remedy: "Install the CustomResourceDefinition of the kind. The rollout goes on when it is there.",
	})
)
