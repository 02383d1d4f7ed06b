// Package rollout decides how a running workload changes in batches: to another number of pods (a
// scale), or to another revision of the pod template (a rollout).
//
//	          rolloutPlan  status   what was seen
//	                │         │        │
//	                ▼         ▼        ▼
//	d := rollout.Next(plan, position, facts, now)
//	                │
//	                ├─ d.Position   where it stands: saved before the acts
//	                ├─ d.Acts       at most one write per workload
//	                ├─ d.Asks       hooks, metrics, gates, probes: their answers are facts of a later call
//	                ├─ d.Records    the history
//	                └─ d.Outcome    what it waits for
//
// Nothing here reads a clock, starts a goroutine or knows Kubernetes. All facts are plain values, so
// that a test, a preview and an embedder call the same functions as the operator does. Package
// workloadtest has a workload that plays with Next alone.
package rollout
