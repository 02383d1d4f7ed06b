package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// maxTrail is the maximum of audit entries in a Memory.
const maxTrail = 10_000

// Memory is a Store in the memory of the process.
type Memory struct {
	mu       sync.RWMutex
	domains  map[string]Domain
	accounts map[string]Account
	tokens   map[string]Token
	keys     map[string]Key
	trail    []Entry
	seq      int64
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store with Root and System.
func NewMemory() *Memory {
	return &Memory{
		domains: map[string]Domain{RootID: Root()}, accounts: map[string]Account{SystemID: System()},
		tokens: map[string]Token{}, keys: map[string]Key{},
	}
}

// Domains implements Store.
func (m *Memory) Domains(ctx context.Context) ([]Domain, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.SortedFunc(maps.Values(m.domains), func(a, b Domain) int { return strings.Compare(a.Path, b.Path) }), ctx.Err()
}

// SaveDomain implements Store.
func (m *Memory) SaveDomain(ctx context.Context, d Domain) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.domains[d.ID]; ok {
		old.Disabled = d.Disabled
		m.domains[d.ID] = old
		return ctx.Err()
	}
	for _, other := range m.domains {
		if strings.EqualFold(other.Path, d.Path) {
			return Exists.Errorf("there is a domain %s", d.Path)
		}
	}
	m.domains[d.ID] = d
	return ctx.Err()
}

// Accounts implements Store.
func (m *Memory) Accounts(ctx context.Context, q Query) ([]Account, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Account
	for _, a := range m.accounts {
		if (q.Visibility == nil || q.Visibility.Sees(a.ID, a.DomainID)) && (q.DomainIDs == nil || slices.Contains(q.DomainIDs, a.DomainID)) && (q.Name == "" || strings.EqualFold(q.Name, a.Name)) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, byName)
	if q.After != "" { // its position counts, even if the query does not select it
		last, ok := m.accounts[q.After]
		found = slices.DeleteFunc(found, func(a Account) bool { return !ok || byName(a, last) <= 0 })
	}
	return PageOf(found, Page{Limit: q.Limit}, nil), ctx.Err()
}

func byName(a, b Account) int {
	return cmp.Or(strings.Compare(a.DomainID, b.DomainID), strings.Compare(a.Name, b.Name))
}

// Account implements Store.
func (m *Memory) Account(ctx context.Context, id string) (Account, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	a, ok := m.accounts[id]
	if !ok {
		return Account{}, NotFound.Errorf("there is no account %s", id)
	}
	return a, ctx.Err()
}

// SaveAccount implements Store.
func (m *Memory) SaveAccount(ctx context.Context, a Account) (Account, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.accounts[a.ID]
	if old.Revision != a.Revision {
		return Account{}, fault.WriteConflict.Errorf("account %s is at revision %d, not %d", a.Name, old.Revision, a.Revision)
	}
	for _, other := range m.accounts {
		if other.ID != a.ID && other.DomainID == a.DomainID && strings.EqualFold(other.Name, a.Name) {
			return Account{}, Exists.Errorf("there is an account %s in the domain", a.Name)
		}
	}
	a.Revision++
	m.accounts[a.ID] = a
	return a, ctx.Err()
}

// AddToken implements Store.
func (m *Memory) AddToken(ctx context.Context, t Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.tokens[t.ID]; ok {
		return Exists.Errorf("there is a token %s", t.ID)
	}
	m.tokens[t.ID] = t
	return ctx.Err()
}

// AddKey implements Store.
func (m *Memory) AddKey(ctx context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.keys[k.ID]; ok {
		return Exists.Errorf("there is a key %s", k.ID)
	}
	m.keys[k.ID] = k
	return ctx.Err()
}

// Tokens implements Store.
func (m *Memory) Tokens(ctx context.Context, q CredentialQuery) ([]Token, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Token
	for _, t := range m.tokens {
		if q.matches(t.Credential) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b Token) int { return byAge(a.Credential, b.Credential) })
	if q.After != "" {
		last, ok := m.tokens[q.After]
		found = slices.DeleteFunc(found, func(one Token) bool { return !ok || byAge(one.Credential, last.Credential) <= 0 })
	}
	return PageOf(found, Page{Limit: q.Limit}, nil), ctx.Err()
}

// Keys implements Store.
func (m *Memory) Keys(ctx context.Context, q CredentialQuery) ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Key
	for _, k := range m.keys {
		if q.matches(k.Credential) {
			k.Secret = ""
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b Key) int { return byAge(a.Credential, b.Credential) })
	if q.After != "" {
		last, ok := m.keys[q.After]
		found = slices.DeleteFunc(found, func(one Key) bool { return !ok || byAge(one.Credential, last.Credential) <= 0 })
	}
	return PageOf(found, Page{Limit: q.Limit}, nil), ctx.Err()
}

func (q CredentialQuery) matches(c Credential) bool {
	return (q.ID == "" || q.ID == c.ID) && (q.Account == "" || q.Account == c.AccountID)
}

func byAge(a, b Credential) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
}

// TokenByHash implements Store.
func (m *Memory) TokenByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, t := range m.tokens {
		if t.Hash == hash {
			return t, ctx.Err()
		}
	}
	return Token{}, CredentialNotFound.Errorf("there is no such token")
}

// Key implements Store.
func (m *Memory) Key(ctx context.Context, id string) (Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k, ok := m.keys[id]
	if !ok {
		return Key{}, CredentialNotFound.Errorf("there is no such key")
	}
	return k, ctx.Err()
}

// Used implements Store.
func (m *Memory) Used(ctx context.Context, id string, at time.Time) error {
	return m.change(ctx, id, func(c *Credential) {
		if at.After(c.LastUse) {
			c.LastUse = at
		}
	})
}

// Revoked implements Store.
func (m *Memory) Revoked(ctx context.Context, id string, at time.Time) error {
	return m.change(ctx, id, func(c *Credential) {
		if c.Revoked.IsZero() || at.Before(c.Revoked) {
			c.Revoked = at
		}
	})
}

func (m *Memory) change(ctx context.Context, id string, do func(*Credential)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tokens[id]; ok {
		do(&t.Credential)
		m.tokens[id] = t
		return ctx.Err()
	}
	k, ok := m.keys[id]
	if !ok {
		return CredentialNotFound.Errorf("there is no key or token %s", id)
	}
	do(&k.Credential)
	m.keys[id] = k
	return ctx.Err()
}

// Note implements Store. It drops the oldest entries when there are more than
// maxTrail.
func (m *Memory) Note(ctx context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	e.Seq = m.seq
	m.trail = append(m.trail, e)
	if len(m.trail) > maxTrail {
		m.trail = slices.Clone(m.trail[len(m.trail)-maxTrail/2:])
	}
	return ctx.Err()
}

// Trail implements Store.
func (m *Memory) Trail(ctx context.Context, q TrailQuery) ([]Entry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Entry
	for _, e := range slices.Backward(m.trail) {
		if q.Sees(e) {
			found = append(found, e)
		}
		if len(found) == q.Size() {
			break
		}
	}
	return found, ctx.Err()
}
