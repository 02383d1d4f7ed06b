// Package bulk sends one request to all runs of a selection.
//
//	kind: Bulk
//	metadata: {name: b7k2mq}
//	spec:
//	  verb: resume                # pause, cancel, skip, signal
//	  flow: Deploy
//	  fault: DISK_FULL
//	  selector: region=eu
//	  createdBefore: "2026-11-28T11:30:00Z"
//	  actor: ann
//	  reason: disks were replaced
//
// The object is the order and its record. A worker reads the selection page by page and never
// holds more than one page:
//
//	store ──▶ page of runs ──▶ status: pending ids, cursor behind them      compare-and-swap
//	                              │
//	                              ├──▶ each pending run: the request, under the id of the bulk    once per run
//	                              │
//	                              └──▶ status: counts, refusals, the next page                    compare-and-swap
//
// A worker that dies between these writes leaves pending ids, to which the next worker sends the
// request again. A run accepts a request id once, so nothing happens twice, and each run is
// counted once.
package bulk
