// Package pgtraffic is a client of a PostgreSQL cluster that commits one row after
// the other and records which commits were answered.
//
//	w := pgtraffic.Start(func(ctx context.Context) (string, error) { return "host=127.5.0.3 user=postgres", nil })
//	defer w.Stop()
//	…
//	missing, err := w.Missing(ctx, "host=127.5.0.4 user=postgres") // on this instance, after Stop
//
// After a commit without an answer the row may exist or not: the client does not
// reuse its number, and finds the writer again, as a Service would.
package pgtraffic

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	interval = 20 * time.Millisecond // between two attempts to connect
	patience = 5 * time.Second       // then the result of a commit is unknown
)

// Route returns the connection string of the writer.
type Route func(ctx context.Context) (string, error)

// Writer commits rows until it is stopped.
type Writer struct {
	route Route
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	answered []int64
	last     time.Time
	pause    time.Duration
	failed   int
	cause    error
	first    chan struct{}
}

// Start creates the table traffic and begins to write.
func Start(route Route) *Writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{route: route, stop: cancel, done: make(chan struct{}), first: make(chan struct{})}
	go func() {
		defer close(w.done)
		for n := int64(1); ctx.Err() == nil; {
			var err error
			if n, err = w.session(ctx, n); err != nil && ctx.Err() == nil {
				w.fail(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	}()
	return w
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed++
	w.cause = err
}

// session writes until an error, and returns the next number.
func (w *Writer) session(ctx context.Context, n int64) (int64, error) {
	conn, err := w.connect(ctx)
	if err != nil {
		return n, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the server may be gone
	}()
	for ; ctx.Err() == nil; n++ {
		if err := exec(ctx, conn, "INSERT INTO traffic VALUES ($1)", n); err != nil {
			return n + 1, err
		}
		w.note(n)
	}
	return n, nil
}

func (w *Writer) connect(ctx context.Context) (*pgx.Conn, error) {
	where, err := w.route(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, where)
	if err != nil {
		return nil, err
	}
	if err := exec(ctx, conn, "CREATE TABLE IF NOT EXISTS traffic (n bigint PRIMARY KEY)"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

func exec(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	return err
}

func (w *Writer) note(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.last.IsZero() {
		close(w.first)
	} else {
		w.pause = max(w.pause, now.Sub(w.last))
	}
	w.answered, w.last = append(w.answered, n), now
}

// Begun waits for the first answered commit.
func (w *Writer) Begun(ctx context.Context) error {
	select {
	case <-w.first:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(ctx.Err(), w.cause)
	}
}

// MaxPause returns the longest time between two answers since the last call, and resets
// it.
func (w *Writer) MaxPause() (pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause, w.pause = w.pause, 0
	if !w.last.IsZero() {
		pause = max(pause, time.Since(w.last))
	}
	return pause
}

// Silence returns the time since the last answered commit.
func (w *Writer) Silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}

// Stop stops writing and returns the number of answered commits.
func (w *Writer) Stop() int {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answered)
}

// Missing returns how many answered rows an instance lacks.
func (w *Writer) Missing(ctx context.Context, where string) (int, error) {
	conn, err := pgx.Connect(ctx, where)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	w.mu.Lock()
	answered := w.answered[:len(w.answered):len(w.answered)]
	w.mu.Unlock()
	var there int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM traffic WHERE n = ANY($1)", answered).Scan(&there)
	return len(answered) - there, err
}
