// Package cloudstack serves /client/api: the query API of CloudStack, which existing tools
// already use.
//
//	request ─▶ parameters ─▶ command ─▶ signature ─▶ rate ─▶ role ─▶ types ─▶ service
//	               │             │          │          │       │       │         │
//	               └────────────── {"…response":{"errorcode":…}} ◀─────┴─────────┘
//
// One table of commands routes, validates and describes the commands (listApis). The
// rules are those of CloudStack's API.
package cloudstack
