package cloudstack_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/server/cloudstack"
	"github.com/pawl-dev/pawl/server/cloudstack/cloudstacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is the API over a fake service, with an operator, an admin and users.
type fixture struct {
	t        *testing.T
	now      time.Time
	accounts *account.Service
	fake     *cloudstacktest.Fake
	handler  *cloudstack.Handler
	who      map[string]account.Account // op; dan (admin) and uma of ROOT/dev; eve of ROOT/ops
	keys     map[string]account.Key
	codes    []int
}

func newFixture(t *testing.T, change func(*cloudstack.Options)) *fixture {
	t.Helper()
	o := &fixture{t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), who: map[string]account.Account{}, keys: map[string]account.Key{}}
	clock := func() time.Time { return o.now }
	o.accounts = &account.Service{Store: account.NewMemory(), Now: clock}
	for _, name := range []string{"dev", "ops"} {
		if _, err := o.accounts.CreateDomain(t.Context(), account.System(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	o.add("op", "ROOT", account.Operator)
	o.add("dan", "ROOT/dev", account.DomainAdmin)
	o.add("uma", "ROOT/dev", account.User)
	o.add("eve", "ROOT/ops", account.User)
	o.fake = cloudstacktest.New(o.accounts.Store, clock)
	options := cloudstack.Options{Clusters: o.fake, Accounts: o.accounts, Now: clock, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Observe: func(_ string, code int, _ time.Duration) { o.codes = append(o.codes, code) }}
	if change != nil {
		change(&options)
	}
	o.handler = cloudstack.New(options)
	return o
}

func (o *fixture) add(name, domain string, role account.Role) {
	o.t.Helper()
	a, err := o.accounts.CreateAccount(o.t.Context(), account.System(), account.NewAccount{Name: name, Domain: domain, Role: role})
	if err != nil {
		o.t.Fatal(err)
	}
	k, err := o.accounts.CreateKey(o.t.Context(), account.System(), account.NewCredential{Account: a.ID})
	if err != nil {
		o.t.Fatal(err)
	}
	o.who[name], o.keys[name] = a, k
}

// params returns parameters from pairs of name and value.
func params(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// sign adds key and signature.
func (o *fixture) sign(who string, m map[string]string) url.Values {
	k := o.keys[who]
	m["apiKey"], m["response"] = k.ID, "json"
	v := url.Values{}
	for name, value := range m {
		v.Set(name, value)
	}
	v.Set("signature", cloudsign.Sign(k.Secret.Reveal(), m))
	return v
}

// reply is a decoded answer.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	raw    string
	key    string         // the only top-level key
	body   map[string]any // its value
}

func (o *fixture) send(r *http.Request) reply {
	o.t.Helper()
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	var all map[string]map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) != 1 {
		o.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json; charset=UTF-8" {
		o.t.Errorf("Content-Type %s", got)
	}
	for key, body := range all {
		return reply{o.t, w.Code, w.Header(), w.Body.String(), key, body}
	}
	return reply{}
}

func (o *fixture) get(v url.Values) reply {
	o.t.Helper()
	return o.send(httptest.NewRequestWithContext(o.t.Context(), http.MethodGet, "/client/api?"+v.Encode(), nil))
}

func (o *fixture) post(v url.Values) reply {
	o.t.Helper()
	r := httptest.NewRequestWithContext(o.t.Context(), http.MethodPost, "/client/api", strings.NewReader(v.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return o.send(r)
}

// call sends a signed command by GET.
func (o *fixture) call(who, command string, pairs ...string) reply {
	o.t.Helper()
	m := params(pairs...)
	m["command"] = command
	return o.get(o.sign(who, m))
}

// must sends a command that must succeed.
func (o *fixture) must(who, command string, pairs ...string) reply {
	o.t.Helper()
	r := o.call(who, command, pairs...)
	if r.status != http.StatusOK {
		o.t.Fatalf("%s: %d %s", command, r.status, r.raw)
	}
	if want := strings.ToLower(command) + "response"; r.key != want {
		o.t.Errorf("the key is %s, want %s", r.key, want)
	}
	return r
}

func (r reply) text(name string) string { s, _ := r.body[name].(string); return s }

// fails checks an error answer.
func (r reply) fails(what string, code int) {
	r.t.Helper()
	if r.status != code || r.body["errorcode"] != float64(code) {
		r.t.Errorf("%s: %d %s, want %d", what, r.status, r.raw, code)
	}
	if _, ok := r.body["uuidList"].([]any); !ok || r.text("errortext") == "" {
		r.t.Errorf("%s: the error has no list or no text: %s", what, r.raw)
	}
}

// create creates a cluster, ends its job, and returns the id.
func (o *fixture) create(who, name string, pairs ...string) string {
	o.t.Helper()
	r := o.must(who, "createContainerCluster", append([]string{"name", name, "zoneid", "z1", "serviceofferingid", "o1", "size", "2"}, pairs...)...)
	if err := o.fake.End(o.t.Context(), r.text("jobid"), nil); err != nil {
		o.t.Fatal(err)
	}
	return r.text("id")
}

// set changes a cluster without the API.
func (o *fixture) set(id string, change func(*cluster.Cluster)) {
	o.t.Helper()
	b, err := o.fake.Records.Record(o.t.Context(), id)
	if err == nil {
		change(&b.Cluster)
		err = o.fake.Records.Commit(o.t.Context(), &cluster.Change{Cluster: &b.Cluster})
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// items returns the items of a list.
func (r reply) items(key string) []map[string]any {
	r.t.Helper()
	list, _ := r.body[key].([]any)
	var all []map[string]any
	for _, item := range list {
		all = append(all, item.(map[string]any))
	}
	if _, counted := r.body["count"]; counted != (len(all) > 0) {
		r.t.Errorf("count and items do not go together: %s", r.raw)
	}
	return all
}

var errInside = errors.New("the disk of host h7 is on fire")
