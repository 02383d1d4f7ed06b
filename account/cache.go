package account

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// CacheTTL is how long a CachedStore uses a record that it has read. Changes of
// other processes are visible after this time.
const CacheTTL = time.Second

// maxCached limits the cached records of a kind. The cache of a full kind is
// emptied.
const maxCached = 10_000

// CachedStore is a Store that caches what each request reads: domains, accounts,
// keys and tokens, for CacheTTL. Writes through it are visible at once: a revoked
// key or a disabled account is refused from then on. Writes of other processes are
// visible after CacheTTL. Failed lookups are not cached.
type CachedStore struct {
	Store

	mu       sync.Mutex
	writes   int64 // a read that began before a write is not cached after it
	tree     cacheMap[struct{}, domainSet]
	accounts cacheMap[string, Account]
	keys     cacheMap[string, Key]
	tokens   cacheMap[[sha256.Size]byte, Token]
}

// domainSet holds all domains.
type domainSet struct {
	domains []Domain
	tree    Tree
}

var _ Store = (*CachedStore)(nil)

// NewCachedStore returns a store that caches the reads of another one.
func NewCachedStore(s Store) *CachedStore { return &CachedStore{Store: s} }

// cacheMap holds the cached records of a kind.
type cacheMap[K comparable, V any] map[K]struct {
	value V
	at    time.Time
}

// readThrough returns the cached record of a key, or reads it.
func readThrough[K comparable, V any](r *CachedStore, of *cacheMap[K, V], key K, read func() (V, error)) (V, error) {
	r.mu.Lock()
	entry, ok := (*of)[key]
	writes := r.writes
	r.mu.Unlock()
	if ok && time.Since(entry.at) < CacheTTL {
		return entry.value, nil
	}
	entry.at = time.Now() // later changes may be missing in the record
	var err error
	if entry.value, err = read(); err != nil {
		return entry.value, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == writes {
		if *of == nil || len(*of) >= maxCached {
			*of = cacheMap[K, V]{}
		}
		(*of)[key] = entry
	}
	return entry.value, nil
}

// invalidate empties the cache. It is called when a write may have become visible,
// before the writer gets its answer.
func (r *CachedStore) invalidate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	r.tree, r.accounts, r.keys, r.tokens = nil, nil, nil, nil
}

func (r *CachedStore) domainSet(ctx context.Context) (domainSet, error) {
	return readThrough(r, &r.tree, struct{}{}, func() (domainSet, error) {
		domains, err := r.Store.Domains(ctx)
		return domainSet{domains, NewTree(domains)}, err
	})
}

// Domains implements Store.
func (r *CachedStore) Domains(ctx context.Context) ([]Domain, error) {
	all, err := r.domainSet(ctx)
	return slices.Clone(all.domains), err
}

// Tree returns the tree of all domains. The caller must not change it.
func (r *CachedStore) Tree(ctx context.Context) (Tree, error) {
	all, err := r.domainSet(ctx)
	return all.tree, err
}

// TreeOf returns the tree of the domains of a store. The caller must not change it.
func TreeOf(ctx context.Context, s Store) (Tree, error) {
	if r, ok := s.(*CachedStore); ok {
		return r.Tree(ctx)
	}
	domains, err := s.Domains(ctx)
	return NewTree(domains), err
}

// Account implements Store.
func (r *CachedStore) Account(ctx context.Context, id string) (Account, error) {
	return readThrough(r, &r.accounts, id, func() (Account, error) { return r.Store.Account(ctx, id) })
}

// Key implements Store.
func (r *CachedStore) Key(ctx context.Context, id string) (Key, error) {
	return readThrough(r, &r.keys, id, func() (Key, error) { return r.Store.Key(ctx, id) })
}

// TokenByHash implements Store.
func (r *CachedStore) TokenByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error) {
	return readThrough(r, &r.tokens, hash, func() (Token, error) { return r.Store.TokenByHash(ctx, hash) })
}

// SaveDomain implements Store.
func (r *CachedStore) SaveDomain(ctx context.Context, d Domain) error {
	defer r.invalidate() // also after an error: the write may have been stored
	return r.Store.SaveDomain(ctx, d)
}

// SaveAccount implements Store.
func (r *CachedStore) SaveAccount(ctx context.Context, a Account) (Account, error) {
	defer r.invalidate()
	return r.Store.SaveAccount(ctx, a)
}

// AddToken implements Store.
func (r *CachedStore) AddToken(ctx context.Context, t Token) error {
	defer r.invalidate()
	return r.Store.AddToken(ctx, t)
}

// AddKey implements Store.
func (r *CachedStore) AddKey(ctx context.Context, k Key) error {
	defer r.invalidate()
	return r.Store.AddKey(ctx, k)
}

// Used implements Store.
func (r *CachedStore) Used(ctx context.Context, id string, at time.Time) error {
	defer r.invalidate()
	return r.Store.Used(ctx, id, at)
}

// Revoked implements Store.
func (r *CachedStore) Revoked(ctx context.Context, id string, at time.Time) error {
	defer r.invalidate()
	return r.Store.Revoked(ctx, id, at)
}
