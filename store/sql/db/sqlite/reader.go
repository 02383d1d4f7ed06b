package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"
)

// reader is a read connection with its own goroutine: SQLite needs a deep stack, and
// the goroutines of callers are mostly new. It belongs to the caller that took it from
// SQLite.readers.
type reader struct {
	conn *sqlite.Conn
	stop chan struct{} // closing it interrupts the running query
	work chan func(*sqlite.Conn) error
	done chan readResult
}

// readResult is the result of a read.
type readResult struct {
	err      error
	panicked any // value of its panic
}

func newReader(conn *sqlite.Conn) *reader {
	r := &reader{conn: conn, work: make(chan func(*sqlite.Conn) error), done: make(chan readResult)}
	r.arm()
	go r.serve()
	return r
}

// arm gives the connection a new channel, which can interrupt it once.
func (r *reader) arm() {
	r.stop = make(chan struct{})
	r.conn.SetInterrupt(r.stop)
}

func (r *reader) serve() {
	defer close(r.done)
	for fn := range r.work {
		r.done <- r.transaction(fn)
	}
}

// transaction runs fn in one read transaction.
func (r *reader) transaction(fn func(*sqlite.Conn) error) (end readResult) {
	defer func() {
		if panicked := recover(); panicked != nil {
			end.panicked = panicked
		}
	}()
	if end.err = Execute(r.conn, "BEGIN"); end.err != nil {
		return end
	}
	defer func() {
		if r.conn.AutocommitEnabled() {
			return
		}
		if err := Execute(r.conn, "COMMIT"); end.err == nil {
			end.err = err
		}
	}()
	end.err = fn(r.conn)
	return end
}

// read runs fn in a transaction. The end of the context interrupts it.
func (r *reader) read(ctx context.Context, fn func(*sqlite.Conn) error) readResult {
	r.work <- fn
	select {
	case end := <-r.done:
		return end
	case <-ctx.Done():
	}
	close(r.stop)
	end := <-r.done
	r.arm()
	if !r.conn.AutocommitEnabled() { // its COMMIT was interrupted too
		_ = Execute(r.conn, "ROLLBACK")
	}
	return end
}

func (r *reader) close() {
	close(r.work)
	<-r.done
	r.conn.Close()
}
