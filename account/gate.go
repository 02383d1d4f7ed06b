package account

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Caller is an account that has proven who it is and may call, with what
// judgements about it need.
type Caller struct {
	Account
	Tree Tree
}

// ByToken finds whose token has this hash. found is false for every reason that
// a caller must not be told: unknown, revoked, expired, disabled.
func (d *Service) ByToken(ctx context.Context, hash [32]byte) (c Caller, found bool, err error) {
	t, err := d.Store.TokenByHash(ctx, hash)
	if fault.Of(err) == CredentialNotFound {
		return Caller{}, false, nil
	}
	if err != nil {
		return Caller{}, false, err
	}
	return d.admit(ctx, t.Credential)
}

// ByKey finds a key and whose it is, as ByToken does. The signature is for the caller to check.
func (d *Service) ByKey(ctx context.Context, id string) (c Caller, k Key, found bool, err error) {
	k, err = d.Store.Key(ctx, id)
	if fault.Of(err) == CredentialNotFound {
		return Caller{}, Key{}, false, nil
	}
	if err != nil {
		return Caller{}, Key{}, false, err
	}
	c, found, err = d.callerOf(ctx, k.Credential)
	return c, k, found, err
}

// Use notes that a credential was used just now.
func (d *Service) Use(ctx context.Context, c Credential) error {
	if now := d.now(); now.Sub(c.LastUse) >= LastUseInterval {
		return d.Store.Used(ctx, c.ID, now.Truncate(time.Second))
	}
	return nil
}

func (d *Service) admit(ctx context.Context, c Credential) (Caller, bool, error) {
	who, found, err := d.callerOf(ctx, c)
	if err == nil && found {
		err = d.Use(ctx, c)
	}
	return who, found && err == nil, err
}

// look judges a credential and its account. Nobody is refused by what is only
// remembered: the account, or its domain, may be new and made by another process.
func (d *Service) callerOf(ctx context.Context, c Credential) (Caller, bool, error) {
	if !c.Active(d.now()) {
		return Caller{}, false, nil
	}
	who, found, err := callerFrom(ctx, d.Store, c)
	if r, ok := d.Store.(*CachedStore); ok && err == nil && !found {
		return callerFrom(ctx, r.Store, c)
	}
	return who, found, err
}

func callerFrom(ctx context.Context, s Store, c Credential) (Caller, bool, error) {
	a, err := s.Account(ctx, c.AccountID)
	if fault.Of(err) == NotFound {
		return Caller{}, false, nil
	}
	if err != nil {
		return Caller{}, false, err
	}
	tree, err := TreeOf(ctx, s)
	if err != nil || !tree.Active(a) {
		return Caller{}, false, err
	}
	return Caller{Account: a, Tree: tree}, true, nil
}

// Any reports whether anybody beside the operator's own tokens may ask: there
// is an account beside System, or a token or key.
func (d *Service) HasCallers(ctx context.Context) (bool, error) {
	all, err := d.Store.Accounts(ctx, Query{Page: Page{Limit: 2}})
	if err != nil || len(all) > 1 {
		return len(all) > 1, err
	}
	tokens, err := d.Store.Tokens(ctx, CredentialQuery{Page: Page{Limit: 1}})
	if err != nil || len(tokens) > 0 {
		return len(tokens) > 0, err
	}
	keys, err := d.Store.Keys(ctx, CredentialQuery{Page: Page{Limit: 1}})
	return len(keys) > 0, err
}
