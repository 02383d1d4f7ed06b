// Package local is the provider whose VMs are processes of this machine.
//
//	Create ──▶ vms/<id>/vm.json ──▶ pawl node --dir vms/<id>   (its own session: it outlives the server)
//	Get    ──▶ directory gone: ErrGone │ process gone: Down │ /healthz answers with the identity: Up
//	Destroy ─▶ SIGTERM, SIGKILL of the group ──▶ directory gone
//
// All it knows stands in files of one data directory, so a server that starts
// again knows as much as the one before. A process id alone is never believed
// and never killed: boot, start time and directory must be right as well, and
// only an answer that carries the identity makes a VM Up.
//
// A VM has an address of its own in 127.64.0.0/10, or, on machines with one
// loopback address, ports of its own. A network is a range of such addresses.
// Public addresses and rules mean nothing here and are not made.
package local
