package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The log is longer than its pages, so a commit overwrites bytes and does not lengthen
// the file.
func TestLogIsLengthenedAhead(t *testing.T) {
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	r := sqltest.Start(t, s, 1, "w")
	before, used := sqlite.Log(t, s.DB)
	if before < used+1<<20 {
		t.Fatalf("the log has %d bytes, %d of them pages", before, used)
	}
	for n := range 50 {
		if err := sqltest.Step(t, s, r, n); err != nil {
			t.Fatal(err)
		}
	}
	after, more := sqlite.Log(t, s.DB)
	if after != before || more <= used {
		t.Errorf("50 steps made the log grow from %d to %d bytes, its pages from %d to %d", before, after, used, more)
	}
	if err := sqlite.LengthenBy(s.DB, 16<<10); err != nil {
		t.Fatal(err)
	}
	for n := 50; n < 2000; n++ {
		if err := sqltest.Step(t, s, r, n); err != nil {
			t.Fatal(err)
		}
	}
	if size, used := sqlite.Log(t, s.DB); size <= before || used > size {
		t.Errorf("after 2,000 steps the log has %d bytes, %d of them pages; it had %d", size, used, before)
	}
}

// A client does not lengthen the log: it writes once and exits.
func TestClientDoesNotLengthenTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := sqltest.OpenSQLite(t, sql.Options{Path: path, Client: true})
	sqltest.Start(t, s, 1, "")
	if size, used := sqlite.Log(t, s.DB); size != used {
		t.Errorf("the log has %d bytes, %d of them pages", size, used)
	}
}

// A file and its log after a loss of power, without the index of the log: zeros after
// the pages, and a log of zeros alone, are not pages.
func TestZerosOfTheLogAreNoPages(t *testing.T) {
	from := filepath.Join(t.TempDir(), "pawl.db")
	s := sqltest.OpenSQLite(t, sql.Options{Path: from})
	for n := range 20 {
		r := sqltest.Start(t, s, n, "w")
		if err := sqltest.Step(t, s, r, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, used := sqlite.Log(t, s.DB)
	file, log := read(t, from), read(t, from+"-wal")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := read(t, from)
	for name, left := range map[string]struct {
		file, log []byte
		runs      int
	}{
		"as it is":                      {file, log, 20},
		"cut off within the zeros":      {file, log[:used+5000], 20},
		"cut off behind the last page":  {file, log[:used], 20},
		"zeros alone":                   {whole, make([]byte, 1<<20), 20},
		"less than a page of zeros":     {whole, make([]byte, 100), 20},
		"zeros in place of the newest":  {file, append(append([]byte{}, log[:used-4120]...), make([]byte, 1<<20)...), 19},
		"the newest page is half there": {file, append(append([]byte{}, log[:used-2000]...), make([]byte, 1<<20)...), 19},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pawl.db")
			for name, data := range map[string][]byte{path: left.file, path + "-wal": left.log} {
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := sqltest.OpenSQLite(t, sql.Options{Path: path})
			for n := range left.runs {
				r, _, err := s.Load(t.Context(), fmt.Sprintf("r%025d", n))
				if err != nil || r.Revision != 2 {
					t.Fatalf("run %d: %+v, %v", n, r, err)
				}
			}
			sqltest.Start(t, s, 100, "w")
			if report, err := s.Check(t.Context()); err != nil || !report.Healthy {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Clients write to the log too. The owner never writes where they do.
func TestLogIsLengthenedBesideClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	owner := sqltest.OpenSQLite(t, sql.Options{Path: path})
	if err := sqlite.LengthenBy(owner.DB, 4<<10); err != nil {
		t.Fatal(err)
	}
	client := sqltest.OpenSQLite(t, sql.Options{Path: path, Client: true})
	var all sync.WaitGroup
	for i, s := range []runstore.Store{owner, client, owner, client} {
		all.Go(func() {
			for n := range 100 {
				r := sqltest.DueRun(1000*i + n)
				if _, err := s.Create(t.Context(), r, []runtype.Event{{Seq: 1, At: r.CreatedAt, Kind: runtype.RunCreated}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if report, err := owner.Check(t.Context()); err != nil || !report.Healthy || report.Runs != 400 {
		t.Errorf("%+v, %v", report, err)
	}
}

// If the log cannot be lengthened, writes are only slower.
func TestLogThatCannotBeLengthened(t *testing.T) {
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	r := sqltest.Start(t, s, 1, "w")
	sqlite.Unlengthened(t, s.DB)
	for n := range 2000 {
		if err := sqltest.Step(t, s, r, n); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := s.Check(t.Context()); err != nil || !report.Healthy {
		t.Errorf("%+v, %v", report, err)
	}
}
