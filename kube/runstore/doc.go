// Package runstore keeps runs in the API server of Kubernetes: as objects of the
// kind Run, or as ConfigMaps where no CRD may be installed. It passes the
// conformance suite of runstore.Store, with Claimer, Lister, Definitions and Retainer.
//
//	Create     POST of the object (with its initial status in spec.birth), PATCH of the subject's slot
//	Save       one PATCH of what changed
//	Send       one PATCH of spec.signals
//	Claim      one PATCH per run that is due, none when nothing is
//	Load       one GET, past every cache
//	List, Next no request: the cache answers
//
// # Consistency
//
// Every write names the version of the object that it was decided on. The API
// server refuses a write that was decided on an older version. The cache is filled
// by one watch of runs, one watch of the leases of workers and the answers to our
// own writes. It may be behind: that costs a read and a second decision, never a
// wrong write. A refusal that is final for the caller is confirmed by a read first.
// When the answer to a write is lost, the caller gets an error and does not know
// whether the write happened. If it did, repeating it is a conflict, and a read
// shows the result.
//
// # Effects on other objects
//
// A save writes one object. Effects on other objects follow right after it. Any
// process may repeat them, and every process that watches notices when one is missing:
//
//   - The slot of a subject is a Lease whose holder is the name of a run's object. It
//     assigns queue numbers and does not expire. A process that finds its holder
//     finished or deleted passes it on: the process that ended the run, the creator of
//     the next run, or any process that sees queued runs of a subject without an
//     active one. The Lease is deleted with the object that owns it, or after the last
//     run of the subject.
//   - A signal to another run stays in status.outbox until it is delivered.
//   - Older events are first written to an object of their own. The next save removes
//     them from the run; readers take each number once.
//   - A consumed signal is noted in status. The next signal removes it from spec.
//
// # Clocks
//
// The time of the API server is not available. The clocks of two machines are never
// compared to decide who may write: epochs and versions decide that. Each process
// measures the lease of a worker by its own monotonic clock, from the moment when it
// saw the Lease change. Giving a worker up is a guarded write that loses against a
// renewal. Clocks must run at about the same speed, as for leader election. A
// difference between them only shifts when a retry or a timer is due.
//
// # Cost when idle
//
// Two watches, and the renewal of the leases of workers that own runs.
package runstore
