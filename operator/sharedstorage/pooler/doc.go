// Package pooler supervises a PgBouncer in front of the writer of a shared-storage cluster.
//
//	clients ─▶ pgbouncer ─▶ writer        pause   clients wait, transactions end
//	             ▲                        resume  at the new writer, once it accepts writes
//	        supervisor ◀── operator       a pause ends by itself at its limit
//
// The Supervisor writes the configuration of pgbouncer, keeps it running, and takes orders over
// HTTP. Port is the other side: it implements port.Pooler with the supervisors that Hosts runs.
package pooler
