// Package schedule starts runs of a flow at the times of a calendar.
//
//	kind: Schedule
//	metadata: {name: nightly}
//	spec:
//	  cron: "30 2 * * *"          # or interval: 15m
//	  timeZone: Europe/Berlin
//	  flow: Backup
//	  input: {keep: 7}
//	  except: ["2026-12-24/2027-01-02", "05-01"]
//	  overlap: skip               # queue, replace
//	  catchUp: 1
//	  spread: 10m
//
// A tick is one time of the calendar. Each tick has exactly one run, or a record of why it was
// skipped, with any number of servers over one store:
//
//	object ──▶ Decide(spec, status, active run, now) ──▶ status: decided through, pending ticks    compare-and-swap
//	                                                        │
//	           the run of a tick has an id of its own ◀── start, once or again                      idempotent
//	                                                        │
//	                                                        └──▶ status: record, nothing pending    compare-and-swap
//
// A server that dies between these writes leaves a pending tick, which the next pass of any
// server starts under the same id.
package schedule
