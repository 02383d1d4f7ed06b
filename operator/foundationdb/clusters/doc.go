// Package clusters moves FoundationDB clusters on Kubernetes to what their objects ask for.
//
//	gather   Kubernetes' lists once, the database's status once         facts.go
//	observe  what the facts say of the cluster and of each group        status.go
//	chain    26 links in order, each a judgement and its acts           chain.go, one file a link
//	save     the status, once, if anything in it has changed            reconcile.go
//
// All judgement is pure: a link decides from the pass alone, and what it decides is an act that the
// pass carries out, the plan prints, and a hold keeps from happening.
// What they judge by is below internal:
//
//	probe         what database and sidecars say
//	stored        what was written against what is read
//	adoption      who has made the cluster
//	groups        the process groups: their members, their conditions, what their children lack
//	servers       who reports, who coordinates, what a restart would do
//	upgrades      what holds an upgrade back
//	coordinators  the first ones, and those that have moved
//	podfiles      the files in pods
//	removal       which groups go, and what excludes them
//	locks         what the operators of one database share
//	conditions    what is told of all that
//
// What no link may do by itself stands in one file each: taking the lock and acting for the objects of other operators
// too (locks.go), opening a gate (gate.go), naming a victim for deletion (children.go).
package clusters
