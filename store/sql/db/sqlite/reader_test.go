package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
)

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

// A connection can be used after a caller has cancelled, failed or panicked in it, with
// no effect on the next caller.
func TestReaderServesTheNextCaller(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "pawl.db"), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failure := errors.New("of the caller")
	for name, spoil := range map[string]func(t *testing.T){
		"given up in a statement": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			err := s.Select(ctx, func(conn *sqlite.Conn) error {
				cancel()
				return Execute(conn, endless)
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a read that was given up: %v", err)
			}
		},
		"given up before": func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Select(ctx, func(*sqlite.Conn) error { t.Error("it is read"); return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("a read of a caller that is gone: %v", err)
			}
		},
		"failed": func(t *testing.T) {
			if err := s.Select(t.Context(), func(*sqlite.Conn) error { return failure }); !errors.Is(err, failure) {
				t.Errorf("a read that failed: %v", err)
			}
		},
		"panicked": func(t *testing.T) {
			defer func() {
				if panicked := recover(); panicked != failure {
					t.Errorf("its caller gets %v", panicked)
				}
			}()
			_ = s.Select(t.Context(), func(*sqlite.Conn) error { panic(failure) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				spoil(t)
				n := 0
				err := s.Select(t.Context(), func(conn *sqlite.Conn) error {
					return Query(conn, "SELECT count(*) FROM run", func(*sqlite.Stmt) error { n++; return nil })
				})
				if err != nil || n != 1 {
					t.Fatalf("the next read returns %d rows, %v", n, err)
				}
			}
		})
	}
	s.Close()
	if err := s.Select(t.Context(), func(*sqlite.Conn) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("a read of a closed store: %v", err)
	}
}
