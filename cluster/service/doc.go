// Package service runs container clusters: it takes what callers ask, and moves
// clusters there.
//
//	Create, Change ──one Commit──▶ Books ──▶ walker ──machine──▶ run of the state ──▶ steps ──▶ journal ──▶ Provider
//	                                 ▲          ▲                                       ▲
//	       sync: list, Judge ────────┤          └── Unsettled, bells                    └── signals of hellos
//	       collector: garbage ───────┘
//
// A caller changes Desired and leaves an Ask. The walker is a machine over the
// lifecycle table: it fires what is due, starts one run a visit, and ends runs
// that failed. The runs write the journal before each call, so a crash at any
// moment leaves nothing that the books do not know.
package service
