// Package local is a provider that runs VMs as processes of this machine.
//
//	Create ──▶ vms/<id>/vm.json ──▶ pawl node --dir vms/<id>   (its own session: it outlives the server)
//	Get    ──▶ directory gone: ErrGone │ process gone: down │ /healthz answers with the identity: up
//	Destroy ─▶ SIGTERM, SIGKILL of the group ──▶ directory gone
//
// All its state is in files of one data directory, so a restarted server has the
// same state. It never trusts or kills a process by its id alone: boot, start time
// and directory must also match, and only an answer with the identity makes a VM up.
//
// Each VM has its own address in 127.64.0.0/10 or, on machines with one loopback
// address, its own ports. A network is a range of such addresses. Public addresses
// and rules do not exist here.
package local
