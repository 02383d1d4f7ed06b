package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// Accounts implements account.Store: domains, accounts, credentials and the audit trail.
// The master key of Options encrypts the secrets of keys.
type Accounts struct {
	m         backend
	encrypter *Encrypter
}

var _ account.Store = Accounts{}

// newAccounts returns the accounts of a database.
func newAccounts(m backend, e *Encrypter) Accounts { return Accounts{m, e} }

// Domains implements account.Store.
func (a Accounts) Domains(ctx context.Context) (all []account.Domain, err error) {
	err = a.read(ctx, func(s session) error {
		all = nil
		return s.query(`SELECT id, name, path, parent_id, disabled, created FROM domain ORDER BY path`, nil, func(r row) error {
			all = append(all, account.Domain{ID: r.text(0), Name: r.text(1), Path: r.text(2), ParentID: r.text(3), Disabled: r.int(4) != 0, Created: instant(r.int(5))})
			return nil
		})
	})
	return all, err
}

// read is backend.read, but returns at once if the context has ended.
func (a Accounts) read(ctx context.Context, do func(session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.m.read(ctx, do)
}

// SaveDomain implements account.Store.
func (a Accounts) SaveDomain(ctx context.Context, d account.Domain) error {
	var known, added bool
	err := a.m.apply(ctx, do(`UPDATE domain SET disabled = $1 WHERE id = $2 RETURNING 1`, flag(d.Disabled), d.ID).returning(&known))
	if err != nil || known {
		return err
	}
	err = a.m.apply(ctx, do(`INSERT INTO domain (id, name, path, parent_id, disabled, created) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING 1`,
		d.ID, d.Name, d.Path, d.ParentID, flag(d.Disabled), nanos(d.Created)).returning(&added))
	if err == nil && !added {
		err = account.Exists.Errorf("there is a domain %s", d.Path)
	}
	return err
}

const accountColumns = `id, name, domain_id, role, disabled, limits, created, revision`

func accountOf(r row) (account.Account, error) {
	a := account.Account{
		ID: r.text(0), Name: r.text(1), DomainID: r.text(2), Role: account.Role(r.text(3)), Disabled: r.int(4) != 0, Created: instant(r.int(6)), Revision: r.int(7),
	}
	if err := json.Unmarshal([]byte(r.text(5)), &a.Limits); err != nil {
		return a, workflow.StoreCorrupt.Errorf("the limits of account %s: %w", a.ID, err)
	}
	return a, nil
}

// Accounts implements account.Store.
func (a Accounts) Accounts(ctx context.Context, q account.Query) (all []account.Account, err error) {
	var w where
	if q.Visibility != nil && !q.Visibility.All {
		seen := []string{"id = ?"}
		args := []any{q.Visibility.AccountID}
		for _, d := range q.Visibility.DomainIDs {
			seen, args = append(seen, "domain_id = ?"), append(args, d)
		}
		w.and("("+strings.Join(seen, " OR ")+")", args...)
	}
	switch {
	case len(q.DomainIDs) > 0:
		w.conditions = append(w.conditions, in(&w, "domain_id", q.DomainIDs))
	case q.DomainIDs != nil:
		return nil, ctx.Err()
	}
	if q.Name != "" {
		w.and("lower(name) = ?", strings.ToLower(q.Name))
	}
	if q.After != "" {
		w.and("(domain_id, name) > (SELECT domain_id, name FROM account WHERE id = ?)", q.After)
	}
	tail := w.page("domain_id, name", 0, unbounded(q.Limit))
	err = a.read(ctx, func(s session) error {
		all = nil
		return s.query(`SELECT `+accountColumns+` FROM account`+w.String()+tail, w.args, func(r row) error {
			one, err := accountOf(r)
			all = append(all, one)
			return err
		})
	})
	return all, err
}

// Account implements account.Store.
func (a Accounts) Account(ctx context.Context, id string) (found account.Account, err error) {
	err = a.read(ctx, func(s session) (err error) {
		found, err = accountBy(s, id)
		return err
	})
	return found, err
}

func accountBy(s session, id string) (found account.Account, err error) {
	known := false
	err = s.query(`SELECT `+accountColumns+` FROM account WHERE id = $1`, []any{id}, func(r row) (err error) {
		known = true
		found, err = accountOf(r)
		return err
	})
	if err == nil && !known {
		err = account.NotFound.Errorf("there is no account %s", id)
	}
	return found, err
}

// SaveAccount implements account.Store.
func (a Accounts) SaveAccount(ctx context.Context, next account.Account) (account.Account, error) {
	limits, err := json.Marshal(next.Limits)
	if err != nil {
		return account.Account{}, err
	}
	was := next.Revision
	next.Revision++
	values := []any{next.ID, next.Name, next.DomainID, string(next.Role), flag(next.Disabled), string(limits), nanos(next.Created), next.Revision}
	save := do(`INSERT INTO account (`+accountColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING 1`, values...)
	if was != 0 {
		save = do(`UPDATE account SET name = $1, domain_id = $2, role = $3, disabled = $4, limits = $5, created = $6, revision = $7
			WHERE id = $8 AND revision = $9 AND NOT EXISTS (SELECT 1 FROM account o WHERE o.domain_id = $2 AND lower(o.name) = $10 AND o.id <> $8) RETURNING 1`,
			append(values[1:], next.ID, was, strings.ToLower(next.Name))...)
	}
	var saved bool
	err = a.m.apply(ctx, save.returning(&saved))
	switch {
	case err == nil && saved:
		return next, nil
	case err != nil && !isDuplicate(err):
		return account.Account{}, err
	}
	old, err := a.Account(ctx, next.ID)
	switch {
	case err != nil && fault.Of(err) != account.NotFound:
		return account.Account{}, err
	case old.Revision != was:
		return account.Account{}, fault.WriteConflict.Errorf("account %s is at revision %d, not %d", next.Name, old.Revision, was)
	}
	return account.Account{}, account.Exists.Errorf("there is an account %s in the domain", next.Name)
}

// isDuplicate reports a violated unique index.
func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" || sqlite.ErrCode(err) == sqlite.ResultConstraintUnique
}

// AddToken implements account.Store.
func (a Accounts) AddToken(ctx context.Context, t account.Token) error {
	return a.add(ctx, "token", "hash", t.Credential, t.Hash[:])
}

// AddKey implements account.Store.
func (a Accounts) AddKey(ctx context.Context, k account.Key) error {
	encrypted, err := a.encrypter.Encrypt(secretLocation("api_key", "secret", k.ID), k.Secret.Reveal())
	if err != nil {
		return err
	}
	return a.add(ctx, "api_key", "secret", k.Credential, encrypted)
}

func (a Accounts) add(ctx context.Context, table, column string, c account.Credential, proof []byte) error {
	var added bool
	err := a.m.apply(ctx, do(`INSERT INTO `+table+` (id, account_id, name, created, expires, last_use, revoked, `+column+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO NOTHING RETURNING 1`,
		c.ID, c.AccountID, c.Name, nanos(c.Created), nanos(c.Expires), nanos(c.LastUse), nanos(c.Revoked), proof).returning(&added))
	if err == nil && !added {
		err = account.Exists.Errorf("there is a credential %s", c.ID)
	}
	return err
}

const credentialColumns = `id, account_id, name, created, expires, last_use, revoked`

func credentialOf(r row) account.Credential {
	return account.Credential{
		ID: r.text(0), AccountID: r.text(1), Name: r.text(2), Created: instant(r.int(3)), Expires: instant(r.int(4)), LastUse: instant(r.int(5)), Revoked: instant(r.int(6)),
	}
}

// credentialsOf returns the WHERE clause, the order and the limit of a page of tokens or
// keys.
func credentialsOf(table string, q account.CredentialQuery) (sql string, args []any) {
	var w where
	if q.ID != "" {
		w.and("id = ?", q.ID)
	}
	if q.Account != "" {
		w.and("account_id = ?", q.Account)
	}
	if q.After != "" {
		w.and("(created, id) > (SELECT created, id FROM "+table+" WHERE id = ?)", q.After)
	}
	tail := w.page("created, id", 0, unbounded(q.Limit))
	return w.String() + tail, w.args
}

// unbounded returns the limit of a page; 0 means no limit.
func unbounded(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}

// Tokens implements account.Store.
func (a Accounts) Tokens(ctx context.Context, q account.CredentialQuery) (all []account.Token, err error) {
	conditions, args := credentialsOf("token", q)
	err = a.read(ctx, func(s session) error {
		all = nil
		return s.query(`SELECT `+credentialColumns+`, hash FROM token`+conditions, args, func(r row) error {
			all = append(all, tokenOf(r))
			return nil
		})
	})
	return all, err
}

func tokenOf(r row) account.Token {
	t := account.Token{Credential: credentialOf(r)}
	copy(t.Hash[:], r.bytes(7))
	return t
}

// Keys implements account.Store.
func (a Accounts) Keys(ctx context.Context, q account.CredentialQuery) (all []account.Key, err error) {
	conditions, args := credentialsOf("api_key", q)
	err = a.read(ctx, func(s session) error {
		all = nil
		return s.query(`SELECT `+credentialColumns+` FROM api_key`+conditions, args, func(r row) error {
			all = append(all, account.Key{Credential: credentialOf(r)})
			return nil
		})
	})
	return all, err
}

// TokenByHash implements account.Store.
func (a Accounts) TokenByHash(ctx context.Context, hash [sha256.Size]byte) (found account.Token, err error) {
	known := false
	err = a.read(ctx, func(s session) error {
		return s.query(`SELECT `+credentialColumns+`, hash FROM token WHERE hash = $1`, []any{hash[:]}, func(r row) error {
			known, found = true, tokenOf(r)
			return nil
		})
	})
	if err == nil && !known {
		err = account.CredentialNotFound.Errorf("there is no such token")
	}
	return found, err
}

// Key implements account.Store. MASTER_KEY_MISSING or MASTER_KEY_UNKNOWN if its secret
// cannot be decrypted.
func (a Accounts) Key(ctx context.Context, id string) (found account.Key, err error) {
	var encrypted []byte
	known := false
	err = a.read(ctx, func(s session) error {
		return s.query(`SELECT `+credentialColumns+`, secret FROM api_key WHERE id = $1`, []any{id}, func(r row) error {
			known, found.Credential, encrypted = true, credentialOf(r), r.bytes(7)
			return nil
		})
	})
	switch {
	case err != nil:
		return found, err
	case !known:
		return found, account.CredentialNotFound.Errorf("there is no such key")
	}
	secret, err := a.encrypter.Decrypt(secretLocation("api_key", "secret", id), encrypted)
	found.Secret = account.Secret(secret)
	return found, err
}

// Used implements account.Store.
func (a Accounts) Used(ctx context.Context, id string, at time.Time) error {
	return a.stamp(ctx, id, `SET last_use = CASE WHEN last_use < $1 THEN $1 ELSE last_use END`, at)
}

// Revoked implements account.Store.
func (a Accounts) Revoked(ctx context.Context, id string, at time.Time) error {
	return a.stamp(ctx, id, `SET revoked = CASE WHEN revoked = 0 OR revoked > $1 THEN $1 ELSE revoked END`, at)
}

func (a Accounts) stamp(ctx context.Context, id, set string, at time.Time) error {
	for _, table := range []string{"token", "api_key"} {
		var known bool
		err := a.m.apply(ctx, do(`UPDATE `+table+` `+set+` WHERE id = $2 RETURNING 1`, nanos(at), id).returning(&known))
		if err != nil || known {
			return err
		}
	}
	return account.CredentialNotFound.Errorf("there is no key or token %s", id)
}
