package postgres

import (
	"encoding/binary"
	"os"
	"path/filepath"
)

// slotDatabase is where the state file of a slot has the OID of its database: after magic, checksum,
// version and length of 4 bytes each, and the name of 64 (PostgreSQL's src/backend/replication/slot.c).
const slotDatabase = 4*4 + 64

// logicalSlots reports whether a data directory has a logical slot, which is one of a database. An engine
// that has one does not start with another wal_level than logical, and its files tell that before it runs.
func logicalSlots(data string) bool {
	slots, _ := os.ReadDir(filepath.Join(data, "pg_replslot")) // without data there is no slot
	for _, slot := range slots {
		text, err := os.ReadFile(filepath.Join(data, "pg_replslot", slot.Name(), "state"))
		if err == nil && len(text) >= slotDatabase+4 && binary.NativeEndian.Uint32(text[slotDatabase:]) != 0 {
			return true
		}
	}
	return false
}
