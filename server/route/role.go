package route

import (
	"context"
)

// Role is what an account may do; each role includes the previous ones.
type Role int

// The roles.
const (
	Anyone      Role = iota
	User             // its own clusters
	DomainAdmin      // also those of its domain
	Operator         // also flows, runs, objects and all clusters
)

// String returns anyone, user, domain-admin or operator.
func (r Role) String() string {
	return [...]string{"anyone", "user", "domain-admin", "operator"}[min(max(r, Anyone), Operator)]
}

// MarshalText encodes the role as its name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText decodes the name of a role.
func (r *Role) UnmarshalText(text []byte) error {
	for _, role := range []Role{Anyone, User, DomainAdmin, Operator} {
		if role.String() == string(text) {
			*r = role
			return nil
		}
	}
	return Malformed.Errorf("role %q is not user, domain-admin or operator", text)
}

// Principal is the authenticated caller of a request.
type Principal struct {
	Name    string // as history shows it
	Role    Role
	Account string // id; empty for the operator's own tokens
	Domain  string
}

// Allow refuses callers whose role is lower than least. FORBIDDEN.
func Allow(ctx context.Context, least Role) error {
	if who := CallOf(ctx).Who; who.Role < least {
		return Forbidden.Errorf("%s is %s, this is for %s", who.Name, who.Role, least)
	}
	return nil
}
