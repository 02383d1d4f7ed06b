package sqlite

import (
	"errors"
	"os"
	"testing"
)

// in runs fn in the writer.
func in(t testing.TB, d *DB, fn func(w *Writer) error) {
	t.Helper()
	if err := d.Do(Func{Run: fn}, false); err != nil {
		t.Fatal(err)
	}
}

// Log returns the size of the log file, and how many bytes of it are pages.
func Log(t testing.TB, d *DB) (size, used int64) {
	t.Helper()
	in(t, d, func(w *Writer) error {
		info, err := os.Stat(d.path + "-wal")
		if err != nil {
			return err
		}
		n, ok := w.log.pages()
		if !ok {
			return errors.New("the index of the log cannot be read")
		}
		size, used = info.Size(), logHead+int64(n)*logPage
		return nil
	})
	return size, used
}

// LengthenBy sets by how many bytes the log grows at once.
func LengthenBy(d *DB, n int64) error {
	return d.Do(Func{Run: func(w *Writer) error { w.log.growBy = n; return nil }}, false)
}

// Unlengthened ends the lengthening, as a full disk does.
func Unlengthened(t testing.TB, d *DB) {
	t.Helper()
	in(t, d, func(w *Writer) error {
		readOnly, err := os.Open(d.path + "-wal")
		w.log.file.Close()
		w.log.file, w.log.size = readOnly, 0
		return err
	})
}
