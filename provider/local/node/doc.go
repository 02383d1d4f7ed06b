// Package node is the program that a VM of provider/local runs: a small cluster
// node that needs nothing but its data directory.
//
//	worker ── POST /join, every 10 s, TLS with the CA pinned ──▶ control node ── /version /nodes /join
//	   └───────────── POST {home}/v1/nodes/hello ◀───────────────────┘
//
// It says hello at home until it is told to drain, whether home is there or
// not. It ends with its context, and when its data directory is gone: whatever
// removes the directory has removed the node.
package node
