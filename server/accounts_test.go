package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
)

// newAccountsFixture returns a fixture with accounts: an operator's token, dan (admin) and uma of ROOT/dev, eve of ROOT.
func newAccountsFixture(t *testing.T) (h *fixture, accounts *account.Service, token map[string]string) {
	t.Helper()
	accounts = &account.Service{Store: account.NewMemory()}
	if _, err := accounts.CreateDomain(t.Context(), account.System(), "dev", ""); err != nil {
		t.Fatal(err)
	}
	token = map[string]string{"op": secret}
	for _, w := range []account.NewAccount{{Name: "dan", Domain: "ROOT/dev", Role: account.DomainAdmin}, {Name: "uma", Domain: "ROOT/dev"}, {Name: "eve"}} {
		if _, err := accounts.CreateAccount(t.Context(), account.System(), w); err != nil {
			t.Fatal(err)
		}
		_, plain, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{Account: w.Name})
		if err != nil {
			t.Fatal(err)
		}
		token[w.Name] = plain.Reveal()
	}
	h = newFixture(t, func(o *Options) {
		o.Accounts, o.Reviewer, o.Tokens = accounts, AccountReviewer{accounts}, tokens(t, secret)
	})
	return h, accounts, token
}

// A route checks the role first (403), then whether the caller may see the object (404).
func TestAccountRoutes(t *testing.T) {
	h, _, token := newAccountsFixture(t)
	for _, c := range []struct {
		method, path, body  string
		op, dan, uma, nobdy int
	}{
		{"GET", "/v1/accounts", "", 200, 200, 200, 401},
		{"GET", "/v1/accounts/uma", "", 200, 200, 200, 401},
		{"GET", "/v1/accounts/eve", "", 200, 404, 404, 401},
		{"GET", "/v1/accounts?domain=ROOT", "", 200, 404, 404, 401},
		{"POST", "/v1/accounts", `{"name":"NAME"}`, 201, 201, 403, 401},
		{"POST", "/v1/accounts", `{"name":"NAME","domain":"ROOT"}`, 201, 404, 403, 401},
		{"POST", "/v1/accounts", `{"name":"NAME","role":"operator"}`, 201, 403, 403, 401},
		{"POST", "/v1/accounts", `{"name":"NAME","role":"king"}`, 422, 422, 422, 401},
		{"POST", "/v1/accounts", `{"name":"a b"}`, 422, 422, 403, 401},
		{"POST", "/v1/accounts", `{"name":"uma","domain":"ROOT/dev"}`, 409, 409, 403, 401},
		{"POST", "/v1/accounts/uma/limits", `{"nodes":5}`, 200, 403, 403, 401},
		{"POST", "/v1/accounts/uma/limits", `{"nodes":-5}`, 422, 403, 403, 401},
		{"POST", "/v1/accounts/dan/disable", ``, 200, 401, 403, 401},
		{"POST", "/v1/accounts/dan/enable", ``, 200, 403, 403, 401},
		{"POST", "/v1/accounts/operator/disable", ``, 403, 404, 403, 401},
		{"GET", "/v1/domains", "", 200, 200, 200, 401},
		{"POST", "/v1/domains", `{"name":"NAME"}`, 201, 201, 403, 401},
		{"POST", "/v1/domains", `{"name":"NAME","parent":"ROOT"}`, 201, 404, 403, 401},
		{"POST", "/v1/domains/ROOT/disable", ``, 403, 404, 403, 401},
		{"GET", "/v1/keys", "", 200, 200, 200, 401},
		{"GET", "/v1/keys?account=uma", "", 200, 403, 200, 401},
		{"POST", "/v1/keys", `{"account":"uma","name":"ci","for":"24h"}`, 201, 403, 201, 401},
		{"POST", "/v1/keys", `{"for":"soon"}`, 422, 422, 422, 401},
		{"GET", "/v1/tokens?account=eve", "", 200, 404, 404, 401},
		{"POST", "/v1/tokens", `{}`, 201, 201, 201, 401},
		{"POST", "/v1/tokens/nothing/revoke", ``, 404, 404, 404, 401},
		{"GET", "/v1/audit", "", 200, 200, 200, 401},
	} {
		for who, want := range map[string]int{"op": c.op, "dan": c.dan, "uma": c.uma, "": c.nobdy} {
			if c.path == "/v1/accounts/dan/disable" && who == "dan" {
				continue // the operator may have been first
			}
			var header []string
			if who != "" {
				header = []string{"Authorization", "Bearer " + token[who]}
			}
			var body any
			if c.body != "" {
				body = strings.ReplaceAll(c.body, "NAME", strings.ToLower(who+fmt.Sprint(len(c.body))))
			}
			got := h.do(c.method, c.path, body, header...)
			if got.status != want {
				t.Errorf("%q %s %s %s: %d %s, want %d", who, c.method, c.path, c.body, got.status, got.body, want)
			}
		}
		if c.path == "/v1/accounts/dan/disable" {
			if got := h.do("GET", "/v1/me", nil, "Authorization", "Bearer "+token["dan"]); got.status != http.StatusUnauthorized {
				t.Errorf("a disabled account is answered %d", got.status)
			}
			h.do("POST", "/v1/accounts/dan/enable", nil, "Authorization", "Bearer "+secret)
		}
	}
}

// A secret appears in one answer only: not in lists, not in the answer to a repetition, not in the log.
func TestSecretsAreShownOnce(t *testing.T) {
	h, _, token := newAccountsFixture(t)
	auth := "Bearer " + token["uma"]
	for _, c := range []struct{ path, field string }{{"/v1/keys", "secret"}, {"/v1/tokens", "token"}} {
		first := h.do("POST", c.path, `{"name":"ci"}`, "Authorization", auth, "Idempotency-Key", "once "+c.field)
		var created map[string]any
		first.into(t, &created)
		shown, _ := created[c.field].(string)
		if first.status != http.StatusCreated || len(shown) < 40 {
			t.Fatalf("%s: %d %s", c.path, first.status, first.body)
		}
		again := h.do("POST", c.path, `{"name":"ci"}`, "Authorization", auth, "Idempotency-Key", "once "+c.field)
		if again.status != http.StatusCreated || strings.Contains(string(again.body), shown) || !strings.Contains(string(again.body), created["id"].(string)) {
			t.Errorf("repeated: %d %s", again.status, again.body)
		}
		if all := h.do("GET", c.path, nil, "Authorization", auth); strings.Contains(string(all.body), shown) || !strings.Contains(string(all.body), created["id"].(string)) {
			t.Errorf("listed: %s", all.body)
		}
		if strings.Contains(h.log.String(), shown) {
			t.Error("the secret is in the log")
		}
		if got := h.do("POST", c.path+"/"+created["id"].(string)+"/revoke", nil, "Authorization", auth); got.status != http.StatusNoContent {
			t.Errorf("revoke: %d %s", got.status, got.body)
		}
	}
}

// Every changing request leaves an audit entry with caller, call, target and outcome; repetitions, plans and unknown callers leave none.
func TestRequestsAreAudited(t *testing.T) {
	h, accounts, token := newAccountsFixture(t)
	op, uma := []string{"Authorization", "Bearer " + secret}, []string{"Authorization", "Bearer " + token["uma"]}
	h.do("POST", "/v1/domains", `{"name":"new"}`, append(op, "Idempotency-Key", "k")...)
	h.do("POST", "/v1/domains", `{"name":"new"}`, append(op, "Idempotency-Key", "k")...)
	h.do("POST", "/v1/domains", `{"name":"new"}`, op...)
	h.do("POST", "/v1/accounts", `{"name":"x"}`, uma...)
	h.do("PUT", "/v1/objects/demo/default/c1", `{"spec":{}}`, op...)
	h.do("POST", "/v1/plans", `{"flow":"Quick"}`, op...)
	h.do("GET", "/v1/accounts", nil, op...)
	h.do("DELETE", "/v1/objects/demo/default/c1", nil)
	trail, err := accounts.Trail(t.Context(), account.System(), account.TrailQuery{})
	if err != nil {
		t.Fatal(err)
	}
	domains, err := accounts.Domains(t.Context(), account.System(), account.Page{})
	if err != nil {
		t.Fatal(err)
	}
	created := domains[slices.IndexFunc(domains, func(d account.Domain) bool { return d.Name == "new" })]
	var got []string
	for _, e := range slices.Backward(trail) {
		got = append(got, strings.Join([]string{e.Who, e.API, e.Call, strings.ReplaceAll(e.Target, created.ID, "ID"), e.Outcome}, " "))
	}
	want := []string{
		"operator /v1 POST /v1/domains ID ok", "operator /v1 POST /v1/domains new ACCOUNT_EXISTS", "uma /v1 POST /v1/accounts /v1/accounts FORBIDDEN",
		"operator /v1 PUT /v1/objects/{kind}/{namespace}/{name} /v1/objects/demo/default/c1 ok",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var seen struct{ Items []account.Entry }
	h.do("GET", "/v1/audit", nil, uma...).into(t, &seen)
	if len(seen.Items) != 1 || seen.Items[0].Who != "uma" {
		t.Errorf("uma reads %v", seen.Items)
	}
}

// The directory of the cluster service: names, limits, subtrees.
func TestDirectory(t *testing.T) {
	_, accounts, _ := newAccountsFixture(t)
	d := Directory{accounts.Store}
	uma, err := accounts.Find(t.Context(), account.System(), "uma")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.SetLimits(t.Context(), account.System(), "uma", account.Limits{Clusters: 1, Nodes: 2, Cores: 3, MemoryMB: 4, Size: 5}); err != nil {
		t.Fatal(err)
	}
	owner := cluster.Owner{AccountID: uma.ID, DomainID: uma.DomainID}
	if got, err := d.Resolve(t.Context(), "UMA", uma.DomainID); err != nil || got != owner {
		t.Errorf("resolve: %v %v", got, err)
	}
	if got, err := d.Resolve(t.Context(), "uma", "ROOT/dev"); err != nil || got != owner {
		t.Errorf("resolve by the path of the domain: %v %v", got, err)
	}
	for _, c := range [][2]string{{"uma", account.RootID}, {"uma", "ROOT"}, {"uma", "dev"}, {"", uma.DomainID}, {"nobody", uma.DomainID}, {"uma", ""}} {
		if _, err := d.Resolve(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("resolve of %v", c)
		}
	}
	if l, err := d.Limits(t.Context(), owner); err != nil || l != (cluster.Limits{Clusters: 1, Nodes: 2, Cores: 3, MemoryMB: 4, Size: 5}) {
		t.Errorf("limits: %v %v", l, err)
	}
	if name, domain, works, err := d.Names(t.Context(), owner); name != "uma" || domain != "ROOT/dev" || !works || err != nil {
		t.Errorf("names: %s %s %v %v", name, domain, works, err)
	}
	if name, _, works, err := d.Names(t.Context(), cluster.Owner{AccountID: "gone"}); name != "gone" || works || err != nil {
		t.Errorf("names of one that is gone: %s %v %v", name, works, err)
	}
	if ids, err := d.Subtree(t.Context(), account.RootID); len(ids) != 2 || err != nil {
		t.Errorf("subtree: %v %v", ids, err)
	}
	if _, err := d.Subtree(t.Context(), "gone"); err == nil {
		t.Error("the subtree of a domain that is gone")
	}
	for who, want := range map[string]cluster.Scope{
		"uma": {AccountID: uma.ID}, "eve": {}, "dan": {}, "operator": {All: true},
	} {
		a, err := accounts.Find(t.Context(), account.System(), who)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.Account(t.Context(), Principal{Account: a.ID})
		if err != nil {
			t.Fatal(err)
		}
		c := Caller(found)
		if c.Scope.All != want.All || !c.Scope.Sees(c.Owner) || c.Scope.Sees(owner) != (who != "eve") || c.Operator != (who == "operator") || c.DomainAdmin != (who == "dan") {
			t.Errorf("%s: %+v", who, c)
		}
	}
}

// Lists of accounts, domains, tokens, keys and audit entries have pages of any size,
// which neither repeat nor omit an item.
func TestAccountsAreListedByPages(t *testing.T) {
	h, accounts, token := newAccountsFixture(t)
	op := []string{"Authorization", "Bearer " + token["op"]}
	for i := range 5 {
		if _, err := accounts.CreateDomain(t.Context(), account.System(), fmt.Sprint("d", i), ""); err != nil {
			t.Fatal(err)
		}
		if _, _, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{Account: "uma"}); err != nil {
			t.Fatal(err)
		}
		if _, err := accounts.CreateKey(t.Context(), account.System(), account.NewCredential{Account: "uma"}); err != nil {
			t.Fatal(err)
		}
		h.do("POST", "/v1/accounts", fmt.Sprintf(`{"name":"more%d","domain":"ROOT/d%d"}`, i, i%2), op...)
	}
	type page struct {
		Items []map[string]any
		Next  string
	}
	for path, count := range map[string]int{"/v1/accounts?": 9, "/v1/accounts?domain=ROOT/d0&": 3, "/v1/domains?": 7, "/v1/tokens?account=uma&": 6, "/v1/keys?account=uma&": 5, "/v1/audit?": 5} {
		var whole page
		h.do("GET", path+"limit=500", nil, op...).into(t, &whole)
		if len(whole.Items) != count || whole.Next != "" {
			t.Errorf("%s has %d entries and next %q, want %d", path, len(whole.Items), whole.Next, count)
		}
		for _, size := range []int{1, 2, count} {
			var got []map[string]any
			for next := ""; ; {
				var p page
				h.do("GET", fmt.Sprintf("%slimit=%d&cursor=%s", path, size, next), nil, op...).into(t, &p)
				if got = append(got, p.Items...); p.Next == "" || len(p.Items) > size || len(got) > count {
					break
				}
				next = p.Next
			}
			if fmt.Sprint(got) != fmt.Sprint(whole.Items) {
				t.Errorf("%s by %d: %v, want %v", path, size, got, whole.Items)
			}
		}
		for _, cursor := range []string{"%25", "AA"} { // no base64; a NUL
			if got := h.do("GET", path+"cursor="+cursor, nil, op...); got.status != http.StatusBadRequest || got.problem(t).Code != CursorInvalid.Code {
				t.Errorf("%scursor=%s: %d %s", path, cursor, got.status, got.body)
			}
		}
	}
	if got := h.do("GET", "/v1/accounts?limit=501", nil, op...); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a page beyond the limit: %d", got.status)
	}
}

// An audit entry names a created object by its id, and one that could not be created by its name.
func TestTheTrailNamesWhatWasMade(t *testing.T) {
	h, accounts, token := newAccountsFixture(t)
	op := []string{"Authorization", "Bearer " + token["op"]}
	var created account.Account
	h.do("POST", "/v1/accounts", `{"name":"zoe"}`, op...).into(t, &created)
	h.do("POST", "/v1/accounts", `{"name":"zoe"}`, op...)
	trail, err := accounts.Trail(t.Context(), account.System(), account.TrailQuery{})
	if err != nil || len(trail) != 2 || trail[1].Target != created.ID || trail[0].Target != "zoe" || trail[0].Outcome != string(account.Exists.Code) {
		t.Errorf("%+v, %v", trail, err)
	}
}
