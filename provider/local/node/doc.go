// Package node is the program of a VM of provider/local: a small cluster node that
// needs only its data directory.
//
//	worker ── POST /join, every 10 s, TLS with the CA pinned ──▶ control node ── /version /nodes /join
//	   └───────────── POST {home}/v1/nodes/heartbeat ◀───────────────────┘
//
// It sends heartbeats to the server (home) for as long as it runs, whether the
// server answers or not. It ends with its context, and when its data directory is
// gone: removing the directory removes the node.
package node
