// Package backups keeps the backups of FoundationDB clusters as their objects say: the agents, the backup in the
// database, whether it is paused, its period and its place.
//
//	o := backups.New(objects, database, backups.Options{})
//	out := o.Reconcile(ctx, ref)   // one pass: gather, decide, act, write the status once
//	plan, err := o.Plan(ctx, ref)  // what the next pass would do
//
// A pass is the chain of seven links in chain.go. Each link judges the facts that were gathered once, and acts
// afterwards. A backup that is as it should be is read and not written.
package backups
