package lock

import (
	"bytes"
	"context"
	"maps"
	"slices"
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

// List implements Lister.
func (m *Memory) List(ctx context.Context, after string, limit int) (values []Value, now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, now, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		if name > after && len(values) < limit {
			values = append(values, Value{Name: name, Data: bytes.Clone(m.values[name])})
		}
	}
	return values, time.Now(), nil
}
