package idempotency

import (
	"context"
	"sync"
	"time"
)

// Memory is a Store in the memory of the process.
type Memory struct {
	mu      sync.Mutex
	entries map[[2]string]*memoryEntry
	swept   time.Time
}

type memoryEntry struct {
	hash   string
	at     time.Time
	answer []byte
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{entries: map[[2]string]*memoryEntry{}}
}

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, account, key, hash string, keep, stale time.Duration) (bool, string, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.sweep(now, keep)
	at := [2]string{account, key}
	if e := m.entries[at]; e != nil && !ClaimFree(now.Sub(e.at), e.hash == hash, e.answer != nil, keep, stale) {
		return false, e.hash, e.answer, nil
	}
	m.entries[at] = &memoryEntry{hash: hash, at: now}
	return true, hash, nil, nil
}

// sweep removes entries older than keep, at most once a minute.
func (m *Memory) sweep(now time.Time, keep time.Duration) {
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for at, e := range m.entries {
		if now.Sub(e.at) >= keep {
			delete(m.entries, at)
		}
	}
}

// Answer implements Store.
func (m *Memory) Answer(_ context.Context, account, key string, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[[2]string{account, key}]; e != nil {
		e.answer = append([]byte{}, answer...) // never nil: nil means not answered
	}
	return nil
}

// Release implements Store.
func (m *Memory) Release(_ context.Context, account, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, [2]string{account, key})
	return nil
}
