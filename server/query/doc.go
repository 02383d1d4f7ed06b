// Package query is the face at /client/api: the query API that programs for
// clouds already speak.
//
//	request ─▶ parameters ─▶ command ─▶ signature ─▶ rate ─▶ role ─▶ types ─▶ service
//	               │             │          │          │       │       │         │
//	               └────────────── {"…response":{"errorcode":…}} ◀─────┴─────────┘
//
// One table of commands routes, validates and describes itself (listApis). The
// rules are those of CloudStack's API.
package query
