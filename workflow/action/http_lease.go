package action

import (
	"net"

	"github.com/pawl-dev/pawl/workflow"
)

// leased wraps connections so that they write only while the worker's lease is valid, because
// the process may have been suspended since the request was created. nil without a lease.
func leased(task *workflow.Task) func(net.Conn) net.Conn {
	if _, shared := task.Lease(); !shared {
		return nil
	}
	return func(c net.Conn) net.Conn { return leasedConn{c, task} }
}

type leasedConn struct {
	net.Conn
	task *workflow.Task
}

// Write implements net.Conn.
func (c leasedConn) Write(p []byte) (int, error) {
	if left, _ := c.task.Lease(); left <= 0 {
		return 0, workflow.ErrLeaseLost
	}
	return c.Conn.Write(p)
}
