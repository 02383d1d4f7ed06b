// Package application serves Applications: sets of workloads with immutable revisions. A pass over one
// Application is a chain:
//
//	Load       the Application, its revisions and its Rollout
//	Leave      a deleted Application takes along what it owns, unless that is orphaned
//	Revise     the next revision, if the components are not those of the newest one
//	Judge      which component the plan moves, between which revisions, to which size
//	Look       the workloads
//	Withdraw   the Rollout goes when there is no plan any more
//	Apply      every component that is not rolled, by server-side apply
//	Drive      the Rollout gets pair, size and plan
//	Clean      Deployments without pods, revisions that nobody needs
//
// and the end of a pass is Report, which writes the conditions. The Rollout controller moves the pods;
// this one makes workloads, and deletes none but Deployments that were left without pods.
package application
