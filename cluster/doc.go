// Package cluster holds what container clusters are, and every judgement about them.
//
//	what a caller wants ──▶ Cluster.Desired ─┐
//	what was made       ──▶ journal, nodes ──┼─▶ Due, Judge, PlanRecovery, Victims … ──▶ one event, one act
//	what a provider says ─▶ Resource ────────┘
//
// A cluster is control nodes, worker nodes, a network, an address and rules on
// an infrastructure without transactions. Any call may fail half-way; any
// resource may change behind our back. Nothing here calls anything: Provider is
// the infrastructure, Books is where records are kept, and cluster/service is
// what acts. The rules are those of the specification of container clusters.
package cluster
