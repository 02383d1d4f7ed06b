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
// state and decides from that. On Kubernetes controller-runtime does this work;
// controltest is the conformance suite of both.
//
// Object is the type that is reconciled without Kubernetes, and Objects is the store
// that keeps it.
package control
