package runstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// ChangePlaces changes documents of places. See PlaceStore.
func (m *Memory) ChangePlaces(ctx context.Context, keys []string, change func(time.Time, [][]byte) ([][]byte, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.placeMu.Lock()
	defer m.placeMu.Unlock()
	old := make([][]byte, len(keys))
	for i, key := range keys {
		old[i] = bytes.Clone(m.places[key])
	}
	documents, err := change(time.Now().UTC(), old)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if documents[i] == nil {
			delete(m.places, key)
			continue
		}
		m.places[key] = bytes.Clone(documents[i])
	}
	return nil
}

// Places returns documents of places. See PlaceStore.
func (m *Memory) Places(ctx context.Context, after string, limit int) ([]KeyPlaces, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.placeMu.Lock()
	defer m.placeMu.Unlock()
	var list []KeyPlaces
	for _, key := range slices.Sorted(maps.Keys(m.places)) {
		if key > after && len(list) < cmp.Or(limit, 1000) {
			list = append(list, KeyPlaces{key, bytes.Clone(m.places[key])})
		}
	}
	return list, nil
}
