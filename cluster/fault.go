package cluster

import "github.com/pawl-dev/pawl/fault"

func declare(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy, Guide: "container-clusters.md"})
}

// The faults of clusters.
var (
	NotFound = declare("CLUSTER_NOT_FOUND", fault.Invalid, "there is no such cluster, or it is not yours to see",
		"List your clusters with `pawl cluster list`; destroyed ones with --state Destroyed.")
	NameTaken = declare("CLUSTER_EXISTS", fault.Blocked, "the account has a cluster of this name",
		"Choose another name, or delete the other cluster with `pawl cluster delete NAME --wait`: its name is free as soon as it is Destroyed.")
	StateRefused = declare("STATE_REFUSED", fault.Blocked, "the state of the cluster does not allow this",
		"Look at the state with `pawl cluster describe NAME`; wait for the run under way, or recover, stop or delete the cluster.")
	ClusterInvalid = declare("CLUSTER_INVALID", fault.Invalid, "a parameter of the cluster does not fit",
		"Correct the parameter that the message names and send the request again.")
	EntityRefused = declare("ENTITY_REFUSED", fault.Invalid, "a zone, offering, template, network or key pair cannot be used",
		"Choose another one: `pawl cluster catalog KIND` and `/v1/catalog` list what there is; on the query API use listZones and the other list commands.")
	AccessRefused = declare("ACCESS_REFUSED", fault.Invalid, "this account may not use that",
		"Ask the owner, the domain's admin or an operator.")
	JobNotFound = declare("JOB_NOT_FOUND", fault.Invalid, "there is no such job, or it is not yours to see",
		"Jobs are kept for a day after they end; list them with listAsyncJobs.")
	JobReused = declare("JOB_ID_REUSED", fault.Invalid, "the job id was used for another request",
		"Use a new customjobid for each new request.")
	RunCancelled = declare("RUN_CANCELLED", fault.Blocked, "the run of the cluster was cancelled",
		"Recover, start, scale or delete the cluster.")
	AccountLimit = declare("ACCOUNT_LIMIT", fault.Blocked, "a limit of the account does not allow this",
		"Delete what is not needed, or ask an operator to raise the limit with `pawl account limit NAME`.")
	RecoveryForbidden = declare("RECOVERY_FORBIDDEN", fault.Blocked, "the recovery policy of the cluster does not allow what is needed",
		"Recover by hand with a wider policy: `pawl cluster recover NAME --recovery restart,replace`.")
	LastControl = declare("LAST_CONTROL_NODE", fault.Blocked, "the last control node is replaced only with consent",
		"Save what it holds, then recover or upgrade with --consent.")
	DowntimeRefused = declare("DOWNTIME_NOT_ALLOWED", fault.Invalid, "the only control node is upgraded in place, and the endpoint is away meanwhile",
		"Look at the plan with --dry-run, then allow it: --allow-downtime, allowDowntime on /v1, allowdowntime=true on the query API. With three control nodes the endpoint stays.")
	UpgradeIncomplete = declare("UPGRADE_INCOMPLETE", fault.Blocked, "a node keeps its old version",
		"Read the node's log with `pawl cluster logs NAME NODE`; upgrade to the same version again: only nodes of another version are touched. A node that cannot be upgraded in place is replaced with --consent.")
	ForeignVM = declare("NETWORK_HAS_FOREIGN_VM", fault.Blocked, "a foreign VM is in the network of the cluster",
		"Move or delete the VM that the message names; the collector then removes the network. Nothing of others is touched.")
	NodeMissing = declare("NODE_MISSING", fault.Blocked, "a VM of the cluster is gone or does not start",
		"Recover the cluster with --recovery restart,replace.")
	NodeNotStopped = declare("NODE_NOT_STOPPED", fault.Blocked, "a VM of the cluster did not stop",
		"Stop again with --forced, or look at the VM at the provider.")
	NodesNotReady = declare("NODES_NOT_READY", fault.Blocked, "not every node joined in time",
		"Read the node's log with `pawl cluster logs NAME NODE`, then recover.")
	EndpointSilent = declare("ENDPOINT_SILENT", fault.Blocked, "the endpoint of the cluster does not answer",
		"Read the control node's log with `pawl cluster logs NAME NODE`, then recover.")
	ClusterFaulty = declare("CLUSTER_FAULTY", fault.Blocked, "the cluster is not what it should be",
		"`pawl cluster drift NAME` says what differs; recover it, or let the recovery policy do so.")
	ResourceLeaked = declare("RESOURCE_LEAKED", fault.Blocked, "a resource could not be deleted several times",
		"Delete it at the provider, or mend what the last fault says; the collector goes on by itself. `pawl cluster forget NAME` gives it up.")
	TokenRefused = declare("NODE_TOKEN_REFUSED", fault.Invalid, "the token of the node is unknown, expired, or for another node",
		"A node gets its token when it is created; replace the node by recovering the cluster.")
)

// The faults of providers.
var (
	CapacityExhausted = declare("CAPACITY_EXHAUSTED", fault.Blocked, "the provider has no capacity for this",
		"Ask for less, choose another zone or offering, or add capacity; then start, scale or recover again.")
	QuotaExceeded = declare("QUOTA_EXCEEDED", fault.Blocked, "a limit at the provider does not allow this",
		"Delete what is not needed or raise the limit at the provider; then start, scale or recover again.")
	CredentialsRefused = declare("CREDENTIALS_REFUSED", fault.Blocked, "the provider refuses the server's credentials",
		"Give the server valid credentials for this provider, then recover.")
	ProviderUnreachable = declare("PROVIDER_UNREACHABLE", fault.Transient, "the provider does not answer",
		"It is tried again. Look whether the provider is up and reachable from the server.")
	ProviderThrottled = fault.Declare(fault.Kind{Code: "PROVIDER_THROTTLED", Class: fault.Transient, Uncharged: true, Title: "the provider asks for fewer calls",
		Remedy: "It is tried again later. If this lasts, raise the limit at the provider or lower the limit in the server's configuration.", Guide: "container-clusters.md"})
	ProviderRefused = declare("PROVIDER_REFUSED", fault.Blocked, "the provider refuses the call",
		"Read the provider's text, mend what it names, then recover.")
	ResourceInUse = declare("RESOURCE_IN_USE", fault.Transient, "the provider says that the resource is still in use",
		"It is tried again. Look what uses the resource if this lasts.")
	RuleConflict = declare("RULE_CONFLICT", fault.Blocked, "a rule of another owner is in the way",
		"Remove the rule that the message names, or use another network.")
	// RunOvertaken is the fault of a job that a deletion of the cluster has ended.
	RunOvertaken = declare("OPERATION_OVERTAKEN", fault.Blocked, "a deletion has overtaken the operation",
		"Nothing is to be done: the cluster is being deleted.")
)
