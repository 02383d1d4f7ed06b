// Package restores carries out restores of backups into FoundationDB clusters, each once, under a tag of its own.
//
//	o := restores.New(objects, database, restores.Options{})
//	out := o.Reconcile(ctx, ref)   // one pass: gather, decide, act, write the status once
//	plan, err := o.Plan(ctx, ref)  // what the next pass would do
//
// How a restore is known to be ours:
//
//	tag from the object's UID     every line of the tag is ours: a start with lost reply is found by it
//	tag from the spec             the status claims the tag while the database knows none; a pass later it is ours
//	status of another operator    its tag was "default"; it is watched and never started again
//
// A restore that has ended is not asked for again, so nobody's later use of its tag is shown as its state.
package restores
