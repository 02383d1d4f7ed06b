package account

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"
)

// Store stores accounts. A new one holds Root and System. Package accounttest is
// its conformance suite.
type Store interface {
	// Domains returns all domains, by path.
	Domains(ctx context.Context) ([]Domain, error)
	// SaveDomain stores a new domain, or changes Disabled of a stored one.
	// ACCOUNT_EXISTS if another domain has its path.
	SaveDomain(ctx context.Context, d Domain) error
	// Accounts returns the accounts of a query, by domain and name.
	Accounts(ctx context.Context, q Query) ([]Account, error)
	// Account returns an account by id. ACCOUNT_NOT_FOUND.
	Account(ctx context.Context, id string) (Account, error)
	// SaveAccount stores a new account (Revision 0), or replaces exactly the given
	// revision; it returns the account with its new revision. ACCOUNT_EXISTS if
	// another account has its name in its domain; fault.WriteConflict.
	SaveAccount(ctx context.Context, a Account) (Account, error)

	// AddToken and AddKey store new credentials.
	AddToken(ctx context.Context, t Token) error
	AddKey(ctx context.Context, k Key) error
	// Tokens and Keys return the credentials of a query, by age; keys without their
	// secrets.
	Tokens(ctx context.Context, q CredentialQuery) ([]Token, error)
	Keys(ctx context.Context, q CredentialQuery) ([]Key, error)
	// TokenByHash and Key return one credential; Key with its secret.
	// CREDENTIAL_NOT_FOUND.
	TokenByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error)
	Key(ctx context.Context, id string) (Key, error)
	// Used and Revoked set a time of a token or key, by id. The later Used and the
	// earlier Revoked win. CREDENTIAL_NOT_FOUND.
	Used(ctx context.Context, id string, at time.Time) error
	Revoked(ctx context.Context, id string, at time.Time) error

	// Note appends to the audit trail. Trail reads it, newest first.
	Note(ctx context.Context, e Entry) error
	Trail(ctx context.Context, q TrailQuery) ([]Entry, error)
}

// Query selects accounts. Zero fields do not restrict.
type Query struct {
	Visibility *Visibility // which accounts; nil: all
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

// Page selects a part of a list. The zero Page selects all of it.
type Page struct {
	After string // id of the last item of the previous page; an unknown id selects nothing
	Limit int    // 0: all
}

// PageOf returns the page of a complete list.
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

// Entry is one entry of the audit trail: one call that changes something.
type Entry struct {
	Seq     int64     `json:"seq"` // grows; set by the store
	At      time.Time `json:"at"`
	Who     string    `json:"who"`               // name of the account at that time
	Account string    `json:"account,omitempty"` // its id; empty if the caller is unknown
	Domain  string    `json:"domain,omitempty"`  // id of its domain
	API     string    `json:"face"`              // /v1, /client/api or cli
	Call    string    `json:"call"`              // command or operation
	Target  string    `json:"target,omitempty"`  // object of the call
	Outcome string    `json:"outcome"`           // ok, or the code of the fault
}

// OK is the Outcome of a successful call.
const OK = "ok"

// OutcomeRefused is the TrailQuery.Outcome of calls that did not succeed.
const OutcomeRefused = "refused"

// TrailQuery selects entries.
type TrailQuery struct {
	Visibility Visibility // whose calls
	Target     string     // the whole target; empty: any
	Account    string     // id of the caller; empty: any
	Outcome    string     // OK: of successful calls; OutcomeRefused: of all others; empty: any
	Before     int64      // only those with a lower Seq; 0: all
	Limit      int        // 0: 100
}

// Sees reports whether the query selects an entry.
func (q TrailQuery) Sees(e Entry) bool {
	if q.Account != "" && q.Account != e.Account || q.Outcome != "" && (q.Outcome == OK) != (e.Outcome == OK) {
		return false
	}
	if q.Target != "" && q.Target != e.Target || q.Before > 0 && e.Seq >= q.Before {
		return false
	}
	return q.Visibility.Sees(e.Account, e.Domain)
}

// Sees reports whether the objects of an account in a domain are visible.
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

// Size returns Limit or its default.
func (q TrailQuery) Size() int {
	if q.Limit <= 0 {
		return 100
	}
	return q.Limit
}
