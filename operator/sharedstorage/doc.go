// Package sharedstorage is the operator of database clusters with one writer and many readers, which
// share the data in one of two modes: copies, in which each instance has its own and streams from the
// writer (PostgreSQL does), or shared, in which all open one volume.
//
//	o, err := sharedstorage.New(sharedstorage.Options{Store: clusters, Ports: ports})
//	engine, err := o.Engine(store, workflow.Options{})   // its flows, steps, healers and hook
//	out := o.Reconcile(ctx, o.Key("default", "blue"))    // one pass; engine.Serve works on the runs
//
// A pass has three parts: observe, decide, act.
//
//	load ─▶ accept requests ─▶ observe through the ports ─▶ machine ─▶ repair ─▶ write status once
//
// This package has all that does not depend on where a cluster runs: the machine (table.go), the
// flows (flows/*.yaml), their steps, requests, conditions and healers. A ClusterStore keeps the
// cluster objects, and the ports reach volumes, instances, engines and the cluster manager.
package sharedstorage
