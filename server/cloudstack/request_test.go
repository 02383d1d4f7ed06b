package cloudstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/cloudstack"
	"github.com/pawl-dev/pawl/server/route"
)

// All authentication failures have the same text.
func TestAuthenticationFailsAlike(t *testing.T) {
	o := newFixture(t, nil)
	base := func() url.Values { return o.sign("uma", params("command", "listZones")) }
	if r := o.get(base()); r.status != http.StatusOK {
		t.Fatalf("a good request: %s", r.raw)
	}
	change := func(name, value string) func(*fixture) url.Values {
		return func(*fixture) url.Values {
			v := base()
			v.Set(name, value)
			if value == "" {
				v.Del(name)
			}
			return v
		}
	}
	good := func(*fixture) url.Values { return base() }
	revoke := func(o *fixture) url.Values {
		if err := o.accounts.Revoke(t.Context(), account.System(), o.keys["uma"].ID); err != nil {
			t.Fatal(err)
		}
		return base()
	}
	disable := func(o *fixture) url.Values {
		if _, err := o.accounts.Disable(t.Context(), account.System(), "uma", true); err != nil {
			t.Fatal(err)
		}
		return base()
	}
	expired := func(*fixture) url.Values {
		return o.sign("uma", params("command", "listZones", "signatureVersion", "3", "expires", "2029-12-31T23:59:59+0000"))
	}
	text := ""
	for _, c := range []struct {
		name string
		make func(*fixture) url.Values
	}{
		{"no key", change("apiKey", "")}, {"an unknown key", change("apiKey", "x")}, {"no signature", change("signature", "")}, {"a wrong signature", change("signature", "AAAA")},
		{"a parameter more", change("extra", "1")}, {"a parameter less", change("response", "")}, {"expired", expired}, {"no expiry", func(*fixture) url.Values {
			return o.sign("uma", params("command", "listZones", "signatureVersion", "3"))
		}},
		{"still good", good}, {"disabled", disable},
		{"enabled again", func(o *fixture) url.Values {
			if _, err := o.accounts.Disable(t.Context(), account.System(), "uma", false); err != nil {
				t.Fatal(err)
			}
			return base()
		}},
		{"domain disabled", func(o *fixture) url.Values {
			if _, err := o.accounts.DisableDomain(t.Context(), account.System(), "ROOT/dev", true); err != nil {
				t.Fatal(err)
			}
			return base()
		}},
		{"domain enabled", func(o *fixture) url.Values {
			if _, err := o.accounts.DisableDomain(t.Context(), account.System(), "ROOT/dev", false); err != nil {
				t.Fatal(err)
			}
			return base()
		}},
		{"revoked", revoke},
	} {
		r := o.get(c.make(o))
		if slices.Contains([]string{"still good", "enabled again", "domain enabled"}, c.name) {
			if r.status != http.StatusOK {
				t.Errorf("%s: %s", c.name, r.raw)
			}
			continue
		}
		r.fails(c.name, 401)
		if text == "" {
			text = r.raw
		}
		if r.raw != text || r.body["cserrorcode"] != 4250.0 {
			t.Errorf("%s reads differently:\n%s\n%s", c.name, r.raw, text)
		}
	}
}

// Parameters may come by GET and POST, in body and query string, in any case. Of one name the last in the query string wins.
func TestParametersAreMerged(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	send := func(method, query, body, kind string) reply {
		r := httptest.NewRequestWithContext(t.Context(), method, "/client/api?"+query, strings.NewReader(body))
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		return o.send(r)
	}
	const form = "application/x-www-form-urlencoded"
	if r := o.post(o.sign("uma", params("COMMAND", "LISTCONTAINERCLUSTER", "iD", id))); len(r.items("containercluster")) != 1 || r.key != "listcontainerclusterresponse" {
		t.Errorf("by POST in any case: %s", r.raw)
	}
	// The signature covers the merged parameters.
	v := o.sign("uma", params("command", "listContainerCluster", "name", "blue"))
	inQuery := url.Values{"name": {"nothing", "blue"}}
	body := url.Values{}
	for name := range v {
		body.Set(name, v.Get(name))
	}
	body.Set("name", "other")
	if r := send("POST", inQuery.Encode(), body.Encode(), form+"; charset=utf-8"); len(r.items("containercluster")) != 1 {
		t.Errorf("merged: %s", r.raw)
	}
	// Names that differ only in case are one parameter, and each is signed.
	v = o.sign("uma", params("command", "listContainerCluster", "NAME", "blue", "name", "blue"))
	if r := send("GET", v.Encode(), "", ""); len(r.items("containercluster")) != 1 {
		t.Errorf("two spellings: %s", r.raw)
	}
	// A body must be a form. GET has none.
	send("POST", v.Encode(), `{"name":"blue"}`, "application/json").fails("JSON", 400)
	send("POST", v.Encode(), "name=blue", "").fails("no type", 400)
	send("GET", "command=%zz", "", "").fails("a bad escape", 400)
	send("GET", "command=listZones&name=%ff", "", "").fails("no UTF-8", 400)
	send("GET", "=x", "", "").fails("no name", 400)
	send("GET", strings.Repeat("a=b&", 1001), "", "").fails("many", 400)
	ok := o.sign("uma", params("command", "listZones"))
	if r := send("POST", ok.Encode(), "", ""); r.status != http.StatusOK {
		t.Errorf("POST with a query string only: %s", r.raw)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/client/api", http.MaxBytesReader(httptest.NewRecorder(), noClose{strings.NewReader(strings.Repeat("x", 100))}, 10))
	r.Header.Set("Content-Type", form)
	o.send(r).fails("a body that is too large", 400)
}

type noClose struct{ *strings.Reader }

func (noClose) Close() error { return nil }

// Wrong types, lengths and characters of parameters are 431, wrong indexes of maps 430.
func TestParametersAreChecked(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	create := []string{"name", "x", "zoneid", "z1", "serviceofferingid", "o1", "size", "1"}
	kube := slices.Concat(create, []string{"kubernetesversionid", "v1"})
	with := func(base []string, more ...string) []string { return slices.Concat(base, more) }
	for _, c := range []struct {
		name, command string
		pairs         []string
		code          int
		says          string
	}{
		{"missing", "createContainerCluster", create[2:], 431, "createContainerCluster: parameter name: it is missing"},
		{"empty", "createContainerCluster", with(create[2:], "name", ""), 431, "parameter name"},
		{"size under its other name", "createContainerCluster", with(create[:6], "cluster", "2"), 200, ""},
		{"no number", "createContainerCluster", with(create[:6], "size", "three"), 431, "parameter size"},
		{"a large number", "createContainerCluster", with(create[:6], "size", "99999999999"), 431, "parameter size"},
		{"255 characters", "listZones", []string{"keyword", strings.Repeat("ä", 255)}, 200, ""},
		{"256 characters", "listZones", []string{"keyword", strings.Repeat("ä", 256)}, 431, "256 characters"},
		{"4096 of a description", "createContainerCluster", with(create[2:], "name", "long", "description", strings.Repeat("x", 4096)), 200, ""},
		{"4097 of a description", "createContainerCluster", with(create, "description", strings.Repeat("x", 4097)), 431, "parameter description"},
		{"a control character", "listZones", []string{"keyword", "a\x00b"}, 431, "control"},
		{"a line break", "createContainerCluster", with(create, "description", "a\nb"), 431, "control"},
		{"a list of long items", "createContainerCluster", with(create, "cidrlist", strings.Repeat("x", 256)+",y"), 431, "parameter cidrlist"},
		{"a long list", "scaleContainerCluster", []string{"id", id, "nodeids", strings.Repeat("0123456789,", 50)}, 431, "not all are workers"},
		{"no boolean", "stopContainerCluster", []string{"id", id, "forced", "perhaps"}, 431, "parameter forced"},
		{"no id", "startContainerCluster", []string{"id", "blue"}, 431, "parameter id"},
		{"an unknown id", "startContainerCluster", []string{"id", "00000000-0000-4000-8000-00000000ffff"}, 431, "startContainerCluster: "},
		{"an unknown parameter", "listZones", []string{"fnord", "1"}, 431, "parameter fnord"},
		{"an unknown map", "listZones", []string{"details[0].key", "1"}, 431, "parameter details"},
		{"an unknown parameter without a value", "listZones", []string{"fnord", ""}, 200, ""},
		{"another form", "listZones", []string{"id", "z1"}, 200, ""},
		{"even control nodes are the service's to judge", "createContainerCluster", with(create, "controlnodes", "0"), 431, "controlnodes"},
		{"a name twice", "createContainerCluster", with(create[2:], "name", "blue"), 431, "parameter name: the account has a cluster blue already"},
		{"no policy", "createContainerCluster", with(create, "recovery", "magic"), 431, "parameter recovery"},
		{"policy none", "createContainerCluster", with(create[2:], "name", "none", "recovery", "none"), 200, ""},
		{"external", "createKubernetesCluster", with(kube, "clustertype", "ExternalManaged"), 431, "parameter clustertype"},
		{"etcd nodes", "createKubernetesCluster", with(kube, "etcdnodes", "3"), 431, "parameter etcdnodes"},
		{"an offering per role", "createKubernetesCluster", with(kube, "nodeofferings[0].node", "worker", "nodeofferings[0].offering", "o1"), 431, "parameter nodeofferings"},
		{"a bad index", "createKubernetesCluster", with(kube, "nodeofferings[x].node", "worker"), 430, "parameter nodeofferings"},
		{"an index below zero", "createKubernetesCluster", with(kube, "nodeOfferings[-1].node", "worker"), 430, "parameter nodeofferings"},
		{"an open index", "createKubernetesCluster", with(kube, "nodeofferings[0", "worker"), 430, "parameter nodeofferings"},
		{"a large index", "createKubernetesCluster", with(kube, "nodeofferings[1000].node", "worker"), 430, "parameter nodeofferings"},
		{"an external balancer", "createKubernetesCluster", with(kube, "externalloadbalanceripaddress", "10.0.0.1"), 431, "parameter externalloadbalanceripaddress"},
		{"no disk", "createKubernetesCluster", with(kube, "noderootdisksize", "0"), 431, "parameter noderootdisksize"},
		{"no version", "createKubernetesCluster", create, 431, "parameter kubernetesversionid"},
		{"another offering", "scaleKubernetesCluster", []string{"id", id, "serviceofferingid", "o2", "size", "3"}, 431, "parameter serviceofferingid"},
		{"scale by nothing", "scaleContainerCluster", []string{"id", id}, 431, "parameter size"},
		{"scale by two", "scaleContainerCluster", []string{"id", id, "size", "2", "nodeids", "a"}, 431, "parameter size"},
		{"scale to zero", "scaleContainerCluster", []string{"id", id, "size", "0"}, 431, "parameter size"},
		{"scale by no nodes", "scaleContainerCluster", []string{"id", id, "nodeids", ","}, 431, "parameter nodeids"},
		{"bounds alone", "scaleContainerCluster", []string{"id", id, "size", "2", "maxsize", "3"}, 431, "parameter minsize"},
		{"bounds that are none", "scaleContainerCluster", []string{"id", id, "autoscalingenabled", "true", "minsize", "3", "maxsize", "3"}, 431, "parameter minsize"},
		{"no bounds", "scaleContainerCluster", []string{"id", id, "autoscalingenabled", "true"}, 431, "parameter minsize"},
		{"no surge", "upgradeContainerCluster", []string{"id", id, "versionid", "v1", "surge", "0"}, 431, "parameter surge"},
		{"a disabled zone", "createContainerCluster", with(create[:2], "zoneid", "z2", "serviceofferingid", "o1", "size", "1"), 531, "disabled"},
		{"an unknown zone", "createContainerCluster", with(create[:2], "zoneid", "z9", "serviceofferingid", "o1", "size", "1"), 431, "z9"},
	} {
		r := o.call("uma", c.command, c.pairs...)
		if r.status != c.code {
			t.Errorf("%s: %d %s, want %d", c.name, r.status, r.raw, c.code)
			continue
		}
		if c.code == 200 {
			continue
		}
		r.fails(c.name, c.code)
		if text := r.text("errortext"); !strings.Contains(text, c.says) || !strings.HasPrefix(text, c.command+": ") {
			t.Errorf("%s: it says %s, want %s", c.name, text, c.says)
		}
	}
	v := o.sign("uma", params("command", "listZones"))
	v.Set("response", "xml")
	o.get(v).fails("XML", 431)
}

// Every code with its second number.
func TestErrorCodes(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	for _, c := range []struct {
		err          error
		code, detail int
		hidden       bool // only operators see its text
	}{
		{cluster.NotFound.Errorf("detail-x"), 431, 4350, false}, {cluster.ClusterInvalid.Errorf("detail-x"), 431, 4350, false},
		{cluster.EntityRefused.Errorf("detail-x"), 431, 4350, false}, {cluster.EntityRefused.Errorf("detail-x").With("disabled", true), 531, 4365, false},
		{cluster.JobReused.Errorf("detail-x"), 431, 4350, false}, {cluster.AccessRefused.Errorf("detail-x"), 531, 4365, false},
		{cluster.StateRefused.Errorf("detail-x").With("state", "Stopped"), 531, 4365, false},
		{cluster.StateRefused.Errorf("detail-x").With("state", "Destroyed"), 431, 4350, false},
		{cluster.AccountLimit.Errorf("detail-x"), 532, 4370, false}, {cluster.QuotaExceeded.Errorf("detail-x"), 532, 4370, false},
		{cluster.CapacityExhausted.Errorf("detail-x"), 533, 4335, true}, {cluster.ProviderUnreachable.Errorf("detail-x"), 534, 4380, false},
		{cluster.ProviderThrottled.Errorf("detail-x"), 534, 4380, false}, {cluster.ProviderRefused.Errorf("detail-x"), 535, 4370, false},
		{cluster.ResourceInUse.Errorf("detail-x"), 536, 4375, false}, {cluster.ForeignVM.Errorf("detail-x"), 536, 4375, false},
		{cluster.RuleConflict.Errorf("detail-x"), 537, 4360, false}, {cluster.NodeMissing.Errorf("detail-x"), 530, 4250, false},
		{fault.WriteConflict.Errorf("detail-x"), 530, 4250, true}, {errInside, 530, 4250, true}, {route.NotReady.Errorf("detail-x"), 503, 4355, false},
	} {
		o.fake.Fails["Change"] = c.err
		for who, sees := range map[string]bool{"uma": !c.hidden, "op": true} {
			r := o.call(who, "startContainerCluster", "id", id)
			r.fails(c.err.Error(), c.code)
			if r.body["cserrorcode"] != float64(c.detail) {
				t.Errorf("%v: %s, want %d", c.err, r.raw, c.detail)
			}
			text := r.text("errortext")
			if detail := strings.Contains(text, "detail-x") || strings.Contains(text, "host h7"); detail != sees || !strings.HasPrefix(text, "startContainerCluster: ") {
				t.Errorf("%s gets %s", who, text)
			}
			if kind := fault.Of(c.err); !strings.Contains(text, kind.Remedy) {
				t.Errorf("%v: no remedy in %s", c.err, text)
			}
		}
	}
	delete(o.fake.Fails, "Change")
	unknown := o.call("uma", "flyContainerCluster")
	unknown.fails("an unknown command", 432)
	if unknown.key != "errorresponse" || unknown.body["cserrorcode"] != 4555.0 {
		t.Errorf("unknown: %s", unknown.raw)
	}
	none := o.get(url.Values{})
	none.fails("no command", 432)
	if none.key != "errorresponse" {
		t.Errorf("none: %s", none.raw)
	}
	if !slices.Contains(o.codes, 432) || !slices.Contains(o.codes, 200) {
		t.Errorf("observed: %v", o.codes)
	}
}

// login by POST is always 531, by GET 405. It is not in listApis.
func TestLogin(t *testing.T) {
	o := newFixture(t, nil)
	v := url.Values{"command": {"Login"}, "username": {"admin"}, "password": {"password"}, "response": {"json"}}
	post, get := o.post(v), o.get(v)
	post.fails("POST", 531)
	get.fails("GET", 405)
	if post.key != "loginresponse" || post.body["cserrorcode"] != 4365.0 || get.body["cserrorcode"] != nil || strings.Contains(o.must("op", "listApis").raw, "login") {
		t.Errorf("%s %s", post.raw, get.raw)
	}
}

// EnforcePostAndExpiry: only version 3, an expiry within 15 minutes, changes only by POST.
func TestEnforcement(t *testing.T) {
	o := newFixture(t, func(o *cloudstack.Options) { o.EnforcePostAndExpiry = true })
	signed := func(command, expires string) url.Values {
		m := params("command", command, "signatureversion", "3", "expires", expires)
		if command == "createContainerCluster" {
			m["name"], m["zoneid"], m["serviceofferingid"], m["size"] = "x", "z1", "o1", "1"
		}
		return o.sign("uma", m)
	}
	soon := "2030-01-01T00:14:59Z"
	o.get(o.sign("uma", params("command", "listZones"))).fails("no version", 401)
	o.get(signed("listZones", "2030-01-01T00:15:01Z")).fails("too far ahead", 401)
	o.get(signed("createContainerCluster", soon)).fails("a change by GET", 400)
	for _, command := range []string{"listZones", "listApis"} {
		if r := o.get(signed(command, soon)); r.status != 200 {
			t.Errorf("%s: %s", command, r.raw)
		}
	}
	if r := o.post(signed("createContainerCluster", soon)); r.status != 200 {
		t.Errorf("a change by POST: %s", r.raw)
	}
	free := newFixture(t, nil)
	if r := free.call("uma", "createContainerCluster", "name", "x", "zoneid", "z1", "serviceofferingid", "o1", "size", "1"); r.status != 200 {
		t.Errorf("changing commands accept GET: %s", r.raw)
	}
}

// An account above its rate gets 429 with Retry-After. Other accounts are not affected.
func TestRateLimit(t *testing.T) {
	o := newFixture(t, func(o *cloudstack.Options) { o.Rate, o.Burst = 10, 3 })
	for range 3 {
		o.must("uma", "listZones")
	}
	r := o.call("uma", "listZones")
	r.fails("the fourth", 429)
	if r.body["cserrorcode"] != 4545.0 || r.header.Get("Retry-After") != "1" {
		t.Errorf("%s %v", r.raw, r.header)
	}
	o.must("eve", "listZones")
	o.now = o.now.Add(100 * time.Millisecond)
	o.must("uma", "listZones")
	o.call("uma", "listZones").fails("one more", 429)
	o.now = o.now.Add(time.Hour)
	for range 3 {
		o.must("uma", "listZones")
	}
	o.call("uma", "listZones").fails("bursts do not add up", 429)
	bad := o.sign("uma", params("command", "listZones"))
	bad.Set("signature", "AAAA")
	for range 3 {
		o.get(bad).fails("an unknown caller", 401)
	}
	o.get(bad).fails("an unknown caller above the rate", 429)
}

func TestStopping(t *testing.T) {
	stopping := false
	o := newFixture(t, func(o *cloudstack.Options) { o.Stopping = func() bool { return stopping } })
	o.must("uma", "listZones")
	stopping = true
	r := o.call("uma", "listZones")
	r.fails("while it stops", 503)
	if r.body["cserrorcode"] != 4355.0 {
		t.Error(r.raw)
	}
}

// The format of listApis, as a common CLI reads it. It crashes on any other.
func TestListApisShape(t *testing.T) {
	o := newFixture(t, nil)
	operators := []string{"forgetContainerCluster", "listContainerClusterLeaks"}
	all := []string{
		"createContainerCluster", "deleteContainerCluster", "startContainerCluster", "stopContainerCluster", "listContainerCluster", "listContainerClusters", "scaleContainerCluster",
		"upgradeContainerCluster", "getContainerClusterConfig", "recoverContainerCluster", "getContainerClusterDrift", "queryAsyncJobResult", "listAsyncJobs", "listApis",
		"listZones", "listServiceOfferings", "listTemplates", "listNetworks", "createKubernetesCluster", "deleteKubernetesCluster", "startKubernetesCluster",
		"stopKubernetesCluster", "scaleKubernetesCluster", "upgradeKubernetesCluster", "listKubernetesClusters", "getKubernetesClusterConfig", "listKubernetesSupportedVersions",
	}
	for who, want := range map[string][]string{"uma": all, "dan": all, "op": slices.Concat(all, operators)} {
		r := o.must(who, "listApis", "listall", "true")
		var names []string
		for _, api := range r.items("api") {
			name := api["name"].(string)
			names = append(names, name)
			_ = api["description"].(string)
			_ = api["since"].(string)
			_ = api["related"].(string)
			async := api["isasync"].(bool)
			params := api["params"].([]any)
			if async == (strings.HasPrefix(name, "list") || strings.HasPrefix(name, "get") || strings.HasPrefix(name, "query")) {
				t.Errorf("%s: isasync %v", name, async)
			}
			custom := false
			for _, p := range params {
				p := p.(map[string]any)
				if p["name"].(string) == "" || p["description"].(string) == "" || p["length"].(float64) < 1 {
					t.Errorf("%s: %v", name, p)
				}
				_ = p["required"].(bool)
				_ = p["related"].(string)
				if !slices.Contains([]string{"string", "uuid", "integer", "boolean", "list", "map"}, p["type"].(string)) {
					t.Errorf("%s: type %v", name, p["type"])
				}
				custom = custom || p["name"] == "customjobid"
			}
			if custom != async {
				t.Errorf("%s: isasync %v, customjobid %v", name, async, custom)
			}
			response := api["response"].([]any)
			if len(response) == 0 {
				t.Errorf("%s has no response", name)
			}
			for _, f := range response {
				f := f.(map[string]any)
				if f["name"].(string) == "" || f["description"].(string) == "" || f["type"].(string) == "" {
					t.Errorf("%s: %v", name, f)
				}
			}
		}
		slices.Sort(names)
		want = slices.Sorted(slices.Values(want))
		if !slices.Equal(names, want) || r.body["count"] != float64(len(want)) {
			t.Errorf("%s gets %v, want %v", who, names, want)
		}
	}
	if got := o.must("uma", "listApis", "name", "LISTzones").items("api"); len(got) != 1 {
		t.Errorf("one of them: %v", got)
	}
	if got := o.must("uma", "listApis", "name", "forgetContainerCluster").items("api"); len(got) != 0 {
		t.Errorf("an operator's: %v", got)
	}
}

// Catalog commands list what the provider offers to the caller.
func TestCatalog(t *testing.T) {
	o := newFixture(t, nil)
	for _, c := range []struct {
		command, key, args, want string
	}{
		{"listZones", "zone", "", "map[allocationstate:Enabled id:z1 name:Zone One networktype:Advanced] map[allocationstate:Disabled id:z2 name:Zone Two networktype:Advanced]"},
		{"listServiceOfferings", "serviceoffering", "keyword=small", "map[cpunumber:2 displaytext:Small id:o1 iscustomized:false memory:2048 name:Small]"},
		{"listServiceOfferings", "serviceoffering", "id=o2", "map[displaytext:Own size id:o2 iscustomized:true name:Own size]"},
		{"listTemplates", "template", "zoneid=z1&name=NODE", "map[displaytext:Node id:t1 isready:true name:Node zoneid:z1]"},
		{"listTemplates", "template", "zoneid=z2", ""},
		{"listNetworks", "network", "page=1&pagesize=1", "map[id:n1 issystem:false name:net service:[map[name:Dhcp] map[name:SourceNat]] state:Implemented zoneid:z1]"},
		{"listNetworks", "network", "page=2&pagesize=1", ""},
	} {
		var pairs []string
		args, _ := url.ParseQuery(c.args)
		for name := range args {
			pairs = append(pairs, name, args.Get(name))
		}
		var got []string
		for _, item := range o.must("uma", c.command, pairs...).items(c.key) {
			got = append(got, fmt.Sprint(item))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s:\n%s, want\n%s", c.command, c.args, strings.Join(got, " "), c.want)
		}
	}
}

// Leaks are listed with owner, pages and filters. The result of forget contains the remaining resources.
func TestLeaks(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	owner := cluster.Owner{AccountID: o.who["uma"].ID, DomainID: o.who["uma"].DomainID}
	for i, kind := range []cluster.Kind{cluster.VM, cluster.Network, cluster.VM} {
		o.fake.Leaked = append(o.fake.Leaked, api.Leak{Cluster: id, Name: "blue", Owner: owner, Provider: "p1", Kind: kind, ID: fmt.Sprint("x", i), Resource: fmt.Sprint("blue-", i),
			Since: o.now, Attempts: 5 + i, Code: string(cluster.ProviderUnreachable.Code), Text: "no answer", Remedy: "wait", Phase: "leaked"})
	}
	all := o.must("op", "listContainerClusterLeaks").items("leak")
	if len(all) != 3 || fmt.Sprint(all[1]) != "map[account:uma attempts:6 cluster:"+id+" clustername:blue code:PROVIDER_UNREACHABLE domain:ROOT/dev id:x1 kind:network phase:leaked provider:p1 remedy:wait resource:blue-1 since:2030-01-01T00:00:00+0000 text:no answer]" {
		t.Errorf("all: %v", all)
	}
	if got := o.must("op", "listContainerClusterLeaks", "kind", "vm", "page", "2", "pagesize", "1"); len(got.items("leak")) != 1 || got.body["count"] != 2.0 {
		t.Errorf("a page: %s", got.raw)
	}
	o.call("op", "forgetContainerCluster", "id", id, "confirm", "red").fails("another name", 431)
	r := o.must("op", "forgetContainerCluster", "id", id, "confirm", "blue")
	if err := o.fake.End(t.Context(), r.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	job := o.must("op", "queryAsyncJobResult", "jobid", r.text("jobid"))
	if result, _ := job.body["jobresult"].(map[string]any); result["success"] != true || len(result["leaks"].([]any)) != 3 {
		t.Errorf("the job: %s", job.raw)
	}
}
