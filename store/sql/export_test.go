package sql

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"zombiezen.com/go/sqlite"
)

// Crash ends a store as the death of its process would: it releases nothing. The file
// keeps what the kernel has of it, as after a kill.
func Crash(s *SQLite) (path string) {
	s.Close()
	return s.path
}

// Fill stops the growth of the file until the caller calls the returned function.
func Fill(t testing.TB, s *SQLite) func() {
	limit := func(pages string) {
		err := s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error {
			return query(w.conn, "PRAGMA max_page_count = "+pages, func(*sqlite.Stmt) error { return nil })
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(fmt.Sprint(1)) // SQLite raises this to the present size
	return func() { limit("1073741823") }
}

// Log returns the size of the log file, and how many bytes of it are pages.
func Log(t testing.TB, s *SQLite) (size, used int64) {
	err := s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error {
		info, err := os.Stat(s.path + "-wal")
		if err != nil {
			return err
		}
		n, ok := w.log.pages()
		if !ok {
			return errors.New("the index of the log cannot be read")
		}
		size, used = info.Size(), logHead+int64(n)*logPage
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return size, used
}

// LengthenBy sets by how many bytes the log grows at once.
func LengthenBy(s *SQLite, n int64) error {
	return s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error { w.log.growBy = n; return nil }})
}

// Unlengthened ends the lengthening, as a full disk does.
func Unlengthened(t testing.TB, s *SQLite) {
	err := s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error {
		readOnly, err := os.Open(s.path + "-wal")
		w.log.file.Close()
		w.log.file, w.log.size = readOnly, 0
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// Refuse makes writes into a table fail until the caller calls the returned function.
func Refuse(t testing.TB, s *SQLite, table string) func() {
	run := func(sql string) {
		err := s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error { return execute(w.conn, sql) }})
		if err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TRIGGER refuse BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
	return func() { run("DROP TRIGGER refuse") }
}
