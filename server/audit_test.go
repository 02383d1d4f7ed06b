package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server/servertest"
)

// Every changing request leaves an audit entry with caller, call, target and outcome; repetitions, plans and unknown callers leave none.
func TestRequestsAreAudited(t *testing.T) {
	h, accounts, token := servertest.NewAccounts(t)
	op, uma := []string{"Authorization", "Bearer " + servertest.Secret}, []string{"Authorization", "Bearer " + token["uma"]}
	h.Do("POST", "/v1/domains", `{"name":"new"}`, append(op, "Idempotency-Key", "k")...)
	h.Do("POST", "/v1/domains", `{"name":"new"}`, append(op, "Idempotency-Key", "k")...)
	h.Do("POST", "/v1/domains", `{"name":"new"}`, op...)
	h.Do("POST", "/v1/accounts", `{"name":"x"}`, uma...)
	h.Do("PUT", "/v1/objects/demo/default/c1", `{"spec":{}}`, op...)
	h.Do("POST", "/v1/plans", `{"flow":"Quick"}`, op...)
	h.Do("GET", "/v1/accounts", nil, op...)
	h.Do("DELETE", "/v1/objects/demo/default/c1", nil)
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
	h.Do("GET", "/v1/audit", nil, uma...).Into(t, &seen)
	if len(seen.Items) != 1 || seen.Items[0].Who != "uma" {
		t.Errorf("uma reads %v", seen.Items)
	}
}

// An audit entry names a created object by its id, and one that could not be created by its name.
func TestTheTrailNamesWhatWasMade(t *testing.T) {
	h, accounts, token := servertest.NewAccounts(t)
	op := []string{"Authorization", "Bearer " + token["op"]}
	var created account.Account
	h.Do("POST", "/v1/accounts", `{"name":"zoe"}`, op...).Into(t, &created)
	h.Do("POST", "/v1/accounts", `{"name":"zoe"}`, op...)
	trail, err := accounts.Trail(t.Context(), account.System(), account.TrailQuery{})
	if err != nil || len(trail) != 2 || trail[1].Target != created.ID || trail[0].Target != "zoe" || trail[0].Outcome != string(account.Exists.Code) {
		t.Errorf("%+v, %v", trail, err)
	}
}
