package db

// Stats counts what was written since Open.
type Stats struct {
	Writes     int64 `json:"writes"`     // durable calls: Create, Save, Send and others
	Commits    int64 `json:"commits"`    // transactions; each is one sync
	Syncs      int64 `json:"syncs"`      // of the log: one for each commit, two more for each checkpoint
	Bytes      int64 `json:"bytes"`      // sent to the database as parameters; a number counts 8
	WALBytes   int64 `json:"walBytes"`   // written to the log; 0 if the database does not report it
	Statements int64 `json:"statements"` // executed for writing
}
