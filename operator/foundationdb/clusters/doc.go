// Package clusters moves FoundationDB clusters on Kubernetes to what their objects ask for.
//
//	gather   Kubernetes' lists once, the database's status once         facts.go
//	observe  what the facts say of the cluster and of each group        status.go, groups.go
//	chain    26 links in order, each a judgement and its acts           chain.go, one file a link
//	save     the status, once, if anything in it has changed            reconcile.go
//
// All judgement is pure: a link decides from the pass alone, and what it decides is an act that the
// pass carries out, the plan prints, and a hold keeps from happening. What no link may do by itself
// stands in one file each: taking the lock (lock.go), opening a gate (gate.go), acting for the objects of
// other operators too (synchronisation.go), naming a victim for deletion (children.go).
package clusters
