// Package failsafe decides whether a writer that cannot renew its lease may go on.
//
//	writer a, lease 10 s, no API server          b and c
//	12:00:08  may I go on until 12:00:18?   ──▶  b: yes, until then I take no lease
//	                                        ──▶  c: yes, until then I take no lease
//	12:00:08  a writes until 12:00:18, and asks again before that
//
// Whoever wants to write takes the lease first. So a writer is alone as long as all who could take
// it have promised not to. The rules, which Round, Promise and Recorded implement:
//
//  1. With its lease the writer records whom it would ask: all members, and itself. It asks
//     those of the last record that it knows to be written, and those of every later attempt.
//  2. It goes on if every one of them confirms in one round. It counts from the moment before
//     it asked, they from the moment at which they were asked.
//  3. It asks only while it may write, never to begin, and not longer than Recorded.For after it
//     asked for its last renewal.
//  4. Nobody takes a lease while its promise runs, and nobody promises while it takes a lease,
//     holds one, or knows of a newer writer.
//  5. An instance that is not in the record was not asked. It waits for Recorded.For beyond the
//     end of the lease.
//  6. An instance is its name and its node. One that was moved is another one: the old one may
//     still run.
//
// Clocks are those since boot. Nobody compares the clock of one machine with that of another.
package failsafe
