package sqlite_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// BenchmarkSync writes and syncs a page of the log: after the end of a file, and over
// existing bytes (docs/adr/0054).
func BenchmarkSync(b *testing.B) {
	page := make([]byte, 4096+24)
	sync := func(b *testing.B, file *os.File, at int) {
		if _, err := file.WriteAt(page, int64(at*len(page))); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	for _, there := range []int{0, 1000} {
		name := "append"
		if there > 0 {
			name = "replace"
		}
		b.Run(name, func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			if _, err := file.Write(make([]byte, there*len(page))); err != nil {
				b.Fatal(err)
			}
			if err := file.Sync(); err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				if there > 0 {
					n %= there
				}
				sync(b, file, n)
			}
		})
	}
}
