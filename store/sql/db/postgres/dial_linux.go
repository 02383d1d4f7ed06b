package postgres

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// userTimeout makes the system end a connection whose data is not acknowledged.
func userTimeout(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedFor.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
