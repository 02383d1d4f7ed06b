// Package control brings objects of any source closer to their spec: list and watch, cache, queue, workers.
//
//	Source ──list, watch──▶ Shared ──▶ Cache (Synced, indexes, copies)
//	                          │
//	                          ├──▶ handler, handler, …      a slow one delays no other
//	                          └──predicate──▶ Queue ──key──▶ workers ──▶ Reconcile ──▶ outcome
//	                                            ▲                                        │
//	                                            └── later: Wait, Later, Fail (backoff) ◀─┘
//
// An event carries a key, never an instruction: Reconcile reads the newest
// state and decides from that. On Kubernetes controller-runtime plays this
// part; controltest is the exam that both pass.
//
// Object is what is reconciled where there is no Kubernetes, and Objects is
// the store that keeps it. The rules are those of the specification of the
// core, section 6.
package control
