package rollout

import (
	"errors"

	"github.com/pawl-dev/pawl/rollout/internal/strict"
)

// Plan is spec.rolloutPlan of a Rollout: the batches, and what must hold between them. Its JSON
// form is that of the API. The zero Plan is one batch with everything.
type Plan struct {
	// RolloutStrategy says which of two Deployments changes first. Default: IncreaseFirst.
	RolloutStrategy Strategy `json:"rolloutStrategy,omitempty"`
	// TargetSize is the number of pods to reach. A scale needs it.
	TargetSize *int `json:"targetSize,omitempty"`
	// NumBatches is the number of batches; without RolloutBatches the pods are dealt to them.
	NumBatches *int `json:"numBatches,omitempty"`
	// RolloutBatches are the batches, 1 to 200. Absent: dealt from NumBatches, or one with everything.
	RolloutBatches []Batch `json:"rolloutBatches,omitempty"`
	// BatchPartition is the index of the last batch that may run. Absent: all.
	BatchPartition *int `json:"batchPartition,omitempty"`
	// Paused holds the rollout at the next safe point.
	Paused bool `json:"paused,omitempty"`
	// RolloutWebhooks are called at the begin, at the end, and around each batch.
	RolloutWebhooks []Hook `json:"rolloutWebhooks,omitempty"`
	// CanaryMetric are asked in every batch.
	CanaryMetric []Metric `json:"canaryMetric,omitempty"`
	// Gates are expressions that must be true in every batch.
	Gates []Gate `json:"gates,omitempty"`
	// Probes ask the pods themselves.
	Probes []Probe `json:"probes,omitempty"`
	// Disruption is what may be away at once.
	Disruption *Disruption `json:"disruption,omitempty"`
	// Order is the order of the pods by role.
	Order *Order `json:"order,omitempty"`
	// BatchDeadline is the longest time for one batch, at least 1s. Absent: none.
	BatchDeadline *Duration `json:"batchDeadline,omitempty"`
	// Deadline is the longest time for all batches, with the hooks before and behind them; at least 1s.
	// Absent: none.
	Deadline *Duration `json:"deadline,omitempty"`
	// Soak is how long a verified batch is watched before it counts as available.
	Soak Duration `json:"soak,omitempty"`
	// OnFailure acts after a deadline, and is the default for metrics, gates, probes and webhooks.
	// Default: pause.
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// Rollback says how the pods go back.
	Rollback *RollbackPlan `json:"rollback,omitempty"`
}

// ParsePlan reads the JSON of spec.rolloutPlan. It refuses unknown fields; the fault is PLAN_INVALID
// and names the field. What the values say is judged by Problems.
func ParsePlan(text []byte) (Plan, error) {
	var p Plan
	err := strict.Decode("plan", text, &p)
	if err == nil {
		return p, nil
	}
	refused := PlanInvalid.Errorf("%v", err)
	if unfit := (*strict.Error)(nil); errors.As(err, &unfit) && unfit.Path != "" {
		refused = refused.With("field", unfit.Path)
	}
	return Plan{}, refused
}

// Batch is one part of the pods.
type Batch struct {
	// Replicas is the size of the batch: a number, or 0% to 100% of the total. It may be absent in
	// the last batch, which takes the rest, and where PodList or Pods name the pods.
	Replicas *IntOrPercent `json:"replicas,omitempty"`
	// PodList names the pods of the batch.
	PodList []string `json:"podList,omitempty"`
	// Pods selects the pods of the batch.
	Pods *PodSet `json:"pods,omitempty"`
	// MaxUnavailable is the number of pods that the check of this batch may miss; a percentage is
	// of the total and rounded up. Default: 0.
	MaxUnavailable *IntOrPercent `json:"maxUnavailable,omitempty"`
	// InstanceInterval is the pause between two releases inside the batch.
	InstanceInterval Duration `json:"instanceInterval,omitempty"`
	// Soak replaces that of the plan.
	Soak *Duration `json:"soak,omitempty"`
	// BatchRolloutWebhooks are called after those of the plan; types pre-batch-rollout and
	// post-batch-rollout only.
	BatchRolloutWebhooks []Hook `json:"batchRolloutWebhooks,omitempty"`
	// CanaryMetric are asked besides those of the plan.
	CanaryMetric []Metric `json:"canaryMetric,omitempty"`
	// Gates are looked at besides those of the plan.
	Gates []Gate `json:"gates,omitempty"`
	// Deadline replaces BatchDeadline of the plan.
	Deadline *Duration `json:"deadline,omitempty"`
}

// PodSet selects pods. A pod is in it if it meets every field that is set.
type PodSet struct {
	Ordinals []string  `json:"ordinals,omitempty"` // "5", or "2-3": both ends included
	Role     string    `json:"role,omitempty"`
	Selector *Selector `json:"selector,omitempty"`
}

// Strategy says which of two Deployments changes first in a batch.
type Strategy string

const (
	IncreaseFirst Strategy = "IncreaseFirst" // the target grows, then the source shrinks
	DecreaseFirst Strategy = "DecreaseFirst" // the source shrinks, then the target grows
)

// OnFailure says what follows a failure.
type OnFailure string

const (
	OnFailurePause    OnFailure = "pause"
	OnFailureRollback OnFailure = "rollback"
	OnFailureContinue OnFailure = "continue" // the failure is recorded; after a deadline it acts as pause
)

// RollbackPlan says how the pods go back to the source.
type RollbackPlan struct {
	Mode     RollbackMode `json:"mode,omitempty"` // default: InBatches
	Deadline *Duration    `json:"deadline,omitempty"`
}

// RollbackMode is how many pods go back at once.
type RollbackMode string

const (
	InBatches RollbackMode = "InBatches"
	AllAtOnce RollbackMode = "AllAtOnce" // all that the budgets allow
)

// HookType is the moment at which a hook is called.
type HookType string

const (
	InitializeHook HookType = "initialize-rollout"
	FinalizeHook   HookType = "finalize-rollout"
	PreBatchHook   HookType = "pre-batch-rollout"
	PostBatchHook  HookType = "post-batch-rollout"
	EventHook      HookType = "event" // gets every record of the history; holds up nothing
)

// Hook is a webhook, or a flow that is run like one.
type Hook struct {
	Name string   `json:"name"`
	Type HookType `json:"type"`
	URL  string   `json:"url,omitempty"` // http or https; this or Flow
	// Flow is the name of a flow of the operator; it runs with Input, and the hook has passed when
	// the run has succeeded.
	Flow           string            `json:"flow,omitempty"`
	Input          map[string]any    `json:"input,omitempty"`
	Method         string            `json:"method,omitempty"`         // POST (default), GET, PUT
	ExpectedStatus []int             `json:"expectedStatus,omitempty"` // default: 200 to 299
	Metadata       map[string]string `json:"metadata,omitempty"`
	Timeout        Duration          `json:"timeout,omitempty"` // of one call; default 10s
	Retries        *int              `json:"retries,omitempty"` // attempts after the first; default 3
	TLS            *TLS              `json:"tls,omitempty"`
	OnFailure      OnFailure         `json:"onFailure,omitempty"` // default: that of the plan
}

// TLS is how the other side of a call is trusted. Default: the roots of the system, TLS 1.2.
type TLS struct {
	CABundle   string     `json:"caBundle,omitempty"`  // PEM
	SecretRef  *SecretRef `json:"secretRef,omitempty"` // client certificate: tls.crt and tls.key
	ServerName string     `json:"serverName,omitempty"`
}

// SecretRef names a Secret in the namespace of the Rollout.
type SecretRef struct {
	Name string `json:"name"`
}

// Metric is a query whose value decides whether the rollout goes on.
type Metric struct {
	Name              string         `json:"name"`
	Interval          Duration       `json:"interval,omitempty"`          // default 60s, at least 1s
	InitialDelay      Duration       `json:"initialDelay,omitempty"`      // after the pods are ready
	Count             int            `json:"count,omitempty"`             // measurements that must pass; default 1
	FailureLimit      int            `json:"failureLimit,omitempty"`      // more failures fail the metric
	InconclusiveLimit *int           `json:"inconclusiveLimit,omitempty"` // more in a row end it; default 3
	MetricsRange      Range          `json:"metricsRange"`
	Provider          MetricProvider `json:"provider,omitzero"` // this or TemplateRef beside an address
	TemplateRef       *TemplateRef   `json:"templateRef,omitempty"`
	OnFailure         OnFailure      `json:"onFailure,omitempty"`      // default: that of the plan
	OnInconclusive    OnFailure      `json:"onInconclusive,omitempty"` // default: pause
	DryRun            bool           `json:"dryRun,omitempty"`         // measures and records, decides nothing
}

// Range holds all values from Min to Max, both included. At least one is set.
type Range struct {
	Min *Decimal `json:"min,omitempty"`
	Max *Decimal `json:"max,omitempty"`
}

// MetricProvider is where a metric is measured.
type MetricProvider struct {
	Prometheus *Prometheus `json:"prometheus,omitempty"`
}

// Prometheus is an instant query. {{rollout}}, {{namespace}}, {{workload}}, {{revision}} and
// {{batch}} are replaced in it.
type Prometheus struct {
	Address   string     `json:"address"`
	Query     string     `json:"query,omitempty"`     // this or the metric's TemplateRef
	Timeout   Duration   `json:"timeout,omitempty"`   // default 10s
	SecretRef *SecretRef `json:"secretRef,omitempty"` // token, or username and password
	TLS       *TLS       `json:"tls,omitempty"`
}

// TemplateRef is a key of a ConfigMap that holds the query.
type TemplateRef struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// GateWhen is the moment at which a gate is looked at.
type GateWhen string

const (
	BeforeBatch GateWhen = "BeforeBatch"
	BeforePod   GateWhen = "BeforePod"
	AfterBatch  GateWhen = "AfterBatch"
)

// Gate is a CEL expression that must be true.
type Gate struct {
	Name       string    `json:"name"`
	When       GateWhen  `json:"when"`
	Expression string    `json:"expression"`
	Message    string    `json:"message,omitempty"`
	Timeout    *Duration `json:"timeout,omitempty"`   // OnFailure acts after it; absent: never
	OnFailure  OnFailure `json:"onFailure,omitempty"` // default: that of the plan
}

// Probe asks pods whether they work.
type Probe struct {
	Name             string     `json:"name"`
	Exec             *ExecProbe `json:"exec,omitempty"` // one of Exec, HTTP, TCP
	HTTP             *HTTPProbe `json:"http,omitempty"`
	TCP              *TCPProbe  `json:"tcp,omitempty"`
	Period           Duration   `json:"period,omitempty"`           // default 5s
	Timeout          Duration   `json:"timeout,omitempty"`          // default 2s
	FailureThreshold int        `json:"failureThreshold,omitempty"` // default 3
	SuccessThreshold int        `json:"successThreshold,omitempty"` // default 1
	Parse            ParseMode  `json:"parse,omitempty"`            // default exit
	Selector         *Selector  `json:"selector,omitempty"`         // which pods; default all
	Scope            ProbeScope `json:"scope,omitempty"`            // default updated
	OnFailure        OnFailure  `json:"onFailure,omitempty"`        // default: that of the plan
}

// ExecProbe runs a command in a container of the pod.
type ExecProbe struct {
	Container string   `json:"container,omitempty"` // default: the first
	Command   []string `json:"command"`
}

// HTTPProbe asks the address of the pod.
type HTTPProbe struct {
	Path     string            `json:"path,omitempty"` // default /
	Port     int               `json:"port"`
	Scheme   string            `json:"scheme,omitempty"` // http (default) or https
	Headers  map[string]string `json:"headers,omitempty"`
	JSONPath string            `json:"jsonPath,omitempty"` // of the value in the answer
}

// TCPProbe opens a connection to the address of the pod.
type TCPProbe struct {
	Port int `json:"port"`
}

// ParseMode says what of a probe's answer counts.
type ParseMode string

const (
	ParseExit   ParseMode = "exit"   // whether it succeeded
	ParseNumber ParseMode = "number" // the output is a number, for gates
	ParseJSON   ParseMode = "json"   // the output is JSON, for gates
)

// ProbeScope says which pods a probe asks.
type ProbeScope string

const (
	ScopeUpdated ProbeScope = "updated"
	ScopeAll     ProbeScope = "all"
)

// Disruption are the budgets: how much may be away at once.
type Disruption struct {
	Quorum *Quorum `json:"quorum,omitempty"`
	// MaxUnavailable counts all pods of the workload.
	MaxUnavailable *IntOrPercent `json:"maxUnavailable,omitempty"`
	// MaxUnavailablePerZone counts the pods of one zone; a pod without one counts in every zone.
	MaxUnavailablePerZone *IntOrPercent `json:"maxUnavailablePerZone,omitempty"`
	ZoneKey               string        `json:"zoneKey,omitempty"` // default topology.kubernetes.io/zone
	// RespectPodDisruptionBudgets lets a budget without allowed disruptions block the next release.
	// Default: true.
	RespectPodDisruptionBudgets *bool `json:"respectPodDisruptionBudgets,omitempty"`
}

// Quorum keeps a number of members healthy. Rollouts of a namespace with the same selector share it.
type Quorum struct {
	Selector Selector `json:"selector"`
	// Members is the size of the quorum group. Default: the pods that are selected.
	Members *int `json:"members,omitempty"`
	// MinHealthy is a number, a percentage of the members (rounded up), or "majority".
	MinHealthy Healthy `json:"minHealthy"`
}

// Order is the order of the pods by role. Roles that are not named come first, the last one last.
type Order struct {
	RoleLabel string    `json:"roleLabel,omitempty"` // this or RoleProbe
	RoleProbe string    `json:"roleProbe,omitempty"` // name of a probe whose value is the role; it asks all pods
	Roles     []string  `json:"roles"`
	Handover  *Handover `json:"handover,omitempty"`
}

// Handover asks the database to move the last role away from a pod before the pod is released. It
// is idempotent: it may be asked again.
type Handover struct {
	Exec    *ExecProbe `json:"exec,omitempty"` // one of Exec and HTTP
	HTTP    *HTTPProbe `json:"http,omitempty"`
	Timeout Duration   `json:"timeout,omitempty"` // default 30s
	Retries *int       `json:"retries,omitempty"` // default 3
}
