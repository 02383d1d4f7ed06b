package cloudstacktest_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

const key, secret = "KEY", "SECRET"

// fixture is a server with a client that can only sign.
type fixture struct {
	t     *testing.T
	cloud *sim.Cloud
	srv   *httptest.Server
	key   string
}

func newFixture(t *testing.T, o sim.Options, w cloudstacktest.Options) *fixture {
	t.Helper()
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Cloud = cloud
	w.Users = map[string]cloudstacktest.User{
		key:     {Secret: secret, Account: "acme", DomainID: "d1"},
		"OTHER": {Secret: secret, Account: "other", DomainID: "d1"},
		"ADMIN": {Secret: secret, Account: "admin", DomainID: "root", Admin: true},
		"OFF":   {Secret: secret, Account: "acme", DomainID: "d1", Disabled: true},
	}
	srv := httptest.NewServer(cloudstacktest.New(w))
	t.Cleanup(srv.Close)
	return &fixture{t, cloud, srv, key}
}

func (r *fixture) as(key string) *fixture { return &fixture{r.t, r.cloud, r.srv, key} }

// signed returns the signed query of a command.
func signed(secret string, p map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		parts = append(parts, name+"="+strings.ReplaceAll(url.QueryEscape(p[name]), "+", "%20"))
	}
	query := strings.Join(parts, "&")
	// url.QueryEscape leaves ~ bare; the server's encoder does not, nor leave * escaped.
	text := strings.NewReplacer("~", "%7E", "%2A", "*").Replace(query)
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(strings.ToLower(text)))
	return query + "&signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// do sends a command; pairs are names and values.
func (r *fixture) do(method, command string, pairs ...string) (status int, body map[string]any, err error) {
	r.t.Helper()
	p := map[string]string{"command": command, "apikey": r.key, "response": "json"}
	for i := 0; i+1 < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	query, text := signed(secret, p), ""
	if method == http.MethodPost {
		query, text = "", query
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.srv.URL+"/client/api?"+query, strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := r.srv.Client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(raw, &all); err != nil || len(all) != 1 {
		r.t.Fatalf("%s: %v in %s", command, err, raw)
	}
	want := strings.ToLower(command) + "response"
	for envelope, inner := range all {
		body = inner
		if envelope != want && !(res.StatusCode != 200 && envelope == "errorresponse") {
			r.t.Errorf("%s: the envelope is %s", command, envelope)
		}
	}
	return res.StatusCode, body, nil
}

// ok sends a command that must succeed.
func (r *fixture) ok(command string, pairs ...string) map[string]any {
	r.t.Helper()
	status, body, err := r.do(http.MethodPost, command, pairs...)
	if err != nil || status != 200 {
		r.t.Fatalf("%s %q: %d %v, %v", command, pairs, status, body, err)
	}
	return body
}

// fails sends a command that must fail, and returns the error text.
func (r *fixture) fails(code int, command string, pairs ...string) string {
	r.t.Helper()
	status, body, err := r.do(http.MethodPost, command, pairs...)
	if err != nil || status != code || body["errorcode"] != float64(code) {
		r.t.Errorf("%s %q: %d %v, %v; want %d", command, pairs, status, body, err, code)
	}
	return fmt.Sprint(body["errortext"])
}

// job sends an asynchronous command and returns its result.
func (r *fixture) job(command string, pairs ...string) (id string, result map[string]any) {
	r.t.Helper()
	asked := r.ok(command, pairs...)
	id, _ = asked["id"].(string)
	for range 500 {
		j := r.ok("queryAsyncJobResult", "jobid", asked["jobid"].(string))
		switch j["jobstatus"] {
		case float64(0):
			if _, there := j["jobresult"]; there {
				r.t.Error("an open job has a result")
			}
			time.Sleep(time.Millisecond)
		default:
			result, _ = j["jobresult"].(map[string]any)
			if result == nil || j["completed"] == nil {
				r.t.Errorf("the job: %v", j)
			}
			return id, result
		}
	}
	r.t.Fatalf("%s: the job stays open", command)
	return "", nil
}

func (r *fixture) list(key, command string, pairs ...string) []map[string]any {
	r.t.Helper()
	body := r.ok(command, pairs...)
	items, _ := body[key].([]any)
	if len(items) == 0 {
		if len(body) != 0 {
			r.t.Errorf("%s: an empty list is %v", command, body)
		}
		return nil
	}
	all := make([]map[string]any, len(items))
	for i, x := range items {
		all[i] = x.(map[string]any)
	}
	if body["count"].(float64) < float64(len(all)) {
		r.t.Errorf("%s: count %v of %d", command, body["count"], len(all))
	}
	return all
}

func (r *fixture) deploy(name string, more ...string) string {
	r.t.Helper()
	id, result := r.job("deployVirtualMachine", append([]string{"zoneid", "zone-1", "serviceofferingid", "small", "templateid", "node-image", "name", name}, more...)...)
	if vm, _ := result["virtualmachine"].(map[string]any); vm["state"] != "Running" || vm["id"] != id {
		r.t.Errorf("deploy %s: %v", name, result)
	}
	return id
}
