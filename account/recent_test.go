package account_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/account/accounttest"
)

// What is written through a Recent is read from it at once.
func TestRecent(t *testing.T) {
	accounttest.Run(t, func(*testing.T) account.Store { return account.NewRecent(account.NewMemory()) })
}

// shop has an account in a domain, with a key and a token.
type shop struct {
	desk  *account.Desk
	key   account.Key
	token account.Token
}

func newShop(t *testing.T, s account.Store) *shop {
	t.Helper()
	desk, root := &account.Desk{Store: s}, account.System()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := desk.CreateDomain(t.Context(), root, "east", "")
	must(err)
	amy, err := desk.CreateAccount(t.Context(), root, account.Want{Name: "amy", Domain: "ROOT/east"})
	must(err)
	key, err := desk.CreateKey(t.Context(), root, account.NewCredential{Account: amy.ID})
	must(err)
	token, _, err := desk.CreateToken(t.Context(), root, account.NewCredential{Account: amy.ID})
	must(err)
	return &shop{desk, key, token}
}

func (s *shop) want(t *testing.T, when string, at *account.Desk, key, token bool) {
	t.Helper()
	_, _, byKey, err := at.ByKey(t.Context(), s.key.ID)
	_, byToken, worse := at.ByToken(t.Context(), s.token.Hash)
	if err != nil || worse != nil || byKey != key || byToken != token {
		t.Errorf("%s: key %v, token %v, want %v, %v (%v, %v)", when, byKey, byToken, key, token, err, worse)
	}
}

// A key or token that is revoked, and an account or domain that is disabled,
// is refused at once by this process, and by another one a second later (section 9).
func TestRecentRefusesAtOnce(t *testing.T) {
	for name, change := range map[string]struct {
		do         func(ctx context.Context, s *shop) error
		key, token bool // what works behind it
	}{
		"key revoked":   {func(ctx context.Context, s *shop) error { return s.desk.Revoke(ctx, account.System(), s.key.ID) }, false, true},
		"token revoked": {func(ctx context.Context, s *shop) error { return s.desk.Revoke(ctx, account.System(), s.token.ID) }, true, false},
		"account disabled": {func(ctx context.Context, s *shop) error {
			_, err := s.desk.Disable(ctx, account.System(), "amy", true)
			return err
		}, false, false},
		"domain disabled": {func(ctx context.Context, s *shop) error {
			_, err := s.desk.DisableDomain(ctx, account.System(), "ROOT/east", true)
			return err
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := account.NewMemory()
				s := newShop(t, account.NewRecent(store))
				other := &account.Desk{Store: account.NewRecent(store)}
				s.want(t, "before", s.desk, true, true)
				s.want(t, "before, in the other process", other, true, true)
				s.want(t, "again, in the other process", other, true, true) // the first use of each has been noted
				if err := change.do(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				s.want(t, "at once", s.desk, change.key, change.token)
				s.want(t, "in the other process, still", other, true, true)
				time.Sleep(account.RecentFor)
				s.want(t, "a second later", s.desk, change.key, change.token)
				s.want(t, "a second later, in the other process", other, change.key, change.token)
			})
		})
	}
}

// A credential that expires while it is remembered ends when it should.
func TestRecentExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &account.Desk{Store: account.NewRecent(account.NewMemory())}
		key, err := desk.CreateKey(t.Context(), account.System(), account.NewCredential{For: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if _, _, found, err := desk.ByKey(t.Context(), key.ID); err != nil || found != want {
				t.Errorf("found %v, %v, want %v", found, err, want)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// slowKeys gives a key that it has read before another one revokes it.
type slowKeys struct {
	account.Store
	read, told chan struct{}
}

func (s *slowKeys) Key(ctx context.Context, id string) (account.Key, error) {
	k, err := s.Store.Key(ctx, id)
	if s.read != nil {
		close(s.read)
		s.read = nil
		<-s.told
	}
	return k, err
}

// What was read before a write is not remembered after it.
func TestRecentForgetsWhatIsBeingRead(t *testing.T) {
	slow := &slowKeys{Store: account.NewMemory(), told: make(chan struct{})}
	s := newShop(t, account.NewRecent(slow))
	read, done := make(chan struct{}), make(chan error)
	slow.read = read
	go func() {
		_, _, _, err := s.desk.ByKey(t.Context(), s.key.ID)
		done <- err
	}()
	<-read
	if err := s.desk.Store.Revoked(t.Context(), s.key.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	close(slow.told)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.want(t, "after the revocation", s.desk, false, true)
}

// counted counts what is read.
type counted struct {
	account.Store
	reads int
}

func (c *counted) Domains(ctx context.Context) ([]account.Domain, error) {
	c.reads++
	return c.Store.Domains(ctx)
}

func (c *counted) Account(ctx context.Context, id string) (account.Account, error) {
	c.reads++
	return c.Store.Account(ctx, id)
}

func (c *counted) Key(ctx context.Context, id string) (account.Key, error) {
	c.reads++
	return c.Store.Key(ctx, id)
}

// Requests of one second read a key, its account and the domains once.
func TestRecentReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Store: account.NewMemory()}
		s := newShop(t, account.NewRecent(c))
		c.reads = 0
		for range 100 {
			if _, _, found, err := s.desk.ByKey(t.Context(), s.key.ID); err != nil || !found {
				t.Fatal(found, err)
			}
		}
		if c.reads != 3 {
			t.Errorf("100 requests read %d times, want 3", c.reads)
		}
		all, err := s.desk.Store.Domains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clear(all) // it is the caller's
		if again, err := s.desk.Store.Domains(t.Context()); err != nil || again[0].ID != account.RootID {
			t.Errorf("what a caller did to its list is in ours: %v, %v", again, err)
		}
	})
}

// An account that another process makes in a new domain is let in at once: what
// is remembered of before refuses nobody.
func TestRecentRefusesNobodyByMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := account.NewMemory()
		desk := &account.Desk{Store: account.NewRecent(shared)}
		if _, err := desk.Domains(t.Context(), account.System(), account.Page{}); err != nil { // remembered from here on
			t.Fatal(err)
		}
		made := newShop(t, shared)
		made.want(t, "made by another process", desk, true, true)
	})
}
