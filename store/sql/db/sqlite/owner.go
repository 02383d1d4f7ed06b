package sqlite

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/store/sql/db"
)

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
func (d *DB) listen() {
	path := socketPath(d.path)
	_ = os.Remove(path) // a dead owner left it: this process holds the lock
	socket, err := net.Listen("unix", path)
	if err != nil {
		return
	}
	_ = os.Chmod(path, 0o600)
	d.socket = socket
	d.done.Go(func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			d.done.Go(func() { d.serveClient(conn) })
		}
	})
}

func (d *DB) serveClient(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if lines.Text() == db.ChangeChannel {
			d.changed.Notify()
			continue
		}
		d.Waker.Notify(lines.Text())
	}
}

// Owned reports whether a process owns the file: this one, or one that answers at its socket.
func (d *DB) Owned() bool {
	if d.owner {
		return true
	}
	conn, err := net.DialTimeout("unix", socketPath(d.path), time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// WakeOwner sends the ids of runs that a client has written to the owner of the file.
func (d *DB) WakeOwner(ids ...string) {
	if d.owner || len(ids) == 0 {
		return
	}
	conn, err := net.DialTimeout("unix", socketPath(d.path), time.Second)
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
