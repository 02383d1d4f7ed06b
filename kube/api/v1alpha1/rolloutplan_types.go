package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutDuration is a time as Go writes it: 90s, 1m30s, 24h.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}$`
// +kubebuilder:validation:MaxLength=64
type RolloutDuration string

// RolloutDeadline is a time of at least one second.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}$`
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
type RolloutDeadline string

// RolloutTime is a moment with fractions of a second.
//
// +kubebuilder:validation:Format=date-time
type RolloutTime string

// RolloutFailurePolicy says what follows a failure: pause, rollback, or continue.
//
// +kubebuilder:validation:Enum=pause;rollback;continue
type RolloutFailurePolicy string

// RolloutPlan is how a workload is changed: the batches, and what must hold between them. An empty
// plan is one batch with everything.
//
// +kubebuilder:validation:XValidation:rule="!has(self.numBatches) || !has(self.rolloutBatches) || self.numBatches == self.rolloutBatches.size()",message="numBatches is not the number of rolloutBatches",fieldPath=".numBatches"
// +kubebuilder:validation:XValidation:rule="!has(self.batchPartition) || self.batchPartition < (has(self.rolloutBatches) ? self.rolloutBatches.size() : (has(self.numBatches) ? self.numBatches : 1))",message="batchPartition is no index of a batch: they count from 0",fieldPath=".batchPartition"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutBatches) || self.rolloutBatches.filter(b, !has(b.replicas) && !has(b.podList) && !has(b.pods)).size() <= (has(self.rolloutBatches[self.rolloutBatches.size() - 1].replicas) ? 0 : 1)",message="only the last batch may be without replicas: it takes the rest",fieldPath=".rolloutBatches"
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutBatches) || self.rolloutBatches.map(b, has(b.replicas) && type(b.replicas) == string ? int(b.replicas.split('%')[0]) : 0).sum() <= 100",message="the percentages are more than 100% together",fieldPath=".rolloutBatches"
// +kubebuilder:validation:XValidation:rule="!has(self.order) || !has(self.order.roleProbe) || (has(self.probes) && self.probes.exists(p, p.name == self.order.roleProbe))",message="roleProbe is the name of no probe",fieldPath=".order"
type RolloutPlan struct {
	// RolloutStrategy says which of two Deployments changes first. Default: IncreaseFirst.
	// +kubebuilder:validation:Enum=IncreaseFirst;DecreaseFirst
	RolloutStrategy string `json:"rolloutStrategy,omitempty"`
	// TargetSize is the number of pods to reach. A scale needs it.
	// +kubebuilder:validation:Minimum=0
	TargetSize *int32 `json:"targetSize,omitempty"`
	// NumBatches is the number of batches; without rolloutBatches the pods are dealt to them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=200
	NumBatches *int32 `json:"numBatches,omitempty"`
	// RolloutBatches are the batches. Absent: dealt from numBatches, or one with everything.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	RolloutBatches []RolloutBatch `json:"rolloutBatches,omitempty"`
	// BatchPartition is the index of the last batch that may run. Absent: all.
	// +kubebuilder:validation:Minimum=0
	BatchPartition *int32 `json:"batchPartition,omitempty"`
	// Paused holds the rollout at the next safe point.
	Paused bool `json:"paused,omitempty"`
	// RolloutWebhooks are called at the begin, at the end, and around each batch.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	RolloutWebhooks []RolloutHook `json:"rolloutWebhooks,omitempty"`
	// CanaryMetric are asked in every batch.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	CanaryMetric []RolloutMetric `json:"canaryMetric,omitempty"`
	// Gates are expressions that must be true in every batch.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Gates []RolloutGate `json:"gates,omitempty"`
	// Probes ask the pods themselves.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Probes []RolloutProbe `json:"probes,omitempty"`
	// Disruption is what may be away at once.
	Disruption *RolloutDisruption `json:"disruption,omitempty"`
	// Order is the order of the pods by role.
	Order *RolloutOrder `json:"order,omitempty"`
	// BatchDeadline is the longest time for one batch. Absent: none.
	BatchDeadline *RolloutDeadline `json:"batchDeadline,omitempty"`
	// Deadline is the longest time for all batches, with the hooks before and behind them. Absent: none.
	Deadline *RolloutDeadline `json:"deadline,omitempty"`
	// Soak is how long a verified batch is watched before it counts as available.
	Soak RolloutDuration `json:"soak,omitempty"`
	// OnFailure acts after a deadline, and is the default for metrics, gates, probes and webhooks.
	// Default: pause.
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
	// Rollback says how the pods go back.
	Rollback *RolloutRollback `json:"rollback,omitempty"`
}

// RolloutBatch is one part of the pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podList) || !has(self.pods)",message="set one of podList and pods"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.pods.ordinals) || self.pods.ordinals.all(o, !o.contains('-') || int(o.split('-')[0]) <= int(o.split('-')[1]))",message="a range goes up: 2-3, not 3-2",fieldPath=".pods"
type RolloutBatch struct {
	// Replicas is the size of the batch: a number, or 0% to 100% of the total. It may be absent in
	// the last batch, which takes the rest, and where podList or pods name the pods.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="it is at least 0"
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// PodList names the pods of the batch. A pod stands in one batch only: the first pass and
	// pawl plan -f refuse another one, the API server does not, as a rule on all pairs of batches
	// costs more than it allows.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	PodList []string `json:"podList,omitempty"`
	// Pods selects the pods of the batch.
	Pods *RolloutPods `json:"pods,omitempty"`
	// MaxUnavailable is the number of pods that the check of this batch may miss; a percentage is of
	// the total and rounded up. Default: 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="it is at least 0"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// InstanceInterval is the pause between two releases inside the batch.
	InstanceInterval RolloutDuration `json:"instanceInterval,omitempty"`
	// Soak replaces that of the plan.
	Soak *RolloutDuration `json:"soak,omitempty"`
	// BatchRolloutWebhooks are called after those of the plan.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.type == 'pre-batch-rollout' || h.type == 'post-batch-rollout')",message="a batch has hooks of the types pre-batch-rollout and post-batch-rollout only"
	// +listType=map
	// +listMapKey=name
	BatchRolloutWebhooks []RolloutHook `json:"batchRolloutWebhooks,omitempty"`
	// CanaryMetric are asked besides those of the plan.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	CanaryMetric []RolloutMetric `json:"canaryMetric,omitempty"`
	// Gates are evaluated besides those of the plan.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Gates []RolloutGate `json:"gates,omitempty"`
	// Deadline replaces batchDeadline of the plan.
	Deadline *RolloutDeadline `json:"deadline,omitempty"`
}

// RolloutPods selects pods. A pod is in it if it meets every field that is set.
//
// +kubebuilder:validation:MinProperties=1
type RolloutPods struct {
	// Ordinals are such as "5" or "2-3", both ends included. An ordinal stands in one batch
	// only: see podList.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^[0-9]{1,5}(-[0-9]{1,5})?$`
	// +kubebuilder:validation:items:MaxLength=11
	// +listType=atomic
	Ordinals []string `json:"ordinals,omitempty"`
	// Role of the pods, as order reads it.
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role,omitempty"`
	// Selector of labels of the pods.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// RolloutRollback says how the pods go back to the source.
type RolloutRollback struct {
	// Mode is InBatches, or AllAtOnce: all that the budgets allow. Default: InBatches.
	// +kubebuilder:validation:Enum=InBatches;AllAtOnce
	Mode string `json:"mode,omitempty"`
	// Deadline of the rollback. After it the rollout pauses, and keeps its hold. Absent: none.
	Deadline *RolloutDeadline `json:"deadline,omitempty"`
}

// RolloutHook is a webhook, or a flow that is run like one.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.flow)",message="set one of url and flow"
// +kubebuilder:validation:XValidation:rule="!has(self.input) || has(self.flow)",message="only a flow has an input"
type RolloutHook struct {
	// Name of the hook. It is a part of its key, and no entry of a batch has that of one of the plan.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Type is the moment at which the hook is called. event gets every record of the history and
	// holds up nothing.
	// +kubebuilder:validation:Enum=initialize-rollout;finalize-rollout;pre-batch-rollout;post-batch-rollout;event
	Type string `json:"type"`
	// URL of the webhook: http or https, without user and fragment. This or flow.
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+([/?][^#]*)?$`
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// Flow is a flow of the operator: the hook has passed when its run has succeeded.
	// +kubebuilder:validation:MaxLength=253
	Flow string `json:"flow,omitempty"`
	// Input of the flow.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Input json.RawMessage `json:"input,omitempty"`
	// Method is POST, GET or PUT. Default: POST.
	// +kubebuilder:validation:Enum="";POST;GET;PUT
	Method string `json:"method,omitempty"`
	// ExpectedStatus are the codes that count as success. Default: 200 to 299.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=599
	// +listType=atomic
	ExpectedStatus []int32 `json:"expectedStatus,omitempty"`
	// Metadata is sent as it is.
	// +kubebuilder:validation:MaxProperties=50
	Metadata map[string]string `json:"metadata,omitempty"`
	// Timeout of one call. Default: 10s.
	Timeout RolloutDuration `json:"timeout,omitempty"`
	// Retries are attempts after the first. Default: 3.
	// +kubebuilder:validation:Minimum=0
	Retries *int32      `json:"retries,omitempty"`
	TLS     *RolloutTLS `json:"tls,omitempty"`
	// OnFailure replaces that of the plan.
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
}

// RolloutTLS is how the other side of a call is trusted. Default: the roots of the system, TLS 1.2.
type RolloutTLS struct {
	// CABundle is PEM.
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`
	// SecretRef names a Secret with the client's certificate: tls.crt and tls.key.
	SecretRef *RolloutSecretRef `json:"secretRef,omitempty"`
	// ServerName that the certificate of the other side is for. Default: the host of the address.
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// RolloutSecretRef names a Secret in the namespace of the Rollout.
type RolloutSecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RolloutMetric is a query whose value decides whether the rollout goes on.
//
// +kubebuilder:validation:XValidation:rule="has(self.templateRef) != has(self.provider.prometheus.query)",message="set one of provider.prometheus.query and templateRef"
type RolloutMetric struct {
	// Name of the metric, by which gates read its value.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Interval between measurements. Default: 60s.
	Interval *RolloutDeadline `json:"interval,omitempty"`
	// InitialDelay is the time from when the pods are ready to the first measurement.
	InitialDelay RolloutDuration `json:"initialDelay,omitempty"`
	// Count is the number of measurements that must pass. Default: 1.
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
	// FailureLimit is the number of failures that are allowed.
	// +kubebuilder:validation:Minimum=0
	FailureLimit int32 `json:"failureLimit,omitempty"`
	// InconclusiveLimit is the number of inconclusive answers in a row that are allowed. Default: 3.
	// +kubebuilder:validation:Minimum=0
	InconclusiveLimit *int32 `json:"inconclusiveLimit,omitempty"`
	// MetricsRange holds the values that pass, both ends included.
	MetricsRange RolloutRange          `json:"metricsRange"`
	Provider     RolloutMetricProvider `json:"provider"`
	// TemplateRef is a key of a ConfigMap that holds the query.
	TemplateRef *RolloutTemplateRef `json:"templateRef,omitempty"`
	// OnFailure replaces that of the plan.
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
	// OnInconclusive acts when there is no answer to judge. Default: pause.
	OnInconclusive RolloutFailurePolicy `json:"onInconclusive,omitempty"`
	// DryRun measures and records, and decides nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// RolloutRange holds all values from min to max.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || double(self.min) <= double(self.max)",message="min is above max"
// +kubebuilder:validation:MinProperties=1
type RolloutRange struct {
	// Min is the smallest value that passes: a whole number, or a decimal as text.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+-]?[0-9]{1,30}(\.[0-9]{1,30})?$`
	// +kubebuilder:validation:MaxLength=64
	Min *intstr.IntOrString `json:"min,omitempty"`
	// Max is the largest value that passes.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+-]?[0-9]{1,30}(\.[0-9]{1,30})?$`
	// +kubebuilder:validation:MaxLength=64
	Max *intstr.IntOrString `json:"max,omitempty"`
}

// RolloutMetricProvider is where a metric is measured.
type RolloutMetricProvider struct {
	Prometheus *RolloutPrometheus `json:"prometheus"`
}

// RolloutPrometheus is an instant query. {{rollout}}, {{namespace}}, {{workload}}, {{revision}} and
// {{batch}} are replaced in it.
type RolloutPrometheus struct {
	// Address of the server, http or https, as far as /api/v1/query.
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+([/?][^#]*)?$`
	// +kubebuilder:validation:MaxLength=2048
	Address string `json:"address"`
	// Query in PromQL, with a scalar or a vector as its value. This or templateRef.
	// +kubebuilder:validation:MaxLength=16384
	Query string `json:"query,omitempty"`
	// Timeout of one query. Default: 10s.
	Timeout RolloutDuration `json:"timeout,omitempty"`
	// SecretRef names a Secret with token, or username and password.
	SecretRef *RolloutSecretRef `json:"secretRef,omitempty"`
	TLS       *RolloutTLS       `json:"tls,omitempty"`
}

// RolloutTemplateRef is a key of a ConfigMap.
type RolloutTemplateRef struct {
	// Name of the ConfigMap, in the namespace of the Rollout.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key with the query.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// RolloutGate is an expression that must be true.
type RolloutGate struct {
	// Name of the gate.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// When the gate is looked at: before a batch, before each pod that is released, or after the pods of a batch are ready.
	// +kubebuilder:validation:Enum=BeforeBatch;BeforePod;AfterBatch
	When string `json:"when"`
	// Expression is CEL with a boolean value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
	// Message says why the gate is closed.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Timeout after which onFailure acts. Absent: never.
	Timeout *RolloutDeadline `json:"timeout,omitempty"`
	// OnFailure replaces that of the plan.
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
}

// RolloutProbe asks pods whether they work.
//
// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.http), has(self.tcp)].filter(set, set).size() == 1",message="set one of exec, http and tcp"
type RolloutProbe struct {
	// Name of the probe, by which gates and order read its value.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string       `json:"name"`
	Exec *RolloutExec `json:"exec,omitempty"`
	HTTP *RolloutHTTP `json:"http,omitempty"`
	TCP  *RolloutTCP  `json:"tcp,omitempty"`
	// Period between two attempts, at least 1s. Default: 5s.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a period is at least 1s"
	Period RolloutDuration `json:"period,omitempty"`
	// Timeout of one attempt. Default: 2s.
	Timeout RolloutDuration `json:"timeout,omitempty"`
	// FailureThreshold is the number of failures in a row that fail the pod. Default: 3.
	// +kubebuilder:validation:Minimum=0
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
	// SuccessThreshold is the number of successes in a row that pass the pod. Default: 1.
	// +kubebuilder:validation:Minimum=0
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	// Parse says what of the output counts: exit, number or json. Default: exit.
	// +kubebuilder:validation:Enum=exit;number;json
	Parse string `json:"parse,omitempty"`
	// Selector of the pods. Default: all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Scope is updated or all. Default: updated.
	// +kubebuilder:validation:Enum=updated;all
	Scope string `json:"scope,omitempty"`
	// OnFailure replaces that of the plan.
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
}

// RolloutExec is a command in a container of the pod.
type RolloutExec struct {
	// Container is by default the first one.
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
	// Command with its arguments; no shell is between.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Command []string `json:"command"`
}

// RolloutHTTP is a request to the address of the pod.
type RolloutHTTP struct {
	// Path and query. Default: /.
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=2048
	Path string `json:"path,omitempty"`
	// Port of the pod.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Scheme is http or https; certificates are not checked. Default: http.
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
	// Headers of the request.
	// +kubebuilder:validation:MaxProperties=50
	Headers map[string]string `json:"headers,omitempty"`
	// JSONPath of the value in the answer.
	// +kubebuilder:validation:MaxLength=1024
	JSONPath string `json:"jsonPath,omitempty"`
}

// RolloutTCP is a connection to the address of the pod.
type RolloutTCP struct {
	// Port of the pod.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// RolloutDisruption are the budgets: how much may be away at once.
//
// +kubebuilder:validation:XValidation:rule="!has(self.zoneKey) || has(self.maxUnavailablePerZone)",message="zoneKey counts only beside maxUnavailablePerZone",fieldPath=".zoneKey"
type RolloutDisruption struct {
	// Quorum keeps a number of members healthy. Rollouts of a namespace with the same selector share
	// it.
	Quorum *RolloutQuorum `json:"quorum,omitempty"`
	// MaxUnavailable counts all pods of the workload.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="it is at least 0"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxUnavailablePerZone counts the pods of one zone; a pod without one counts in every zone.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="it is at least 0"
	MaxUnavailablePerZone *intstr.IntOrString `json:"maxUnavailablePerZone,omitempty"`
	// ZoneKey is the label with the zone of a pod. Default: topology.kubernetes.io/zone.
	// +kubebuilder:validation:MaxLength=317
	ZoneKey string `json:"zoneKey,omitempty"`
	// RespectPodDisruptionBudgets lets a PodDisruptionBudget without allowed disruptions block the
	// next release. Default: true.
	RespectPodDisruptionBudgets *bool `json:"respectPodDisruptionBudgets,omitempty"`
}

// RolloutQuorum keeps a number of members healthy.
type RolloutQuorum struct {
	// Selector of the members, of whatever workloads of the namespace.
	Selector metav1.LabelSelector `json:"selector"`
	// Members is the size of the group. Default: the pods that are selected.
	// +kubebuilder:validation:Minimum=1
	Members *int32 `json:"members,omitempty"`
	// MinHealthy is a number, a percentage of the members, or majority.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(majority|(100|[1-9][0-9]?)%)$`
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 1",message="it is at least 1"
	MinHealthy intstr.IntOrString `json:"minHealthy"`
}

// RolloutOrder is the order of the pods by role.
//
// +kubebuilder:validation:XValidation:rule="has(self.roleLabel) != has(self.roleProbe)",message="set one of roleLabel and roleProbe"
type RolloutOrder struct {
	// RoleLabel is the label with the role of a pod.
	// +kubebuilder:validation:MaxLength=317
	RoleLabel string `json:"roleLabel,omitempty"`
	// RoleProbe is the name of a probe whose value is the role. It asks all pods, whatever its scope.
	// +kubebuilder:validation:MaxLength=63
	RoleProbe string `json:"roleProbe,omitempty"`
	// Roles in the order in which their pods change. Roles that are not named come first.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Roles    []string         `json:"roles"`
	Handover *RolloutHandover `json:"handover,omitempty"`
}

// RolloutHandover asks the database to move the last role away from a pod before the pod is
// released. It is idempotent.
//
// +kubebuilder:validation:XValidation:rule="has(self.exec) != has(self.http)",message="set one of exec and http"
type RolloutHandover struct {
	Exec *RolloutExec `json:"exec,omitempty"`
	HTTP *RolloutHTTP `json:"http,omitempty"`
	// Timeout of one attempt. Default: 30s.
	Timeout RolloutDuration `json:"timeout,omitempty"`
	// Retries are attempts after the first. Default: 3.
	// +kubebuilder:validation:Minimum=0
	Retries *int32 `json:"retries,omitempty"`
}
