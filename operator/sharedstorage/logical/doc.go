// Package logical decides which SQL makes the publications and subscriptions of a server as they are wanted.
//
//	spec, passwords ─▶ Wanted ─┐
//	                           ├─ Plan ─▶ statements
//	server ─▶ port.Logical ────┘
//
// What is not wanted by name is left alone. A slot is made with its subscription only: one that is made
// anew would begin now, and the subscriber would miss what was written before. Statements of
// subscriptions have passwords in clear text, as PostgreSQL wants it; what they say of themselves for
// people has none.
package logical
