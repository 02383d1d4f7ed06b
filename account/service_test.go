package account

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// fixture is a Service with ROOT/dev (dan its admin, uma in it) and ROOT/ops (otto
// its admin).
type fixture struct {
	t *testing.T
	*Service
	now            time.Time
	dan, uma, otto Account
	dev, ops       Domain
}

func newFixture(t *testing.T) *fixture {
	o := &fixture{t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	o.Service = &Service{Store: NewMemory(), Now: func() time.Time { return o.now }}
	o.dev, o.ops = must(o.CreateDomain(t.Context(), System(), "dev", ""))(t), must(o.CreateDomain(t.Context(), System(), "ops", "root"))(t)
	make := func(name, domain string, role Role) Account {
		return must(o.CreateAccount(t.Context(), System(), NewAccount{Name: name, Domain: domain, Role: role}))(t)
	}
	o.dan, o.uma, o.otto = make("dan", "ROOT/dev", DomainAdmin), make("uma", o.dev.ID, ""), make("otto", "ROOT/ops", DomainAdmin)
	return o
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestWhoMakesAccounts(t *testing.T) {
	o := newFixture(t)
	if o.uma.Role != User {
		t.Errorf("the default role is %s", o.uma.Role)
	}
	for _, c := range []struct {
		name string
		who  Account
		want NewAccount
		kind *fault.Kind
	}{
		{"an admin in its domain", o.dan, NewAccount{Name: "new1"}, nil},
		{"another admin", o.dan, NewAccount{Name: "new2", Role: DomainAdmin}, nil},
		{"not an operator", o.dan, NewAccount{Name: "new3", Role: Operator}, Refused},
		{"not with limits", o.dan, NewAccount{Name: "new4", Limits: Limits{Nodes: 1}}, Refused},
		{"not elsewhere", o.dan, NewAccount{Name: "new5", Domain: "ROOT/ops"}, DomainNotFound},
		{"not above", o.dan, NewAccount{Name: "new6", Domain: "ROOT"}, DomainNotFound},
		{"a user none", o.uma, NewAccount{Name: "new7"}, Refused},
		{"an operator everywhere", System(), NewAccount{Name: "new8", Domain: "ROOT/ops", Role: Operator, Limits: Limits{Nodes: 1}}, nil},
		{"a name that is taken", o.dan, NewAccount{Name: "UMA"}, Exists},
		{"a name with a slash", o.dan, NewAccount{Name: "a/b"}, Invalid},
		{"an empty name", o.dan, NewAccount{}, Invalid},
		{"a role that is none", System(), NewAccount{Name: "x", Role: "root"}, Invalid},
		{"a negative limit", System(), NewAccount{Name: "x", Limits: Limits{Size: -1}}, Invalid},
		{"a domain that is none", System(), NewAccount{Name: "x", Domain: "ROOT/nowhere"}, DomainNotFound},
	} {
		if _, err := o.CreateAccount(t.Context(), c.who, c.want); c.kind == nil && err != nil || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
}

// An object that the caller may not see is not found, so that its existence stays
// secret.
func TestWhoSeesAccounts(t *testing.T) {
	o := newFixture(t)
	for _, c := range []struct {
		who  Account
		sees string
	}{{System(), "operator dan uma otto"}, {o.dan, "dan uma"}, {o.uma, "uma"}, {o.otto, "otto"}} {
		all := must(o.Accounts(t.Context(), c.who, "", Page{}))(t)
		if len(all) != len(strings.Fields(c.sees)) {
			t.Errorf("%s sees %v, want %s", c.who.Name, all, c.sees)
		}
		for _, ref := range []string{"operator", "dan", "uma", "otto", o.uma.ID, "ROOT/dev/uma", "root/ops/otto"} {
			name := ref[strings.LastIndex(ref, "/")+1:]
			if ref == o.uma.ID {
				name = "uma"
			}
			_, err := o.Find(t.Context(), c.who, ref)
			if visible := strings.Contains(c.sees, name); visible && err != nil || !visible && !errors.Is(err, NotFound) {
				t.Errorf("%s finds %s: %v", c.who.Name, ref, err)
			}
		}
	}
	if got := must(o.Find(t.Context(), o.uma, ""))(t); got.ID != o.uma.ID {
		t.Errorf("without a name it is %s", got.Name)
	}
	must(o.CreateAccount(t.Context(), System(), NewAccount{Name: "uma", Domain: "ROOT/ops"}))(t)
	if _, err := o.Find(t.Context(), System(), "uma"); !errors.Is(err, Invalid) {
		t.Errorf("a name of two: %v", err)
	}
	if got := must(o.Domains(t.Context(), o.dan, Page{}))(t); len(got) != 1 || got[0].ID != o.dev.ID {
		t.Errorf("dan sees domains %v", got)
	}
}

func TestWhoChangesAccounts(t *testing.T) {
	o := newFixture(t)
	boss := must(o.CreateAccount(t.Context(), System(), NewAccount{Name: "boss", Domain: "ROOT/dev", Role: Operator}))(t)
	for _, c := range []struct {
		name string
		who  Account
		ref  string
		kind *fault.Kind
	}{
		{"an admin its user", o.dan, "uma", nil},
		{"not an operator in its domain", o.dan, "boss", Refused},
		{"not itself", o.dan, "dan", Refused},
		{"not others", o.dan, "otto", NotFound},
		{"a user not itself", o.uma, "uma", Refused},
		{"an operator an operator", System(), "boss", nil},
		{"not the operator's own", boss, "operator", Refused},
	} {
		if _, err := o.Disable(t.Context(), c.who, c.ref, true); c.kind == nil && err != nil || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
	if _, err := o.SetLimits(t.Context(), o.dan, "uma", Limits{Nodes: 3}); !errors.Is(err, Refused) {
		t.Errorf("an admin sets limits: %v", err)
	}
	if got := must(o.SetLimits(t.Context(), System(), "uma", Limits{Nodes: 3}))(t); got.Limits.Nodes != 3 {
		t.Errorf("limits %+v", got.Limits)
	}
	if _, err := o.DisableDomain(t.Context(), o.dan, "ROOT/dev", true); !errors.Is(err, Refused) {
		t.Errorf("an admin disables its own domain: %v", err)
	}
	if _, err := o.DisableDomain(t.Context(), System(), "", true); err == nil {
		t.Error("a domain without a name is disabled")
	}
	if _, err := o.DisableDomain(t.Context(), System(), "ROOT/dev", true); err != nil {
		t.Error(err)
	}
	if _, err := o.CreateDomain(t.Context(), o.uma, "mine", ""); !errors.Is(err, Refused) {
		t.Errorf("a user makes a domain: %v", err)
	}
}

// A credential works until it is revoked, expires, or its account or a domain above is disabled.
func TestCredentials(t *testing.T) {
	o := newFixture(t)
	tok, plain, err := o.CreateToken(t.Context(), o.uma, NewCredential{Name: "ci", ValidFor: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	k := must(o.CreateKey(t.Context(), System(), NewCredential{Account: "uma"}))(t)
	if _, err := o.CreateKey(t.Context(), o.dan, NewCredential{Account: "uma"}); !errors.Is(err, Refused) {
		t.Errorf("keys of others are for operators, but: %v", err)
	}
	works := func() (byToken, byKey bool) {
		t.Helper()
		_, a, err := o.ByToken(t.Context(), HashToken(plain.Reveal()))
		if err != nil {
			t.Fatal(err)
		}
		c, found, b, err := o.ByKey(t.Context(), k.ID)
		if err != nil || b && (found.Secret != k.Secret || c.ID != o.uma.ID) {
			t.Fatalf("%v %+v", err, c)
		}
		return a, b
	}
	expect := func(when string, byToken, byKey bool) {
		t.Helper()
		if a, b := works(); a != byToken || b != byKey {
			t.Errorf("%s: token %v, key %v", when, a, b)
		}
	}
	expect("at first", true, true)
	if got := must(o.Tokens(t.Context(), o.uma, "", Page{}))(t); len(got) != 1 || !got[0].LastUse.Equal(o.now) {
		t.Errorf("last use: %+v", got)
	}
	must(o.Disable(t.Context(), o.dan, "uma", true))(t)
	expect("disabled", false, false)
	must(o.Disable(t.Context(), o.dan, "uma", false))(t)
	expect("enabled", true, true)
	must(o.DisableDomain(t.Context(), System(), "ROOT/dev", true))(t)
	expect("domain disabled", false, false)
	must(o.DisableDomain(t.Context(), System(), "ROOT/dev", false))(t)
	o.now = o.now.Add(time.Hour)
	expect("the token expired", false, true)
	if err := o.Revoke(t.Context(), o.dan, k.ID); !errors.Is(err, CredentialNotFound) {
		t.Errorf("an admin revokes a user's key: %v", err)
	}
	if err := o.Revoke(t.Context(), o.uma, k.ID); err != nil {
		t.Error(err)
	}
	expect("the key revoked", false, false)
	if err := o.Revoke(t.Context(), o.uma, tok.ID); err != nil {
		t.Error(err)
	}
	if err := o.Revoke(t.Context(), System(), "nothing"); !errors.Is(err, CredentialNotFound) {
		t.Errorf("nothing is revoked: %v", err)
	}
	if _, _, err := o.CreateToken(t.Context(), o.uma, NewCredential{ValidFor: -1}); !errors.Is(err, Invalid) {
		t.Errorf("an expired token is made: %v", err)
	}
	if _, found, err := o.ByToken(t.Context(), HashToken("unknown")); found || err != nil {
		t.Errorf("an unknown token: %v %v", found, err)
	}
}

// Once there is an account, token or key, callers on loopback need credentials too.
func TestAny(t *testing.T) {
	d := &Service{Store: NewMemory()}
	if must(d.HasCallers(t.Context()))(t) {
		t.Error("an empty store has somebody")
	}
	must(d.CreateKey(t.Context(), System(), NewCredential{}))(t)
	if !must(d.HasCallers(t.Context()))(t) {
		t.Error("a key of the operator's own is nobody")
	}
	if !must(newFixture(t).HasCallers(t.Context()))(t) {
		t.Error("an office is empty")
	}
}

func TestTrailIsSeenByRole(t *testing.T) {
	o := newFixture(t)
	for _, a := range []Account{o.dan, o.uma, o.otto} {
		if err := o.Store.Note(t.Context(), Entry{Who: a.Name, Account: a.ID, Domain: a.DomainID, Call: "x", Outcome: OK}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		who  Account
		want int
	}{{System(), 3}, {o.dan, 2}, {o.uma, 1}, {o.otto, 1}} {
		if got := must(o.Trail(t.Context(), c.who, TrailQuery{}))(t); len(got) != c.want {
			t.Errorf("%s reads %v", c.who.Name, got)
		}
	}
}
