// Package rollout serves Rollouts: it changes workloads of Kubernetes in batches, as package rollout
// decides. A pass over one Rollout is a chain:
//
//	Load       its status is the position, its spec the plan
//	Accept     one request in its annotations
//	Locate     the workload, by a cache of those with the label; label it
//	Observe    workload, pods, budgets; at rest nothing that has not changed
//	Decide     rollout.Next: position, acts, what it waits for
//	Save       position, history and conditions, in one write
//	Act        at most one write to each workload
//	Ask        webhooks, metrics, probes and handovers, beside the passes: an answer wakes the Rollout
//	Answer     remove the annotation of the request
//	Release    a deleted Rollout lets go
//
// and the end of a pass is Report, which writes what the links after Save have met.
//
// Pods are watched from the moment when something moves until it has ended, by the selector of the
// workload. At rest there are no calls and no watches but those of Rollouts and labelled workloads.
package rollout
