package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"
	"zombiezen.com/go/sqlite"
)

// BenchmarkDriver compares the two pure-Go drivers on the work of the writer:
// batches of 100 steps, each an update by key and an append, one commit a batch
// (docs/adr/0010-sqlite-driver.md). One operation is one step.
func BenchmarkDriver(b *testing.B) {
	const setup = `CREATE TABLE raw_run (row INTEGER PRIMARY KEY, revision INTEGER NOT NULL, body BLOB NOT NULL);
		CREATE TABLE raw_event (row INTEGER PRIMARY KEY, run INTEGER NOT NULL, data BLOB NOT NULL);
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO raw_run SELECT i, 0, zeroblob(60) FROM n;`
	const update = "UPDATE raw_run SET revision = revision + 1, body = ? WHERE row = ? AND revision = ?"
	const insert = "INSERT INTO raw_event (row, run, data) VALUES (?, ?, ?)"
	data := make([]byte, 60)

	zombiezen := func(b *testing.B, savepoint bool) {
		conn, err := sqlite.OpenConn(filepath.Join(b.TempDir(), "raw.db"), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		must(Execute(conn, "PRAGMA synchronous = full"))
		must(Script(conn, setup))
		one, two := conn.Prep(update), conn.Prep(insert)
		run := func(stmt *sqlite.Stmt) {
			_, err := stmt.Step()
			must(err)
			must(stmt.Reset())
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += 100 {
			must(Execute(conn, "BEGIN IMMEDIATE"))
			for k := range 100 {
				if savepoint {
					must(Execute(conn, "SAVEPOINT one"))
				}
				one.BindBytes(1, data)
				one.BindInt64(2, int64(k))
				one.BindInt64(3, int64(i/100))
				run(one)
				two.BindInt64(1, int64(i+k+1))
				two.BindInt64(2, int64(k))
				two.BindBytes(3, data)
				run(two)
				if savepoint {
					must(Execute(conn, "RELEASE one"))
				}
			}
			must(Execute(conn, "COMMIT"))
		}
	}
	b.Run("zombiezen", func(b *testing.B) { zombiezen(b, false) })
	b.Run("zombiezen with a savepoint each", func(b *testing.B) { zombiezen(b, true) })
	b.Run("modernc", func(b *testing.B) {
		db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "raw.db")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		conn, err := db.Conn(context.Background())
		must(err)
		defer conn.Close()
		_, err = conn.ExecContext(b.Context(), setup)
		must(err)
		one, err := conn.PrepareContext(b.Context(), update)
		must(err)
		defer one.Close()
		two, err := conn.PrepareContext(b.Context(), insert)
		must(err)
		defer two.Close()
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += 100 {
			_, err := conn.ExecContext(b.Context(), "BEGIN IMMEDIATE")
			must(err)
			for k := range 100 {
				_, err := one.ExecContext(b.Context(), data, k, i/100)
				must(err)
				_, err = two.ExecContext(b.Context(), i+k+1, k, data)
				must(err)
			}
			_, err = conn.ExecContext(b.Context(), "COMMIT")
			must(err)
		}
	})
}
