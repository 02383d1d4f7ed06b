// Package kubestore keeps runs in the API server of Kubernetes: as objects of the
// kind Run, or as ConfigMaps where no CRD may be installed. It passes the exam
// of every workflow.Store, with Claimer, Lister, Definitions and Retainer.
//
//	Create     POST of the object (its status-to-be stands in spec.birth), PATCH of the subject's slot
//	Save       one PATCH of what changed
//	Send       one PATCH of spec.signals
//	Claim      one PATCH per run that is due, none when nothing is
//	Load       one GET, past every cache
//	List, Next nothing: from the cache
//
// # What holds it together
//
// Every write names the version of the object it was decided on, so the API
// server refuses what was decided on an older one. The cache (one watch of runs,
// one of the leases of workers, and the answers to our own writes) therefore
// may be behind: that costs a read and a second decision, never a wrong write.
// Refusals that would be final for the caller are not given out of the cache.
// A write whose answer is lost is an error that leaves open whether it happened;
// the same write again is a conflict then, and a reader sees which it was.
//
// # What one write cannot do
//
// A save is one object. What belongs to another one follows right after, may be
// repeated by anyone, and is found undone by every process that watches:
//
//   - the slot of a subject is a Lease held by the name of a run's object. It gives
//     out queue numbers and has no end. Whoever finds its holder finished or gone
//     passes it on: the process that ended the run, the creator of the next one,
//     or any process that sees queued runs of a subject without an active one. It
//     goes with the object that owns it, or after the last run of the subject
//   - a signal to another run stands in status.outbox until it was delivered
//   - older events are written to an object of their own first and leave the run
//     with the next save; readers take each number once
//   - a consumed signal is noted in status and leaves spec with the next signal
//
// # Clocks
//
// The time of the API server is not available. Nothing compares the clocks of
// two machines to decide who may write: epochs and versions do that. The lease of
// a worker counts, for each process that watches, from the moment in which that
// process saw it change, by its own monotonic clock; giving a worker up is a
// guarded write that loses against a renewal. Clocks must run at about the same
// speed, as for leader election; their difference only shifts when a due time has
// come (a retry, a timer) for whoever claims it.
//
// # What idle costs
//
// Two watches, and the renewal of the leases of workers that own runs.
package kubestore
