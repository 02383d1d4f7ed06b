package lock

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Memory holds locks in the memory of one process. The zero Memory is ready.
type Memory struct {
	mu     sync.Mutex
	values map[string][]byte
}

// Transact implements Backend.
func (m *Memory) Transact(ctx context.Context, name string, change func(now time.Time, old []byte) ([]byte, bool)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next, write := change(time.Now(), bytes.Clone(m.values[name]))
	switch {
	case !write:
	case next == nil:
		delete(m.values, name)
	default:
		if m.values == nil {
			m.values = map[string][]byte{}
		}
		m.values[name] = bytes.Clone(next)
	}
	return nil
}

// Read implements Backend.
func (m *Memory) Read(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.values[name]), nil
}
