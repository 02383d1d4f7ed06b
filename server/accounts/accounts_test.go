package accounts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
)

// A route checks the role first (403), then whether the caller may see the object (404).
func TestAccountRoutes(t *testing.T) {
	h, _, token := servertest.NewAccounts(t)
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
			got := h.Do(c.method, c.path, body, header...)
			if got.Status != want {
				t.Errorf("%q %s %s %s: %d %s, want %d", who, c.method, c.path, c.body, got.Status, got.Body, want)
			}
		}
		if c.path == "/v1/accounts/dan/disable" {
			if got := h.Do("GET", "/v1/me", nil, "Authorization", "Bearer "+token["dan"]); got.Status != http.StatusUnauthorized {
				t.Errorf("a disabled account is answered %d", got.Status)
			}
			h.Do("POST", "/v1/accounts/dan/enable", nil, "Authorization", "Bearer "+servertest.Secret)
		}
	}
}

// A secret appears in one answer only: not in lists, not in the answer to a repetition, not in the log.
func TestSecretsAreShownOnce(t *testing.T) {
	h, _, token := servertest.NewAccounts(t)
	auth := "Bearer " + token["uma"]
	for _, c := range []struct{ path, field string }{{"/v1/keys", "secret"}, {"/v1/tokens", "token"}} {
		first := h.Do("POST", c.path, `{"name":"ci"}`, "Authorization", auth, "Idempotency-Key", "once "+c.field)
		var created map[string]any
		first.Into(t, &created)
		shown, _ := created[c.field].(string)
		if first.Status != http.StatusCreated || len(shown) < 40 {
			t.Fatalf("%s: %d %s", c.path, first.Status, first.Body)
		}
		again := h.Do("POST", c.path, `{"name":"ci"}`, "Authorization", auth, "Idempotency-Key", "once "+c.field)
		if again.Status != http.StatusCreated || strings.Contains(string(again.Body), shown) || !strings.Contains(string(again.Body), created["id"].(string)) {
			t.Errorf("repeated: %d %s", again.Status, again.Body)
		}
		if all := h.Do("GET", c.path, nil, "Authorization", auth); strings.Contains(string(all.Body), shown) || !strings.Contains(string(all.Body), created["id"].(string)) {
			t.Errorf("listed: %s", all.Body)
		}
		if strings.Contains(h.Log.String(), shown) {
			t.Error("the secret is in the log")
		}
		if got := h.Do("POST", c.path+"/"+created["id"].(string)+"/revoke", nil, "Authorization", auth); got.Status != http.StatusNoContent {
			t.Errorf("revoke: %d %s", got.Status, got.Body)
		}
	}
}

// Lists of accounts, domains, tokens, keys and audit entries have pages of any size,
// which neither repeat nor omit an item.
func TestAccountsAreListedByPages(t *testing.T) {
	h, accounts, token := servertest.NewAccounts(t)
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
		h.Do("POST", "/v1/accounts", fmt.Sprintf(`{"name":"more%d","domain":"ROOT/d%d"}`, i, i%2), op...)
	}
	type page struct {
		Items []map[string]any
		Next  string
	}
	for path, count := range map[string]int{"/v1/accounts?": 9, "/v1/accounts?domain=ROOT/d0&": 3, "/v1/domains?": 7, "/v1/tokens?account=uma&": 6, "/v1/keys?account=uma&": 5, "/v1/audit?": 5} {
		var whole page
		h.Do("GET", path+"limit=500", nil, op...).Into(t, &whole)
		if len(whole.Items) != count || whole.Next != "" {
			t.Errorf("%s has %d entries and next %q, want %d", path, len(whole.Items), whole.Next, count)
		}
		for _, size := range []int{1, 2, count} {
			var got []map[string]any
			for next := ""; ; {
				var p page
				h.Do("GET", fmt.Sprintf("%slimit=%d&cursor=%s", path, size, next), nil, op...).Into(t, &p)
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
			if got := h.Do("GET", path+"cursor="+cursor, nil, op...); got.Status != http.StatusBadRequest || got.Problem(t).Code != route.CursorInvalid.Code {
				t.Errorf("%scursor=%s: %d %s", path, cursor, got.Status, got.Body)
			}
		}
	}
	if got := h.Do("GET", "/v1/accounts?limit=501", nil, op...); got.Status != http.StatusUnprocessableEntity {
		t.Errorf("a page beyond the limit: %d", got.Status)
	}
}
