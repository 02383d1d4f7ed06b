package sql

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// loadOrphans lists the runs of a dead owner. They are due at once.
func (s *SQLite) loadOrphans(ctx context.Context) error {
	return s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, "SELECT row FROM run WHERE due = 0 ORDER BY row", func(row *sqlite.Stmt) error {
			s.claims.orphans = append(s.claims.orphans, row.ColumnInt64(0))
			return nil
		})
	})
}

// socketPath is the path of the owner's socket. Unix limits its length.
func socketPath(path string) string {
	if beside := path + ".sock"; len(beside) < 100 {
		return beside
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), "pawl-"+hex.EncodeToString(sum[:8])+".sock")
}

// listen receives the ids of runs that clients have written. Without a socket, the
// engine's periodic poll finds them.
func (s *SQLite) listen() {
	path := socketPath(s.path)
	_ = os.Remove(path) // a dead owner left it: this process holds the lock
	socket, err := net.Listen("unix", path)
	if err != nil {
		return
	}
	_ = os.Chmod(path, 0o600)
	s.socket = socket
	s.done.Go(func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() { s.serveClient(conn) })
		}
	})
}

func (s *SQLite) serveClient(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if lines.Text() == db.ChangeChannel {
			s.changed.Notify()
			continue
		}
		s.wake.Notify(lines.Text())
	}
}

// wakeOwner sends the ids of runs that a client has written to the owner of the file.
func (s *SQLite) wakeOwner(ids []string) {
	if s.owner || len(ids) == 0 {
		return
	}
	conn, err := net.DialTimeout("unix", socketPath(s.path), time.Second)
	if err != nil {
		return // the file has no owner now; the next owner finds the runs due
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	w := bufio.NewWriter(conn)
	for _, id := range ids {
		_, _ = w.WriteString(id + "\n")
	}
	_ = w.Flush()
}
