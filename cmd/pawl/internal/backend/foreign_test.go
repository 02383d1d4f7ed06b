package backend

import (
	"errors"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/fault"
	sqlitedb "github.com/pawl-dev/pawl/store/sql/db/sqlite"
)

// Another program's database is refused before any file is created beside it.
func TestFinding10ForeignDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bookmarks.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteScript(conn, "CREATE TABLE bookmark (url TEXT)", nil), conn.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []bool{true, false} {
		if _, err := OpenStore(t.Context(), StoreOptions{DSN: path}, client); fault.Of(err) != sqlitedb.StoreForeign {
			t.Errorf("client %v: %v", client, err)
		}
	}
	if beside, _ := filepath.Glob(path + "*"); len(beside) != 1 {
		t.Errorf("beside it are %v", beside)
	}
}
