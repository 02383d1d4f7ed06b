//go:build !linux

package postgres

import "syscall"

// userTimeout does nothing: the limits of the system apply.
func userTimeout(string, string, syscall.RawConn) error { return nil }
