// Package accounts stores domains, accounts, credentials and the audit trail in either database.
package accounts

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
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Store implements account.Store: domains, accounts, credentials and the audit trail.
// The master key of Options encrypts the secrets of keys.
type Store struct {
	m         db.Backend
	encrypter *secrets.Encrypter
}

var _ account.Store = Store{}

// New returns the accounts of a database.
func New(m db.Backend, e *secrets.Encrypter) Store { return Store{m, e} }

// Domains implements account.Store.
func (a Store) Domains(ctx context.Context) (all []account.Domain, err error) {
	err = a.read(ctx, func(s db.Session) error {
		all = nil
		return s.Query(`SELECT id, name, path, parent_id, disabled, created FROM domain ORDER BY path`, nil, func(r db.Row) error {
			all = append(all, account.Domain{ID: r.Text(0), Name: r.Text(1), Path: r.Text(2), ParentID: r.Text(3), Disabled: r.Int(4) != 0, Created: db.Instant(r.Int(5))})
			return nil
		})
	})
	return all, err
}

// read is backend.read, but returns at once if the context has ended.
func (a Store) read(ctx context.Context, do func(db.Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.m.Read(ctx, do)
}

// SaveDomain implements account.Store.
func (a Store) SaveDomain(ctx context.Context, d account.Domain) error {
	var known, added bool
	err := a.m.Apply(ctx, db.Single(`UPDATE domain SET disabled = $1 WHERE id = $2 RETURNING 1`, db.Flag(d.Disabled), d.ID).Returning(&known))
	if err != nil || known {
		return err
	}
	err = a.m.Apply(ctx, db.Single(`INSERT INTO domain (id, name, path, parent_id, disabled, created) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING 1`,
		d.ID, d.Name, d.Path, d.ParentID, db.Flag(d.Disabled), db.Nanos(d.Created)).Returning(&added))
	if err == nil && !added {
		err = account.Exists.Errorf("there is a domain %s", d.Path)
	}
	return err
}

const accountColumns = `id, name, domain_id, role, disabled, limits, created, revision`

func accountOf(r db.Row) (account.Account, error) {
	a := account.Account{
		ID: r.Text(0), Name: r.Text(1), DomainID: r.Text(2), Role: account.Role(r.Text(3)), Disabled: r.Int(4) != 0, Created: db.Instant(r.Int(6)), Revision: r.Int(7),
	}
	if err := json.Unmarshal([]byte(r.Text(5)), &a.Limits); err != nil {
		return a, runstore.StoreCorrupt.Errorf("the limits of account %s: %w", a.ID, err)
	}
	return a, nil
}

// Accounts implements account.Store.
func (a Store) Accounts(ctx context.Context, q account.Query) (all []account.Account, err error) {
	var w db.Where
	if q.Visibility != nil && !q.Visibility.All {
		seen := []string{"id = ?"}
		args := []any{q.Visibility.AccountID}
		for _, d := range q.Visibility.DomainIDs {
			seen, args = append(seen, "domain_id = ?"), append(args, d)
		}
		w.And("("+strings.Join(seen, " OR ")+")", args...)
	}
	switch {
	case len(q.DomainIDs) > 0:
		w.Conditions = append(w.Conditions, db.In(&w, "domain_id", q.DomainIDs))
	case q.DomainIDs != nil:
		return nil, ctx.Err()
	}
	if q.Name != "" {
		w.And("lower(name) = ?", strings.ToLower(q.Name))
	}
	if q.After != "" {
		w.And("(domain_id, name) > (SELECT domain_id, name FROM account WHERE id = ?)", q.After)
	}
	tail := w.Page("domain_id, name", 0, unbounded(q.Limit))
	err = a.read(ctx, func(s db.Session) error {
		all = nil
		return s.Query(`SELECT `+accountColumns+` FROM account`+w.String()+tail, w.Args, func(r db.Row) error {
			one, err := accountOf(r)
			all = append(all, one)
			return err
		})
	})
	return all, err
}

// Account implements account.Store.
func (a Store) Account(ctx context.Context, id string) (found account.Account, err error) {
	err = a.read(ctx, func(s db.Session) (err error) {
		found, err = accountBy(s, id)
		return err
	})
	return found, err
}

func accountBy(s db.Session, id string) (found account.Account, err error) {
	known := false
	err = s.Query(`SELECT `+accountColumns+` FROM account WHERE id = $1`, []any{id}, func(r db.Row) (err error) {
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
func (a Store) SaveAccount(ctx context.Context, next account.Account) (account.Account, error) {
	limits, err := json.Marshal(next.Limits)
	if err != nil {
		return account.Account{}, err
	}
	was := next.Revision
	next.Revision++
	values := []any{next.ID, next.Name, next.DomainID, string(next.Role), db.Flag(next.Disabled), string(limits), db.Nanos(next.Created), next.Revision}
	save := db.Single(`INSERT INTO account (`+accountColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING 1`, values...)
	if was != 0 {
		save = db.Single(`UPDATE account SET name = $1, domain_id = $2, role = $3, disabled = $4, limits = $5, created = $6, revision = $7
			WHERE id = $8 AND revision = $9 AND NOT EXISTS (SELECT 1 FROM account o WHERE o.domain_id = $2 AND lower(o.name) = $10 AND o.id <> $8) RETURNING 1`,
			append(values[1:], next.ID, was, strings.ToLower(next.Name))...)
	}
	var saved bool
	err = a.m.Apply(ctx, save.Returning(&saved))
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
func (a Store) AddToken(ctx context.Context, t account.Token) error {
	return a.add(ctx, "token", "hash", t.Credential, t.Hash[:])
}

// AddKey implements account.Store.
func (a Store) AddKey(ctx context.Context, k account.Key) error {
	encrypted, err := a.encrypter.Encrypt(secrets.Location("api_key", "secret", k.ID), k.Secret.Reveal())
	if err != nil {
		return err
	}
	return a.add(ctx, "api_key", "secret", k.Credential, encrypted)
}

func (a Store) add(ctx context.Context, table, column string, c account.Credential, proof []byte) error {
	var added bool
	err := a.m.Apply(ctx, db.Single(`INSERT INTO `+table+` (id, account_id, name, created, expires, last_use, revoked, `+column+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO NOTHING RETURNING 1`,
		c.ID, c.AccountID, c.Name, db.Nanos(c.Created), db.Nanos(c.Expires), db.Nanos(c.LastUse), db.Nanos(c.Revoked), proof).Returning(&added))
	if err == nil && !added {
		err = account.Exists.Errorf("there is a credential %s", c.ID)
	}
	return err
}

const credentialColumns = `id, account_id, name, created, expires, last_use, revoked`

func credentialOf(r db.Row) account.Credential {
	return account.Credential{
		ID: r.Text(0), AccountID: r.Text(1), Name: r.Text(2), Created: db.Instant(r.Int(3)), Expires: db.Instant(r.Int(4)), LastUse: db.Instant(r.Int(5)), Revoked: db.Instant(r.Int(6)),
	}
}

// credentialsOf returns the WHERE clause, the order and the limit of a page of tokens or
// keys.
func credentialsOf(table string, q account.CredentialQuery) (sql string, args []any) {
	var w db.Where
	if q.ID != "" {
		w.And("id = ?", q.ID)
	}
	if q.Account != "" {
		w.And("account_id = ?", q.Account)
	}
	if q.After != "" {
		w.And("(created, id) > (SELECT created, id FROM "+table+" WHERE id = ?)", q.After)
	}
	tail := w.Page("created, id", 0, unbounded(q.Limit))
	return w.String() + tail, w.Args
}

// unbounded returns the limit of a page; 0 means no limit.
func unbounded(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}

// Tokens implements account.Store.
func (a Store) Tokens(ctx context.Context, q account.CredentialQuery) (all []account.Token, err error) {
	conditions, args := credentialsOf("token", q)
	err = a.read(ctx, func(s db.Session) error {
		all = nil
		return s.Query(`SELECT `+credentialColumns+`, hash FROM token`+conditions, args, func(r db.Row) error {
			all = append(all, tokenOf(r))
			return nil
		})
	})
	return all, err
}

func tokenOf(r db.Row) account.Token {
	t := account.Token{Credential: credentialOf(r)}
	copy(t.Hash[:], r.Bytes(7))
	return t
}

// Keys implements account.Store.
func (a Store) Keys(ctx context.Context, q account.CredentialQuery) (all []account.Key, err error) {
	conditions, args := credentialsOf("api_key", q)
	err = a.read(ctx, func(s db.Session) error {
		all = nil
		return s.Query(`SELECT `+credentialColumns+` FROM api_key`+conditions, args, func(r db.Row) error {
			all = append(all, account.Key{Credential: credentialOf(r)})
			return nil
		})
	})
	return all, err
}

// TokenByHash implements account.Store.
func (a Store) TokenByHash(ctx context.Context, hash [sha256.Size]byte) (found account.Token, err error) {
	known := false
	err = a.read(ctx, func(s db.Session) error {
		return s.Query(`SELECT `+credentialColumns+`, hash FROM token WHERE hash = $1`, []any{hash[:]}, func(r db.Row) error {
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
func (a Store) Key(ctx context.Context, id string) (found account.Key, err error) {
	var encrypted []byte
	known := false
	err = a.read(ctx, func(s db.Session) error {
		return s.Query(`SELECT `+credentialColumns+`, secret FROM api_key WHERE id = $1`, []any{id}, func(r db.Row) error {
			known, found.Credential, encrypted = true, credentialOf(r), r.Bytes(7)
			return nil
		})
	})
	switch {
	case err != nil:
		return found, err
	case !known:
		return found, account.CredentialNotFound.Errorf("there is no such key")
	}
	secret, err := a.encrypter.Decrypt(secrets.Location("api_key", "secret", id), encrypted)
	found.Secret = account.Secret(secret)
	return found, err
}

// Used implements account.Store.
func (a Store) Used(ctx context.Context, id string, at time.Time) error {
	return a.stamp(ctx, id, `SET last_use = CASE WHEN last_use < $1 THEN $1 ELSE last_use END`, at)
}

// Revoked implements account.Store.
func (a Store) Revoked(ctx context.Context, id string, at time.Time) error {
	return a.stamp(ctx, id, `SET revoked = CASE WHEN revoked = 0 OR revoked > $1 THEN $1 ELSE revoked END`, at)
}

func (a Store) stamp(ctx context.Context, id, set string, at time.Time) error {
	for _, table := range []string{"token", "api_key"} {
		var known bool
		err := a.m.Apply(ctx, db.Single(`UPDATE `+table+` `+set+` WHERE id = $2 RETURNING 1`, db.Nanos(at), id).Returning(&known))
		if err != nil || known {
			return err
		}
	}
	return account.CredentialNotFound.Errorf("there is no key or token %s", id)
}
