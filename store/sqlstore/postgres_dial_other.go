//go:build !linux

package sqlstore

import "syscall"

// userTimeout is left to the system's own limits.
func userTimeout(string, string, syscall.RawConn) error { return nil }
