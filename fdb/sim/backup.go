package sim

type backups struct{}

func newBackups() backups { return backups{} }
