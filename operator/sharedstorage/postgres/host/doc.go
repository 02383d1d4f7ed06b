// Package host is what a shared-storage instance uses of its machine: files that survive a crash, locks,
// and processes that are known beyond their pid.
//
//	host.WriteJSON(path, record)           after a crash there is the old or the new one
//	lock, err := host.TryLock(path)        the end of the process releases it
//	p := host.ProcessOf(pid); p.Running()  false for a later process with the same pid
package host
