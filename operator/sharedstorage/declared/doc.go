// Package declared makes users, databases, publications and subscriptions of a writer as the spec of its cluster
// declares them. All four go one way, in a pass over the cluster:
//
//	spec, passwords ─▶ wanted ─┐
//	                           ├─ plan ─▶ statements ─ execute ─▶ problems ─▶ conditions, status, events
//	server ──────────▶ found ──┘
//
// The plan is pure. What is not declared by name is left alone, and dropped only with ensure: absent. The order of
// statements is that in which PostgreSQL can carry them out: users, their memberships, databases, extensions, then
// what is dropped, users last; publications before subscriptions. A slot is made with its subscription only: one that
// is made anew would begin now, and the subscriber would miss what was written before.
//
// A password of a user is in a statement as its SCRAM-SHA-256 verifier only (RFC 5803). Statements of subscriptions
// have passwords in clear text, as PostgreSQL wants it; what they say of themselves for people has none.
//
// A look at a server is kept for Options.Interval, and until the spec, a password or the writer changes. An object
// with a problem is left alone for Options.RetryInterval, then for twice as long each time, so that troubles that only
// a person ends cost nothing; its problem stays told, and the other objects are looked at as ever.
package declared
