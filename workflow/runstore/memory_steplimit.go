package runstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// ChangeStepLimits changes documents of limits. See StepLimiter.
func (m *Memory) ChangeStepLimits(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.documentMu.Lock()
	defer m.documentMu.Unlock()
	old := make([][]byte, len(keys))
	for i, key := range keys {
		old[i] = bytes.Clone(m.documents[key])
	}
	documents, err := change(time.Now().UTC(), old)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if documents[i] == nil {
			delete(m.documents, key)
			continue
		}
		m.documents[key] = bytes.Clone(documents[i])
	}
	return nil
}

// StepLimits returns documents of limits. See StepLimiter.
func (m *Memory) StepLimits(ctx context.Context, after string, limit int) ([]KeyState, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.documentMu.Lock()
	defer m.documentMu.Unlock()
	var list []KeyState
	for _, key := range slices.Sorted(maps.Keys(m.documents)) {
		if key > after && len(list) < cmp.Or(limit, 1000) {
			list = append(list, KeyState{key, bytes.Clone(m.documents[key])})
		}
	}
	return list, nil
}
