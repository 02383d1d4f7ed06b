// Package cluster contains the types of container clusters and all decisions about
// them, as functions without side effects.
//
//	what a caller desires  ──▶ Cluster.Desired ─┐
//	what Pawl has created  ──▶ journal, nodes ──┼─▶ DueEvent, DecideHealth, PlanRecovery, Victims … ──▶ one event, one action
//	what a provider shows  ──▶ Resource ────────┘
//
// A cluster consists of control nodes, worker nodes, a network, an address and
// rules, on an infrastructure without transactions. Every call may fail half-way,
// and anybody may change a resource at any time. Nothing here calls anything:
// Provider is the infrastructure, Records stores the records, and the packages
// below act: api, controller, flows, resources, heartbeat, sync and gc, which
// cluster/service wires together.
package cluster
