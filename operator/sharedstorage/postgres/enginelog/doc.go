// Package enginelog turns the log of a PostgreSQL engine into lines of JSON.
//
//	postgres ─ engine.log ─┬─ Forward: the standard output of a pod; keeps the file small
//	                       └─ Reader: a console on the same machine; leaves the file as it is
//
// The engine writes each message with Prefix, so that its time, process, SQLSTATE and session need no
// guessing.
package enginelog
