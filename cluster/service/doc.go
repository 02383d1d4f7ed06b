// Package service runs container clusters: it accepts requests and brings
// clusters to their desired state.
//
//	Create, Change ──one Commit──▶ Store ──▶ controller ──machine──▶ run of the state ──▶ steps ──▶ journal ──▶ Provider
//	                                 ▲           ▲                                          ▲
//	 sync: list, DecideHealth ───────┤           └── Unsettled, notify                      └── signals of heartbeats
//	 collector: garbage ─────────────┘
//
// A caller changes Desired and stores a Request. The controller is a machine
// over the lifecycle table: it fires due events, starts one run for each visit
// of a transient state, and ends failed runs. A run writes the journal before
// each call to the provider, so a crash at any moment leaves no resource
// without a record.
package service
