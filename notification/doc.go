// Package notification sends signed webhooks about what happens to runs, objects and container clusters.
//
//	kind: Notification
//	metadata: {name: on-call}
//	spec:
//	  url: https://hooks.example.com/pawl       # or urlFrom: {name: chat, key: url}
//	  secrets: [{name: hooks, key: signing}]    # whsec_…; several while one is replaced
//	  events: [run.paused, fault.raised]
//	  filter: event.flow == "Backup" && event.labels.team == "blue"   # CEL
//	  format: slack                             # json, teams; or template: '{"text": {{json .Message}}}'
//	  attempts: 12
//
// The history of the runs in the store is the queue: an event is durable before anybody can know
// of it. The status keeps how far the history was read, and what is to be sent again:
//
//	history ──▶ read past the cursor ──▶ filter ──▶ POST ──▶ status: cursor, waiting, dead    compare-and-swap
//	                                                  ▲                        │
//	                                                  └──── after a delay ─────┘
//
// Container clusters have a history of their own. Of other objects, the status keeps which interrupted ones
// were told: what differs from the store is the event.
//
// A server that dies between POST and write leaves the events to the next one, which sends them
// again under the same webhook-id. One server at a time works on a notification, by a lease.
package notification
