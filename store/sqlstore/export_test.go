package sqlstore

import (
	"fmt"
	"testing"

	"zombiezen.com/go/sqlite"
)

// Crash ends a store as the end of its process would: nothing is given back.
// What the kernel has of the file stays, as after a kill.
func Crash(s *SQLite) (path string) {
	s.Close()
	return s.path
}

// Fill lets the file grow no further until the answer is called.
func Fill(t testing.TB, s *SQLite) func() {
	limit := func(pages string) {
		err := s.writer.do(&sqWrite{bare: true, run: func(w *sqWriter) error {
			return query(w.conn, "PRAGMA max_page_count = "+pages, func(*sqlite.Stmt) error { return nil })
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(fmt.Sprint(1)) // SQLite takes the present size
	return func() { limit("1073741823") }
}
