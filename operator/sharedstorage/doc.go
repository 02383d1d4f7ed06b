// Package sharedstorage is the operator of clusters of one writer and many
// readers over shared storage.
//
//	o, err := sharedstorage.New(sharedstorage.Options{Home: home, Ports: ports})
//	engine, err := o.Engine(store, workflow.Options{})   // its flows, steps, healers and hook
//	out := o.Reconcile(ctx, o.Key("default", "blue"))    // one pass; engine.Serve works on the runs
//
// A pass is gather, decide, act:
//
//	load ─▶ accept requests ─▶ ask the ports once ─▶ machine ─▶ tend ─▶ status, one write
//
// What is written once stands here: the machine (table.go), the flows
// (flows/*.yaml), their steps (named after what they touch), requests,
// conditions, healers. Where clusters are kept and where engines run is asked
// of a Home and of the ports.
package sharedstorage
