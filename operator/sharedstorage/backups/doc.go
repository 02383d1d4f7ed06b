// Package backups is the operator of SharedStorageBackups: base backups of clusters on shared
// storage.
//
//	Pending ─▶ BackingUp (flow TakeBackup) ─▶ Completed
//	               │ a fault                ─▶ Interrupted ── resume ─▶ BackingUp
//	               └ cancelled              ─▶ Cancelled
//
// A backup has a machine and runs of its own, so that it holds up nothing that its cluster does. The
// agent of the writer takes it (port.Archiver); the agent of a reader checks it. The repository, and
// not the object, is the backup: deleting the object leaves it there, and the retention of the
// cluster removes it.
package backups
