package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// migrate brings the schema up to date, all or nothing.
func migrate(ctx context.Context, conn *sqlite.Conn) (err error) {
	if err := Execute(conn, "BEGIN IMMEDIATE"); err != nil {
		return Fault(err, "migrate")
	}
	defer func() {
		if err != nil {
			_ = Execute(conn, "ROLLBACK")
			err = Fault(err, "migrate")
		}
	}()
	// A database that is up to date must not be written to.
	var done []db.Applied
	if known, err := NewSession(conn).HasTable("migration"); err != nil {
		return err
	} else if !known {
		if err := Execute(conn, db.MigrationTable); err != nil {
			return err
		}
	}
	err = Query(conn, "SELECT number, checksum FROM migration ORDER BY number", func(row *sqlite.Stmt) error {
		done = append(done, db.Applied{Number: row.ColumnInt(0), Checksum: row.ColumnText(1)})
		return nil
	})
	if err != nil {
		return err
	}
	todo, err := db.Missing(db.Migrations("sqlite"), done)
	if err != nil {
		return err
	}
	for _, m := range todo {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := Script(conn, m.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
		if err := Execute(conn, "INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?)",
			m.Number, m.Name, m.Checksum, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	return Execute(conn, "COMMIT")
}
