package account

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Caller is an authenticated account that may call, together with the tree of
// domains that the rules need.
type Caller struct {
	Account
	Tree Tree
}

// ByToken finds the caller whose token has this hash. found is false for every
// reason that the caller must not learn: unknown, revoked, expired, disabled.
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

// ByKey finds a key and its caller, as ByToken does. The caller of ByKey must check
// the signature.
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

// Use records that a credential was used just now.
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

// callerOf checks a credential and its account. A cached record never refuses a
// caller: another process may just have created the account or its domain. So a
// refusal is checked again without the cache.
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

// HasCallers reports whether there is anybody besides the operator's own tokens: an
// account besides System, or a token or key.
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
