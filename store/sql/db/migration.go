package db

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

//go:embed schema
var schema embed.FS

// Faults of the schema.
var (
	SchemaNewer = fault.Declare(fault.Kind{
		Code: "SCHEMA_NEWER", Class: fault.Blocked,
		Title:  "the database was made by a newer version of the program",
		Remedy: "Start the newer version again. The schema never goes back; to return, restore a backup from before the upgrade.",
	})
	SchemaChanged = fault.Declare(fault.Kind{
		Code: "SCHEMA_CHANGED", Class: fault.Blocked,
		Title:  "a migration the database has applied is not the one this program knows",
		Remedy: "Start the version that made the database, or restore its export into a new one.",
	})
)

// Migration is one numbered file of schema/<dialect>.
type Migration struct {
	Number   int
	Name     string
	SQL      string
	Checksum string
}

// Applied is one row of the table migration.
type Applied struct {
	Number   int
	Checksum string
}

// MigrationTable is created before all others, in both dialects.
const MigrationTable = `CREATE TABLE IF NOT EXISTS migration (
	number   integer PRIMARY KEY,
	name     text NOT NULL,
	checksum text NOT NULL,
	at       bigint NOT NULL
)`

// Migrations reads the files of a dialect in the order of their numbers.
func Migrations(dialect string) []Migration {
	dir := "schema/" + dialect
	entries, err := schema.ReadDir(dir)
	if err != nil {
		panic(err) // the files are embedded in the binary
	}
	var list []Migration
	for i, entry := range entries {
		data, err := schema.ReadFile(path.Join(dir, entry.Name()))
		number, bad := strconv.Atoi(strings.SplitN(entry.Name(), "_", 2)[0])
		if err != nil || bad != nil || number != i+1 {
			panic("store/sql: " + entry.Name() + " is out of order")
		}
		sum := sha256.Sum256(data)
		list = append(list, Migration{Number: number, Name: entry.Name(), SQL: string(data), Checksum: hex.EncodeToString(sum[:])})
	}
	return list
}

// Missing returns the migrations that are not applied yet.
func Missing(known []Migration, done []Applied) ([]Migration, error) {
	for i, row := range done {
		switch {
		case i >= len(known):
			return nil, SchemaNewer.Errorf("the schema has number %d, this program knows %d", done[len(done)-1].Number, len(known))
		case row.Number != known[i].Number || row.Checksum != known[i].Checksum:
			return nil, SchemaChanged.Errorf("migration %s has another checksum than when it was applied", known[i].Name)
		}
	}
	return known[len(done):], nil
}
