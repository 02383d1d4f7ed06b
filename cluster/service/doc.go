// Package service wires the parts of the container cluster service together.
//
//	api ──one Commit──▶ Store ──▶ controller ──machine──▶ run of the state ──▶ flows ──▶ resources ──▶ Provider
//	                      ▲           ▲                                          ▲
//	 sync: DecideHealth ──┤           └── Unsettled, Notify                      └── signals of heartbeat
//	 gc: garbage ─────────┘
//
// A caller changes Desired and stores a Request. The controller is a machine
// over the lifecycle table: it fires due events, starts one run for each visit
// of a transient state, and ends failed runs. A run writes the journal before
// each call to the provider, so a crash at any moment leaves no resource
// without a record.
package service
