// Package databases decides which SQL makes the users and databases of a server as they are wanted.
//
//	spec, passwords ─▶ Wanted ─┐
//	                           ├─ Plan ─▶ statements, problems
//	server ─▶ port.Databases ──┘
//
// What is not wanted by name is left alone. The order is that in which PostgreSQL can carry it out:
// users, their memberships, databases, extensions; then what is dropped, users last. A password is in
// a statement as its SCRAM-SHA-256 verifier only (RFC 5803).
package databases
