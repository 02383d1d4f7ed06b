package account_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/account/accounttest"
)

// A read through a CachedStore returns what was just written through it.
func TestCachedStore(t *testing.T) {
	accounttest.Run(t, func(*testing.T) account.Store { return account.NewCachedStore(account.NewMemory()) })
}

// cacheFixture has an account in a domain, with a key and a token.
type cacheFixture struct {
	service *account.Service
	key     account.Key
	token   account.Token
}

func newCacheFixture(t *testing.T, s account.Store) *cacheFixture {
	t.Helper()
	service, root := &account.Service{Store: s}, account.System()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := service.CreateDomain(t.Context(), root, "east", "")
	must(err)
	amy, err := service.CreateAccount(t.Context(), root, account.NewAccount{Name: "amy", Domain: "ROOT/east"})
	must(err)
	key, err := service.CreateKey(t.Context(), root, account.NewCredential{Account: amy.ID})
	must(err)
	token, _, err := service.CreateToken(t.Context(), root, account.NewCredential{Account: amy.ID})
	must(err)
	return &cacheFixture{service, key, token}
}

func (s *cacheFixture) want(t *testing.T, when string, at *account.Service, key, token bool) {
	t.Helper()
	_, _, byKey, err := at.ByKey(t.Context(), s.key.ID)
	_, byToken, worse := at.ByToken(t.Context(), s.token.Hash)
	if err != nil || worse != nil || byKey != key || byToken != token {
		t.Errorf("%s: key %v, token %v, want %v, %v (%v, %v)", when, byKey, byToken, key, token, err, worse)
	}
}

// This process refuses a revoked key or token and a disabled account or domain at
// once; another process does so a second later.
func TestCacheRefusesAtOnce(t *testing.T) {
	for name, change := range map[string]struct {
		do         func(ctx context.Context, s *cacheFixture) error
		key, token bool // whether key and token work afterwards
	}{
		"key revoked": {func(ctx context.Context, s *cacheFixture) error {
			return s.service.Revoke(ctx, account.System(), s.key.ID)
		}, false, true},
		"token revoked": {func(ctx context.Context, s *cacheFixture) error {
			return s.service.Revoke(ctx, account.System(), s.token.ID)
		}, true, false},
		"account disabled": {func(ctx context.Context, s *cacheFixture) error {
			_, err := s.service.Disable(ctx, account.System(), "amy", true)
			return err
		}, false, false},
		"domain disabled": {func(ctx context.Context, s *cacheFixture) error {
			_, err := s.service.DisableDomain(ctx, account.System(), "ROOT/east", true)
			return err
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := account.NewMemory()
				s := newCacheFixture(t, account.NewCachedStore(store))
				other := &account.Service{Store: account.NewCachedStore(store)}
				s.want(t, "before", s.service, true, true)
				s.want(t, "before, in the other process", other, true, true)
				s.want(t, "again, in the other process", other, true, true) // the first use of each has been recorded
				if err := change.do(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				s.want(t, "at once", s.service, change.key, change.token)
				s.want(t, "in the other process, still", other, true, true)
				time.Sleep(account.CacheTTL)
				s.want(t, "a second later", s.service, change.key, change.token)
				s.want(t, "a second later, in the other process", other, change.key, change.token)
			})
		})
	}
}

// A cached credential expires on time.
func TestCachedCredentialExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &account.Service{Store: account.NewCachedStore(account.NewMemory())}
		key, err := service.CreateKey(t.Context(), account.System(), account.NewCredential{ValidFor: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if _, _, found, err := service.ByKey(t.Context(), key.ID); err != nil || found != want {
				t.Errorf("found %v, %v, want %v", found, err, want)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// slowKeys returns a key that it read before another caller revoked it.
type slowKeys struct {
	account.Store
	read, started chan struct{}
}

func (s *slowKeys) Key(ctx context.Context, id string) (account.Key, error) {
	k, err := s.Store.Key(ctx, id)
	if s.read != nil {
		close(s.read)
		s.read = nil
		<-s.started
	}
	return k, err
}

// A read that began before a write is not cached after it.
func TestCacheDropsReadsBeforeAWrite(t *testing.T) {
	slow := &slowKeys{Store: account.NewMemory(), started: make(chan struct{})}
	s := newCacheFixture(t, account.NewCachedStore(slow))
	read, done := make(chan struct{}), make(chan error)
	slow.read = read
	go func() {
		_, _, _, err := s.service.ByKey(t.Context(), s.key.ID)
		done <- err
	}()
	<-read
	if err := s.service.Store.Revoked(t.Context(), s.key.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	close(slow.started)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.want(t, "after the revocation", s.service, false, true)
}

// countingStore counts the reads.
type countingStore struct {
	account.Store
	reads int
}

func (c *countingStore) Domains(ctx context.Context) ([]account.Domain, error) {
	c.reads++
	return c.Store.Domains(ctx)
}

func (c *countingStore) Account(ctx context.Context, id string) (account.Account, error) {
	c.reads++
	return c.Store.Account(ctx, id)
}

func (c *countingStore) Key(ctx context.Context, id string) (account.Key, error) {
	c.reads++
	return c.Store.Key(ctx, id)
}

// All requests of one second read a key, its account and the domains once.
func TestCacheReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &countingStore{Store: account.NewMemory()}
		s := newCacheFixture(t, account.NewCachedStore(c))
		c.reads = 0
		for range 100 {
			if _, _, found, err := s.service.ByKey(t.Context(), s.key.ID); err != nil || !found {
				t.Fatal(found, err)
			}
		}
		if c.reads != 3 {
			t.Errorf("100 requests read %d times, want 3", c.reads)
		}
		all, err := s.service.Store.Domains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clear(all) // the list belongs to the caller
		if again, err := s.service.Store.Domains(t.Context()); err != nil || again[0].ID != account.RootID {
			t.Errorf("a change of the caller's list is in the cache: %v, %v", again, err)
		}
	})
}

// An account that another process creates in a new domain may call at once: a
// cached record refuses nobody.
func TestCacheRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := account.NewMemory()
		service := &account.Service{Store: account.NewCachedStore(shared)}
		if _, err := service.Domains(t.Context(), account.System(), account.Page{}); err != nil { // cached from here on
			t.Fatal(err)
		}
		created := newCacheFixture(t, shared)
		created.want(t, "made by another process", service, true, true)
	})
}
