package account

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"
)

// Store keeps accounts. A new one holds Root and System. Its exam is accounttest.
type Store interface {
	// Domains gives the whole tree, by path.
	Domains(ctx context.Context) ([]Domain, error)
	// SaveDomain stores a new domain, or Disabled of a known one. ACCOUNT_EXISTS
	// if another one has its path.
	SaveDomain(ctx context.Context, d Domain) error
	// Accounts gives those of a query, by domain and name; Tokens and Keys by age.
	Accounts(ctx context.Context, q Query) ([]Account, error)
	// Account by id. ACCOUNT_NOT_FOUND.
	Account(ctx context.Context, id string) (Account, error)
	// SaveAccount stores a new account (Revision 0) or exactly the revision it
	// was given, and gives it with its new revision. ACCOUNT_EXISTS if another
	// one has its name in its domain; fault.WriteConflict.
	SaveAccount(ctx context.Context, a Account) (Account, error)

	// AddToken and AddKey store new credentials.
	AddToken(ctx context.Context, t Token) error
	AddKey(ctx context.Context, k Key) error
	// Tokens and Keys give those of a query; keys without their secrets.
	Tokens(ctx context.Context, q CredentialQuery) ([]Token, error)
	Keys(ctx context.Context, q CredentialQuery) ([]Key, error)
	// TokenByHash and Key find a credential; Key has its secret. CREDENTIAL_NOT_FOUND.
	TokenByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error)
	Key(ctx context.Context, id string) (Key, error)
	// Used and Revoked set a time of a token or key, by id; both keep the later Used and the
	// earlier Revoked. CREDENTIAL_NOT_FOUND.
	Used(ctx context.Context, id string, at time.Time) error
	Revoked(ctx context.Context, id string, at time.Time) error

	// Note appends to the audit trail, Trail reads it, newest first.
	Note(ctx context.Context, e Entry) error
	Trail(ctx context.Context, q TrailQuery) ([]Entry, error)
}

// Query selects accounts. Zero fields do not restrict.
type Query struct {
	Visibility *Visibility // whose accounts may be seen; nil: all
	DomainIDs  []string    // nil: all
	Name       string      // the whole name
	Page
}

// CredentialQuery selects tokens or keys. Zero fields do not restrict.
type CredentialQuery struct {
	ID      string
	Account string // its id
	Page
}

// Page is a part of a list. The zero Page is all of it.
type Page struct {
	After string // id of the last one of the page before; behind an unknown one there is nothing
	Limit int    // 0: all
}

// PageOf cuts a list that is there as a whole.
func PageOf[T any](all []T, p Page, id func(T) string) []T {
	if p.After != "" {
		at := slices.IndexFunc(all, func(one T) bool { return id(one) == p.After })
		if at < 0 {
			return nil
		}
		all = all[at+1:]
	}
	if p.Limit > 0 && len(all) > p.Limit {
		all = all[:p.Limit]
	}
	return all
}

// Entry is a line of the audit trail: one changing call.
type Entry struct {
	Seq     int64     `json:"seq"` // growing; given by the store
	At      time.Time `json:"at"`
	Who     string    `json:"who"`               // account's name, as history tells it
	Account string    `json:"account,omitempty"` // its id; empty if the caller was nobody known
	Domain  string    `json:"domain,omitempty"`  // id of its domain
	API     string    `json:"face"`              // /v1, /client/api or cli
	Call    string    `json:"call"`              // command or operation
	Target  string    `json:"target,omitempty"`  // what it concerned
	Outcome string    `json:"outcome"`           // ok, or the code of the fault
}

// OK is the Outcome of a call that was carried out.
const OK = "ok"

// TrailQuery selects entries.
type TrailQuery struct {
	Visibility Visibility // whose calls
	Target     string     // the whole target; empty: any
	Before     int64      // only those with a lower Seq; 0: all
	Limit      int        // 0: 100
}

// Sees reports whether the trail query lets an entry through.
func (q TrailQuery) Sees(e Entry) bool {
	if q.Target != "" && q.Target != e.Target || q.Before > 0 && e.Seq >= q.Before {
		return false
	}
	return q.Visibility.Sees(e.Account, e.Domain)
}

// Sees reports whether things of an account in a domain are within sight.
func (s Visibility) Sees(accountID, domainID string) bool {
	if s.All || s.AccountID != "" && s.AccountID == accountID {
		return true
	}
	for _, d := range s.DomainIDs {
		if d == domainID {
			return true
		}
	}
	return false
}

// Size is Limit or its default.
func (q TrailQuery) Size() int {
	if q.Limit <= 0 {
		return 100
	}
	return q.Limit
}
