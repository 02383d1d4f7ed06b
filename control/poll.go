package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// DefaultInterval is the interval in which Poll lists.
const DefaultInterval = 30 * time.Second

// pollHistory is the number of positions that a Poll can continue from.
const pollHistory = 8

// Poll makes a Source of a function that lists. An item that differs from the previous
// list is a Put, a missing item is a Delete. Versions are hashes of the content, so an
// equal list yields no change.
//
// A Poll must not be copied.
type Poll[T any] struct {
	// Items lists all items by key.
	Items func(ctx context.Context) (map[string]T, error)
	// Interval is the time between two lists; 0: DefaultInterval.
	Interval time.Duration
	// Hash returns equal texts for equal items; nil: SHA-256 of the JSON encoding.
	Hash func(T) (string, error)

	mu     sync.Mutex
	recent []snapshot // the newest pollHistory
}

// snapshot is the result of one list: the hash of each item, and one hash of all.
type snapshot struct {
	version string
	hashes  map[string]string
}

// List implements Source.
func (p *Poll[T]) List(ctx context.Context) ([]Item[T], string, error) {
	items, now, err := p.list(ctx)
	if err != nil {
		return nil, "", err
	}
	out := make([]Item[T], 0, len(items))
	for _, key := range slices.Sorted(maps.Keys(items)) {
		out = append(out, Item[T]{Key: key, Version: now.hashes[key], Value: items[key]})
	}
	return out, now.version, nil
}

// Watch implements Source. Its first list is after one interval.
func (p *Poll[T]) Watch(ctx context.Context, version string) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		before, ok := p.find(version)
		if !ok {
			yield(Change[T]{}, ErrGap)
			return
		}
		for {
			pause(ctx, cmp.Or(p.Interval, DefaultInterval))
			if ctx.Err() != nil {
				return
			}
			items, now, err := p.list(ctx)
			if err != nil {
				yield(Change[T]{}, err)
				return
			}
			changes := differ(before, now, items)
			for i, c := range changes {
				c.Version = before.version
				if i == len(changes)-1 {
					c.Version = now.version
				}
				if !yield(c, nil) {
					return
				}
			}
			before = now
		}
	}
}

// differ returns the changes from one list to the next, ordered by key.
func differ[T any](before, now snapshot, items map[string]T) []Change[T] {
	var changes []Change[T]
	for key, hash := range now.hashes {
		if before.hashes[key] != hash {
			changes = append(changes, Change[T]{Type: Put, Item: Item[T]{Key: key, Version: hash, Value: items[key]}})
		}
	}
	for key := range before.hashes {
		if _, present := now.hashes[key]; !present {
			changes = append(changes, Change[T]{Type: Delete, Item: Item[T]{Key: key}})
		}
	}
	slices.SortFunc(changes, func(a, b Change[T]) int { return compareText(a.Item.Key, b.Item.Key) })
	return changes
}

func (p *Poll[T]) list(ctx context.Context) (map[string]T, snapshot, error) {
	items, err := p.Items(ctx)
	if err != nil {
		return nil, snapshot{}, err
	}
	hashes := make(map[string]string, len(items))
	for key, v := range items {
		if hashes[key], err = p.hash(v); err != nil {
			return nil, snapshot{}, fmt.Errorf("control: hash of %s: %w", key, err)
		}
	}
	all := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(all, "%d:%s%d:%s", len(key), key, len(hashes[key]), hashes[key])
	}
	now := snapshot{version: short(all.Sum(nil)), hashes: hashes}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = slices.DeleteFunc(p.recent, func(s snapshot) bool { return s.version == now.version })
	p.recent = append(p.recent, now)
	p.recent = p.recent[max(0, len(p.recent)-pollHistory):]
	return items, now, nil
}

func (p *Poll[T]) find(version string) (snapshot, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.recent, func(s snapshot) bool { return s.version == version })
	if i < 0 {
		return snapshot{}, false
	}
	return p.recent[i], true
}

func (p *Poll[T]) hash(v T) (string, error) {
	if p.Hash != nil {
		h, err := p.Hash(v)
		return "h" + h, err
	}
	data, err := json.Marshal(v)
	sum := sha256.Sum256(data)
	return short(sum[:]), err
}

// short formats a hash. It begins with a letter, so that it is never read as a number.
func short(sum []byte) string { return "h" + hex.EncodeToString(sum[:16]) }
