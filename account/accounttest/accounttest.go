// Package accounttest is the conformance suite of account.Store.
//
//	func TestAccounts(t *testing.T) {
//		accounttest.Run(t, func(t *testing.T) account.Store { return open(t) })
//	}
package accounttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/fault"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// Run tests a store. open returns a new, empty store for each test.
func Run(t *testing.T, open func(t *testing.T) account.Store) {
	for name, part := range map[string]func(*testing.T, account.Store){
		"it begins with ROOT and the operator":   initialRecords,
		"domains are a tree with unique paths":   domains,
		"accounts are found by domain and name":  accounts,
		"a save takes the revision it was given": revisions,
		"names are unique under concurrency":     races,
		"tokens are found by hash":               tokens,
		"keys keep their secret out of lists":    keys,
		"uses and revocations only go one way":   usedAndRevoked,
		"credentials are listed by pages":        credentials,
		"the trail is read newest first":         trail,
		"everything comes back as it was":        roundTrip,
		"an ended context changes nothing":       cancelledContext,
	} {
		t.Run(name, func(t *testing.T) { part(t, open(t)) })
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func isKind(t *testing.T, what string, err error, kind *fault.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s gives %v, want %s", what, err, kind.Code)
	}
}

func initialRecords(t *testing.T, s account.Store) {
	all, err := s.Domains(t.Context())
	check(t, err)
	same(t, "domains", all, []account.Domain{account.Root()})
	list, err := s.Accounts(t.Context(), account.Query{})
	check(t, err)
	same(t, "accounts", list, []account.Account{account.System()})
}

func dom(id, path string) account.Domain {
	d := account.Domain{ID: id, Path: path, Name: path[strings.LastIndex(path, "/")+1:], ParentID: account.RootID, Created: noon}
	return d
}

func domains(t *testing.T, s account.Store) {
	web, dev := dom("d2", "ROOT/dev/web"), dom("d1", "ROOT/dev")
	check(t, s.SaveDomain(t.Context(), dev))
	check(t, s.SaveDomain(t.Context(), web))
	isKind(t, "a path twice", s.SaveDomain(t.Context(), dom("d3", "ROOT/dev")), account.Exists)
	isKind(t, "a path twice, but for case", s.SaveDomain(t.Context(), dom("d3", "ROOT/Dev")), account.Exists)
	all, err := s.Domains(t.Context())
	check(t, err)
	same(t, "by path", all, []account.Domain{account.Root(), dev, web})
	changed := dev
	changed.Disabled, changed.Name, changed.Path = true, "other", "ROOT/other"
	check(t, s.SaveDomain(t.Context(), changed))
	all, err = s.Domains(t.Context())
	check(t, err)
	dev.Disabled = true
	same(t, "only Disabled changes", all, []account.Domain{account.Root(), dev, web})
}

func accounts(t *testing.T, s account.Store) {
	check(t, s.SaveDomain(t.Context(), dom("d1", "ROOT/dev")))
	save := func(a account.Account) account.Account {
		t.Helper()
		a, err := s.SaveAccount(t.Context(), a)
		check(t, err)
		return a
	}
	uma := save(account.Account{ID: "a1", Name: "uma", DomainID: "d1", Role: account.User, Created: noon})
	root := save(account.Account{ID: "a2", Name: "uma", DomainID: account.RootID, Role: account.DomainAdmin, Created: noon})
	if uma.Revision != 1 {
		t.Errorf("a new account has revision %d", uma.Revision)
	}
	for what, c := range map[string]struct {
		q    account.Query
		want []account.Account
	}{
		"all":                           {account.Query{}, []account.Account{account.System(), root, uma}},
		"by name":                       {account.Query{Name: "UMA"}, []account.Account{root, uma}},
		"by domain":                     {account.Query{DomainIDs: []string{"d1"}}, []account.Account{uma}},
		"no domain":                     {account.Query{DomainIDs: []string{}}, nil},
		"both":                          {account.Query{DomainIDs: []string{"d1", account.RootID}, Name: "uma"}, []account.Account{root, uma}},
		"limited":                       {account.Query{Page: account.Page{Limit: 1}}, []account.Account{account.System()}},
		"nobody":                        {account.Query{Name: "um"}, nil},
		"own account":                   {account.Query{Visibility: &account.Visibility{AccountID: "a1"}}, []account.Account{uma}},
		"own domain":                    {account.Query{Visibility: &account.Visibility{AccountID: "a2", DomainIDs: []string{"d1"}}}, []account.Account{root, uma}},
		"all visible":                   {account.Query{Visibility: &account.Visibility{All: true}, Name: "uma"}, []account.Account{root, uma}},
		"none visible":                  {account.Query{Visibility: &account.Visibility{}}, nil},
		"next page":                     {account.Query{Page: account.Page{After: account.SystemID, Limit: 1}}, []account.Account{root}},
		"last page":                     {account.Query{Page: account.Page{After: "a2", Limit: 5}}, []account.Account{uma}},
		"past the end":                  {account.Query{Page: account.Page{After: "a1"}}, nil},
		"after one that is not visible": {account.Query{Visibility: &account.Visibility{AccountID: "a1"}, Page: account.Page{After: "a2"}}, []account.Account{uma}},
		"after an unknown one":          {account.Query{Page: account.Page{After: "a9"}}, nil},
		"no wildcards":                  {account.Query{Name: "%"}, nil},
	} {
		got, err := s.Accounts(t.Context(), c.q)
		check(t, err)
		if len(got) != 0 || len(c.want) != 0 {
			same(t, what, got, c.want)
		}
	}
	_, err := s.SaveAccount(t.Context(), account.Account{ID: "a3", Name: "Uma", DomainID: "d1", Role: account.User})
	isKind(t, "a name twice", err, account.Exists)
	_, err = s.Account(t.Context(), "a3")
	isKind(t, "an unknown id", err, account.NotFound)
}

func revisions(t *testing.T, s account.Store) {
	a, err := s.SaveAccount(t.Context(), account.Account{ID: "a1", Name: "uma", DomainID: account.RootID, Role: account.User})
	check(t, err)
	old := a
	a.Disabled = true
	a, err = s.SaveAccount(t.Context(), a)
	check(t, err)
	if a.Revision != old.Revision+1 {
		t.Errorf("revision %d after %d", a.Revision, old.Revision)
	}
	old.Limits.Nodes = 5
	_, err = s.SaveAccount(t.Context(), old)
	isKind(t, "an old revision", err, fault.WriteConflict)
	_, err = s.SaveAccount(t.Context(), account.Account{ID: "a1", Name: "eve", DomainID: account.RootID, Role: account.Operator})
	isKind(t, "a known id as new", err, fault.WriteConflict)
	_, err = s.SaveAccount(t.Context(), account.Account{ID: "a9", Name: "zed", DomainID: account.RootID, Role: account.User, Revision: 1})
	isKind(t, "an unknown id as known", err, fault.WriteConflict)
	got, err := s.Account(t.Context(), "a1")
	check(t, err)
	same(t, "what is stored", got, a)
}

func races(t *testing.T, s account.Store) {
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range 8 {
		all.Go(func() {
			_, err := s.SaveAccount(t.Context(), account.Account{ID: fmt.Sprint("a", i), Name: "uma", DomainID: account.RootID, Role: account.User})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, account.Exists) {
				t.Errorf("a loser gets %v", err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 8 got the name", won.Load())
	}
}

func token(id, accountID string, at time.Time) account.Token {
	return account.Token{Credential: account.Credential{ID: id, AccountID: accountID, Name: "ci", Created: at}, Hash: account.HashToken(id)}
}

func tokens(t *testing.T, s account.Store) {
	one, two, other := token("t1", "a1", noon), token("t2", "a1", noon.Add(-time.Hour)), token("t3", "a2", noon)
	one.Expires = noon.Add(time.Hour)
	for _, tok := range []account.Token{one, two, other} {
		check(t, s.AddToken(t.Context(), tok))
	}
	if err := s.AddToken(t.Context(), one); err == nil {
		t.Error("a token is added twice")
	}
	got, err := s.TokenByHash(t.Context(), one.Hash)
	check(t, err)
	same(t, "by hash", got, one)
	_, err = s.TokenByHash(t.Context(), account.HashToken("t4"))
	isKind(t, "an unknown hash", err, account.CredentialNotFound)
	list, err := s.Tokens(t.Context(), account.CredentialQuery{Account: "a1"})
	check(t, err)
	same(t, "of an account, by age", list, []account.Token{two, one})
	list, err = s.Tokens(t.Context(), account.CredentialQuery{})
	check(t, err)
	if len(list) != 3 {
		t.Errorf("%d tokens in all", len(list))
	}
}

func keys(t *testing.T, s account.Store) {
	k := account.Key{Credential: account.Credential{ID: "EXAMPLE-KEY", AccountID: "a1", Created: noon, Expires: noon.Add(time.Hour)}, Secret: "planted-secret"}
	check(t, s.AddKey(t.Context(), k))
	if err := s.AddKey(t.Context(), k); err == nil {
		t.Error("a key is added twice")
	}
	got, err := s.Key(t.Context(), k.ID)
	check(t, err)
	if got.Secret.Reveal() != "planted-secret" {
		t.Errorf("the secret comes back as %q", got.Secret.Reveal())
	}
	same(t, "the key", got.Credential, k.Credential)
	for _, of := range []string{"", "a1"} {
		list, err := s.Keys(t.Context(), account.CredentialQuery{Account: of})
		check(t, err)
		same(t, "the list", list, []account.Key{{Credential: k.Credential}})
	}
	list, err := s.Keys(t.Context(), account.CredentialQuery{Account: "a2"})
	check(t, err)
	if len(list) != 0 {
		t.Errorf("another account has %v", list)
	}
	_, err = s.Key(t.Context(), "example-key")
	isKind(t, "a key in another case", err, account.CredentialNotFound)
}

// credentials: ids order credentials of the same time, so pages neither repeat nor
// omit one.
func credentials(t *testing.T, s account.Store) {
	var want []string
	for i := range 7 {
		at := noon.Add(time.Duration(i/3) * time.Second)
		id := fmt.Sprint("c", i)
		check(t, s.AddToken(t.Context(), token(id, "a1", at)))
		check(t, s.AddKey(t.Context(), account.Key{Credential: account.Credential{ID: "k" + id, AccountID: "a1", Created: at}, Secret: "s"}))
		want = append(want, id)
	}
	check(t, s.AddToken(t.Context(), token("other", "a2", noon)))
	check(t, s.AddKey(t.Context(), account.Key{Credential: account.Credential{ID: "kother", AccountID: "a2", Created: noon}, Secret: "s"}))
	for _, size := range []int{1, 2, 3, 7, 8} {
		var tokens, keys []string
		for q := (account.CredentialQuery{Account: "a1", Page: account.Page{Limit: size}}); ; {
			page, err := s.Tokens(t.Context(), q)
			check(t, err)
			for _, one := range page {
				tokens = append(tokens, one.ID)
			}
			if len(page) < size {
				break
			}
			q.After = page[len(page)-1].ID
		}
		for q := (account.CredentialQuery{Account: "a1", Page: account.Page{Limit: size}}); ; {
			page, err := s.Keys(t.Context(), q)
			check(t, err)
			for _, one := range page {
				keys = append(keys, strings.TrimPrefix(one.ID, "k"))
			}
			if len(page) < size {
				break
			}
			q.After = page[len(page)-1].ID
		}
		same(t, fmt.Sprintf("tokens by pages of %d", size), tokens, want)
		same(t, fmt.Sprintf("keys by pages of %d", size), keys, want)
	}
	one, err := s.Tokens(t.Context(), account.CredentialQuery{ID: "c3"})
	check(t, err)
	if len(one) != 1 || one[0].ID != "c3" {
		t.Errorf("by id: %+v", one)
	}
	none, err := s.Keys(t.Context(), account.CredentialQuery{Page: account.Page{After: "unknown"}})
	check(t, err)
	if len(none) != 0 {
		t.Errorf("behind an unknown key: %+v", none)
	}
}

func usedAndRevoked(t *testing.T, s account.Store) {
	check(t, s.AddKey(t.Context(), account.Key{Credential: account.Credential{ID: "k1", AccountID: "a1", Created: noon}, Secret: "s"}))
	check(t, s.AddToken(t.Context(), token("t1", "a1", noon)))
	later, latest := noon.Add(time.Minute), noon.Add(time.Hour)
	for _, id := range []string{"k1", "t1"} {
		for _, at := range []time.Time{later, latest, noon} {
			check(t, s.Used(t.Context(), id, at))
		}
		for _, at := range []time.Time{latest, later, latest} {
			check(t, s.Revoked(t.Context(), id, at))
		}
	}
	k, err := s.Key(t.Context(), "k1")
	check(t, err)
	tok, err := s.TokenByHash(t.Context(), account.HashToken("t1"))
	check(t, err)
	for _, c := range []account.Credential{k.Credential, tok.Credential} {
		if !c.LastUse.Equal(latest) || !c.Revoked.Equal(later) {
			t.Errorf("%s: used %s, revoked %s", c.ID, c.LastUse, c.Revoked)
		}
	}
	isKind(t, "use of nothing", s.Used(t.Context(), "x", noon), account.CredentialNotFound)
	isKind(t, "end of nothing", s.Revoked(t.Context(), "x", noon), account.CredentialNotFound)
}

func trail(t *testing.T, s account.Store) {
	var want []account.Entry
	for i := range 10 {
		e := account.Entry{At: noon.Add(time.Duration(i) * time.Second), Who: "uma", Account: "a" + fmt.Sprint(i%2), Domain: "d1", API: "/v1",
			Call: "createCluster", Target: fmt.Sprint("c", i/2), Outcome: account.OK}
		check(t, s.Note(t.Context(), e))
		want = append(want, e)
	}
	check(t, s.Note(t.Context(), account.Entry{At: noon, Who: "anyone", API: "/client/api", Call: "x", Outcome: "UNAUTHENTICATED"}))
	slices.Reverse(want)
	read := func(q account.TrailQuery) []account.Entry {
		t.Helper()
		got, err := s.Trail(t.Context(), q)
		check(t, err)
		for i := range got {
			if i > 0 && got[i].Seq >= got[i-1].Seq {
				t.Errorf("numbers do not fall: %d after %d", got[i].Seq, got[i-1].Seq)
			}
		}
		return got
	}
	bare := func(got []account.Entry) []account.Entry {
		out := slices.Clone(got)
		for i := range out {
			out[i].Seq = 0
		}
		return out
	}
	all := read(account.TrailQuery{Visibility: account.Visibility{All: true}})
	same(t, "all", bare(all[1:]), want)
	same(t, "a page", bare(read(account.TrailQuery{Visibility: account.Visibility{All: true}, Before: all[3].Seq, Limit: 2})), want[3:5])
	same(t, "a target", bare(read(account.TrailQuery{Visibility: account.Visibility{All: true}, Target: "c4"})), want[:2])
	if got := read(account.TrailQuery{Visibility: account.Visibility{AccountID: "a1"}}); len(got) != 5 {
		t.Errorf("one account has %d entries", len(got))
	}
	if got := read(account.TrailQuery{Visibility: account.Visibility{AccountID: "a1", DomainIDs: []string{"d1"}}, Limit: 7}); len(got) != 7 {
		t.Errorf("a domain has %d entries", len(got))
	}
	everybody := account.Visibility{All: true}
	same(t, "calls of an account", bare(read(account.TrailQuery{Visibility: everybody, Account: "a1", Limit: 2})), []account.Entry{want[0], want[2]})
	same(t, "calls that succeed", bare(read(account.TrailQuery{Visibility: everybody, Outcome: account.OK})), want)
	same(t, "calls that do not", read(account.TrailQuery{Visibility: everybody, Outcome: account.OutcomeRefused}), all[:1])
	same(t, "a hidden account", read(account.TrailQuery{Visibility: account.Visibility{AccountID: "a1"}, Account: "a0"}), []account.Entry(nil))
	if got := read(account.TrailQuery{}); len(got) != 0 {
		t.Errorf("without visibility there are %d entries", len(got))
	}
}

func roundTrip(t *testing.T, s account.Store) {
	a := account.Account{
		ID: "a1", Name: "uma", DomainID: account.RootID, Role: account.DomainAdmin, Disabled: true, Created: noon.Add(123 * time.Nanosecond),
		Limits: account.Limits{Clusters: 1, Nodes: 2, Cores: 3, MemoryMB: 1 << 40, Size: 5},
	}
	saved, err := s.SaveAccount(t.Context(), a)
	check(t, err)
	got, err := s.Account(t.Context(), "a1")
	check(t, err)
	same(t, "the account", got, saved)
	a.Revision = 1
	same(t, "what was saved", saved, a)
}

func cancelledContext(t *testing.T, s account.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Accounts(ctx, account.Query{}); err == nil {
		t.Error("a read answers")
	}
}
