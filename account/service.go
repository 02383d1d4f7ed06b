package account

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Service reads and changes accounts for a caller: it looks up the caller and the
// object, checks the rules, and writes. An object that the caller may not see is
// not found.
type Service struct {
	Store Store
	Now   func() time.Time // nil: time.Now
}

func (d *Service) now() time.Time {
	if d.Now == nil {
		return time.Now().UTC()
	}
	return d.Now().UTC()
}

// NewAccount is an account to create.
type NewAccount struct {
	Name   string
	Domain string // id or path; empty: that of the caller
	Role   Role   // empty: User
	Limits Limits // operators only
}

// tree reads all domains.
func (d *Service) tree(ctx context.Context) (Tree, error) {
	return TreeOf(ctx, d.Store)
}

// Domains returns the domain of the caller and those below it, by path; to an
// operator, all domains.
func (d *Service) Domains(ctx context.Context, who Account, p Page) ([]Domain, error) {
	all, err := d.Store.Domains(ctx)
	if err != nil {
		return nil, err
	}
	tree := NewTree(all)
	all = slices.DeleteFunc(all, func(other Domain) bool {
		return other.ID != who.DomainID && !May(who.Role, SeeAccount, Relate(tree, who, "", other.ID))
	})
	return PageOf(all, p, func(one Domain) string { return one.ID }), nil
}

// domain finds a domain by id or path, among those that the caller may see.
func (d *Service) domain(ctx context.Context, who Account, ref string) (Domain, Tree, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return Domain{}, nil, err
	}
	if ref == "" {
		ref = who.DomainID
	}
	for _, found := range tree {
		if found.ID != ref && !strings.EqualFold(found.Path, ref) {
			continue
		}
		if found.ID == who.DomainID || May(who.Role, SeeAccount, Relate(tree, who, "", found.ID)) {
			return found, tree, nil
		}
	}
	return Domain{}, nil, DomainNotFound.Errorf("there is no domain %s", ref)
}

// CreateDomain creates a domain below another (id or path; empty: that of the
// caller).
func (d *Service) CreateDomain(ctx context.Context, who Account, name, parent string) (Domain, error) {
	above, tree, err := d.domain(ctx, who, parent)
	switch {
	case err != nil:
		return Domain{}, err
	case !May(who.Role, ManageDomains, Relate(tree, who, "", above.ID)):
		return Domain{}, Refused.Errorf("%s is %s and may not create a domain in %s", who.Name, who.Role, above.Path)
	case !validName(name):
		return Domain{}, Invalid.Errorf("name %q: use at most %d letters, digits and -._@, and begin and end with a letter or digit", name, maxName)
	}
	created := Domain{ID: newID(), Name: name, Path: above.Path + "/" + name, ParentID: above.ID, Created: d.now()}
	if err := d.Store.SaveDomain(ctx, created); err != nil {
		return Domain{}, err
	}
	return created, nil
}

// DisableDomain forbids (or allows again) all calls of accounts in a domain and below it.
func (d *Service) DisableDomain(ctx context.Context, who Account, ref string, disabled bool) (Domain, error) {
	found, tree, err := d.domain(ctx, who, ref)
	switch {
	case err != nil:
		return Domain{}, err
	case ref == "":
		return Domain{}, Invalid.Errorf("the domain is not named")
	case !May(who.Role, ManageDomains, Relate(tree, who, "", found.ID)):
		return Domain{}, Refused.Errorf("%s is %s and may not change domain %s", who.Name, who.Role, found.Path)
	case found.Holds(tree[who.DomainID]):
		return Domain{}, Refused.Errorf("%s is in domain %s: nobody changes the domain they are in", who.Name, found.Path)
	}
	found.Disabled = disabled
	return found, d.Store.SaveDomain(ctx, found)
}

// Accounts returns the accounts that the caller may see, of one domain (id or path)
// or of all.
func (d *Service) Accounts(ctx context.Context, who Account, domain string, p Page) ([]Account, error) {
	q := Query{Page: p}
	tree, err := d.tree(ctx)
	if err == nil && domain != "" {
		var found Domain
		found, tree, err = d.domain(ctx, who, domain)
		q.DomainIDs = []string{found.ID}
	}
	if err != nil {
		return nil, err
	}
	visibility := VisibilityOf(tree, who, SeeAccount)
	q.Visibility = &visibility
	return d.Store.Accounts(ctx, q)
}

func canSee(tree Tree, who, a Account) bool {
	return May(who.Role, SeeAccount, Relate(tree, who, a.ID, a.DomainID))
}

// Find returns an account that the caller may see: by id, by PATH/NAME, or by a
// name that only one account has. Empty: the caller.
func (d *Service) Find(ctx context.Context, who Account, ref string) (Account, error) {
	a, _, err := d.find(ctx, who, ref)
	return a, err
}

func (d *Service) find(ctx context.Context, who Account, ref string) (Account, Tree, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return Account{}, nil, err
	}
	if ref == "" {
		ref = who.ID
	}
	path, name := "", ref
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		path, name = ref[:i], ref[i+1:]
	}
	all, err := d.Store.Accounts(ctx, Query{Name: name})
	if err != nil {
		return Account{}, nil, err
	}
	all = slices.DeleteFunc(all, func(a Account) bool {
		return !canSee(tree, who, a) || path != "" && !strings.EqualFold(tree[a.DomainID].Path, path)
	})
	switch len(all) {
	case 1:
		return all[0], tree, nil
	case 0:
		if a, err := d.Store.Account(ctx, ref); err == nil && canSee(tree, who, a) {
			return a, tree, nil
		}
		return Account{}, nil, NotFound.Errorf("there is no account %s", ref)
	}
	return Account{}, nil, Invalid.Errorf("%d accounts have the name %s: write DOMAIN/%s", len(all), name, name)
}

// CreateAccount creates an account. It has neither token nor key yet.
func (d *Service) CreateAccount(ctx context.Context, who Account, w NewAccount) (Account, error) {
	if w.Role == "" {
		w.Role = User
	}
	domain, tree, err := d.domain(ctx, who, w.Domain)
	to := Relate(tree, who, "", domain.ID)
	switch {
	case err != nil:
		return Account{}, err
	case !w.Role.Valid():
		return Account{}, Invalid.Errorf("role %q: it is %s, %s or %s", w.Role, User, DomainAdmin, Operator)
	case !May(who.Role, ManageAccounts, to) || w.Role.rank() > who.Role.rank():
		return Account{}, Refused.Errorf("%s is %s and may not create a %s in %s", who.Name, who.Role, w.Role, domain.Path)
	case w.Limits != Limits{} && !May(who.Role, SetLimits, to):
		return Account{}, Refused.Errorf("%s is %s and may not set limits", who.Name, who.Role)
	case !w.Limits.valid():
		return Account{}, Invalid.Errorf("a limit is negative; 0 is no limit")
	case !validName(w.Name):
		return Account{}, Invalid.Errorf("name %q: use at most %d letters, digits and -._@, and begin and end with a letter or digit", w.Name, maxName)
	}
	return d.Store.SaveAccount(ctx, Account{ID: newID(), Name: w.Name, DomainID: domain.ID, Role: w.Role, Limits: w.Limits, Created: d.now()})
}

// Disable forbids (or allows again) all calls of an account. Its clusters stay as they are.
func (d *Service) Disable(ctx context.Context, who Account, ref string, disabled bool) (Account, error) {
	a, tree, err := d.find(ctx, who, ref)
	switch {
	case err != nil:
		return Account{}, err
	case !May(who.Role, ManageAccounts, Relate(tree, who, a.ID, a.DomainID)) || a.Role.rank() > who.Role.rank():
		return Account{}, Refused.Errorf("%s is %s and may not change account %s", who.Name, who.Role, a.Name)
	case a.ID == SystemID, a.ID == who.ID:
		return Account{}, Refused.Errorf("account %s is the operator's own or that of the caller: it cannot be disabled", a.Name)
	case a.Disabled == disabled:
		return a, nil
	}
	a.Disabled = disabled
	return d.Store.SaveAccount(ctx, a)
}

// SetLimits sets the limits of an account.
func (d *Service) SetLimits(ctx context.Context, who Account, ref string, l Limits) (Account, error) {
	a, tree, err := d.find(ctx, who, ref)
	switch {
	case err != nil:
		return Account{}, err
	case !May(who.Role, SetLimits, Relate(tree, who, a.ID, a.DomainID)):
		return Account{}, Refused.Errorf("%s is %s and may not set limits", who.Name, who.Role)
	case !l.valid():
		return Account{}, Invalid.Errorf("a limit is negative; 0 is no limit")
	}
	a.Limits = l
	return d.Store.SaveAccount(ctx, a)
}

// NewCredential is a token or key to create: for which account, with which name and
// lifetime.
type NewCredential struct {
	Account  string // id or name; empty: the caller
	Name     string
	ValidFor time.Duration // 0: until it is revoked
}

// CreateToken creates a token. The second value is the token; it is returned only
// here.
func (d *Service) CreateToken(ctx context.Context, who Account, n NewCredential) (Token, Secret, error) {
	c, err := d.credential(ctx, who, n)
	if err != nil {
		return Token{}, "", err
	}
	secret := newSecret()
	c.ID = newID()
	t := Token{Credential: c, Hash: HashToken(secret)}
	if err := d.Store.AddToken(ctx, t); err != nil {
		return Token{}, "", err
	}
	return t, Secret(secret), nil
}

// CreateKey creates a key. Its secret is returned only here.
func (d *Service) CreateKey(ctx context.Context, who Account, n NewCredential) (Key, error) {
	c, err := d.credential(ctx, who, n)
	if err != nil {
		return Key{}, err
	}
	c.ID = newSecret()
	k := Key{Credential: c, Secret: Secret(newSecret())}
	if err := d.Store.AddKey(ctx, k); err != nil {
		return Key{}, err
	}
	return k, nil
}

func (d *Service) credential(ctx context.Context, who Account, n NewCredential) (Credential, error) {
	a, err := d.keyOwner(ctx, who, n.Account)
	switch {
	case err != nil:
		return Credential{}, err
	case n.ValidFor < 0:
		return Credential{}, Invalid.Errorf("a credential that is valid for %s has already expired", n.ValidFor)
	case len(n.Name) > 255:
		return Credential{}, Invalid.Errorf("the name of a credential has at most 255 characters")
	}
	c := Credential{AccountID: a.ID, Name: n.Name, Created: d.now()}
	if n.ValidFor > 0 {
		c.Expires = c.Created.Add(n.ValidFor)
	}
	return c, nil
}

// keyOwner finds the account of a credential and checks that the caller may use its
// credentials.
func (d *Service) keyOwner(ctx context.Context, who Account, ref string) (Account, error) {
	a, tree, err := d.find(ctx, who, ref)
	if err == nil && !May(who.Role, UseKeys, Relate(tree, who, a.ID, a.DomainID)) {
		err = Refused.Errorf("%s is %s: keys and tokens of others are for operators", who.Name, who.Role)
	}
	return a, err
}

// Tokens returns the tokens of an account (empty: the caller), by age.
func (d *Service) Tokens(ctx context.Context, who Account, ref string, p Page) ([]Token, error) {
	a, err := d.keyOwner(ctx, who, ref)
	if err != nil {
		return nil, err
	}
	return d.Store.Tokens(ctx, CredentialQuery{Account: a.ID, Page: p})
}

// Keys returns the keys of an account (empty: the caller), by age and without
// secrets.
func (d *Service) Keys(ctx context.Context, who Account, ref string, p Page) ([]Key, error) {
	a, err := d.keyOwner(ctx, who, ref)
	if err != nil {
		return nil, err
	}
	return d.Store.Keys(ctx, CredentialQuery{Account: a.ID, Page: p})
}

// Revoke invalidates a token or key for ever.
func (d *Service) Revoke(ctx context.Context, who Account, id string) error {
	c, err := d.credentialByID(ctx, id)
	if err != nil {
		return err
	}
	if _, err := d.keyOwner(ctx, who, c.AccountID); err != nil {
		return CredentialNotFound.Errorf("there is no key or token %s", id)
	}
	return d.Store.Revoked(ctx, id, d.now())
}

// credentialByID finds a credential by id.
func (d *Service) credentialByID(ctx context.Context, id string) (Credential, error) {
	if k, err := d.Store.Key(ctx, id); err == nil {
		return k.Credential, nil
	}
	all, err := d.Store.Tokens(ctx, CredentialQuery{ID: id})
	switch {
	case err != nil:
		return Credential{}, err
	case id != "" && len(all) == 1:
		return all[0].Credential, nil
	}
	return Credential{}, CredentialNotFound.Errorf("there is no key or token %s", id)
}

// Trail returns the audit entries that the caller may see.
func (d *Service) Trail(ctx context.Context, who Account, q TrailQuery) ([]Entry, error) {
	tree, err := d.tree(ctx)
	if err != nil {
		return nil, err
	}
	q.Visibility = VisibilityOf(tree, who, SeeTrail)
	return d.Store.Trail(ctx, q)
}
