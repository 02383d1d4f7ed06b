package cloudstack

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/fault"
)

func TestCodesAreFaults(t *testing.T) {
	for code, c := range map[int]struct{ call, job *fault.Kind }{
		400: {cluster.ProviderRefused, cluster.ProviderRefused},
		401: {cluster.CredentialsRefused, cluster.CredentialsRefused},
		403: {cluster.CredentialsRefused, cluster.CredentialsRefused},
		404: {cluster.ProviderUnreachable, cluster.ProviderRefused},
		429: {cluster.ProviderThrottled, cluster.ProviderThrottled},
		431: {cluster.ProviderRefused, cluster.ProviderRefused},
		432: {cluster.ProviderRefused, cluster.ProviderRefused},
		500: {cluster.ProviderUnreachable, cluster.ProviderRefused},
		502: {cluster.ProviderUnreachable, cluster.ProviderRefused},
		503: {cluster.ProviderUnreachable, cluster.ProviderRefused},
		530: {cluster.ProviderUnreachable, cluster.ProviderRefused},
		531: {cluster.ProviderRefused, cluster.ProviderRefused},
		532: {cluster.QuotaExceeded, cluster.QuotaExceeded},
		533: {cluster.CapacityExhausted, cluster.CapacityExhausted},
		534: {cluster.ProviderUnreachable, cluster.ProviderUnreachable},
		535: {cluster.QuotaExceeded, cluster.QuotaExceeded},
		536: {cluster.ResourceInUse, cluster.ResourceInUse},
		537: {cluster.RuleConflict, cluster.RuleConflict},
	} {
		body := fmt.Sprintf(`{"errorcode":%d,"errortext":"because"}`, code)
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			if r.ParseForm(); r.Form.Get("jobid") != "" {
				return reply(200, `{"queryasyncjobresultresponse":{"jobid":"j","jobstatus":2,"jobresultcode":530,"jobresult":`+body+`}}`), nil
			}
			return reply(code, `{"listvirtualmachinesresponse":`+body+`}`), nil
		})
		_, err := p.List(t.Context(), cluster.Filter{}, "")
		if fault.Of(err) != c.call || !strings.Contains(fault.Message(err), "because") {
			t.Errorf("%d: %v, want %s", code, err, c.call.Code)
		}
		got, err := p.Poll(t.Context(), cluster.Call{Job: "j"})
		if err != nil || !got.Done || fault.Of(got.Err) != c.job {
			t.Errorf("%d in a job: %+v, %v, want %s", code, got, err, c.job.Code)
		}
	}
}

func TestFullIsKnownFromItsText(t *testing.T) {
	r := refusal{Code: 530, Text: "Unable to create a deployment: Insufficient Capacity in zone"}
	if k := fault.Of(r.fault()); k != cluster.CapacityExhausted {
		t.Errorf("%s", k.Code)
	}
}

// ErrGone requires that the list of the id is empty or the id is refused, while another
// signed call works.
func TestGoneNeedsProof(t *testing.T) {
	const empty, refused = `{"listvirtualmachinesresponse":{}}`, `{"listvirtualmachinesresponse":{"errorcode":431,"errortext":"no such id"}}`
	zones := func(body string) string { return `{"listzonesresponse":` + body + `}` }
	for name, c := range map[string]struct {
		status     int // of the list of the id
		body       string
		others     int    // status of all other calls; 0: the healthy answer
		othersBody string // answer of listZones
		gone       bool
	}{
		"empty":                               {200, empty, 0, "", true},
		"empty with a count of 0":             {200, `{"listvirtualmachinesresponse":{"count":0}}`, 0, "", true},
		"empty array":                         {200, `{"listvirtualmachinesresponse":{"virtualmachine":[]}}`, 0, "", true},
		"id refused":                          {431, refused, 0, "", true},
		"empty, but no zone is shown":         {200, empty, 200, zones(`{}`), false},
		"empty, then 401":                     {200, empty, 401, zones(`{"errorcode":401}`), false},
		"empty, then 429":                     {200, empty, 429, zones(`{"errorcode":429}`), false},
		"empty, then 500":                     {200, empty, 500, "", false},
		"empty, then bad JSON":                {200, empty, 200, "<html>", false},
		"id refused, and everything else too": {431, refused, 431, refused, false},
		"id refused, then 500":                {431, refused, 500, "", false},
		"431 of a proxy":                      {431, "Request Header Fields Too Large", 0, "", false},
		"431 in the envelope of another":      {431, `{"listzonesresponse":{"errorcode":431}}`, 0, "", false},
		"431 with status 200":                 {200, refused, 0, "", false},
		"431 with status 500":                 {500, refused, 0, "", false},
		"401":                                 {401, `{"listvirtualmachinesresponse":{"errorcode":401}}`, 0, "", false},
		"403":                                 {403, "forbidden", 0, "", false},
		"404 of a proxy":                      {404, "not found", 0, "", false},
		"429":                                 {429, `{"listvirtualmachinesresponse":{"errorcode":429}}`, 0, "", false},
		"500":                                 {500, "", 0, "", false},
		"503":                                 {503, "<html>", 0, "", false},
		"530":                                 {530, `{"listvirtualmachinesresponse":{"errorcode":530}}`, 0, "", false},
		"531":                                 {531, `{"listvirtualmachinesresponse":{"errorcode":531}}`, 0, "", false},
		"a redirect":                          {302, "", 0, "", false},
		"no body":                             {200, "", 0, "", false},
		"no JSON":                             {200, "<html>it works</html>", 0, "", false},
		"half of JSON":                        {200, `{"listvirtualmachinesresponse":{"count":1,"virtualmac`, 0, "", false},
		"null":                                {200, `null`, 0, "", false},
		"an empty object":                     {200, `{}`, 0, "", false},
		"an envelope of null":                 {200, `{"listvirtualmachinesresponse":null}`, 0, "", false},
		"an envelope of a list":               {200, `{"listvirtualmachinesresponse":[]}`, 0, "", false},
		"the envelope of another command":     {200, `{"listzonesresponse":{}}`, 0, "", false},
		"two envelopes":                       {200, `{"listvirtualmachinesresponse":{},"x":{}}`, 0, "", false},
		"a count without resources":           {200, `{"listvirtualmachinesresponse":{"count":1}}`, 0, "", false},
		"another resource":                    {200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"x"}]}}`, 0, "", false},
		"a resource without an id":            {200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"name":"vm"}]}}`, 0, "", false},
		"resources that are a number":         {200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":7}}`, 0, "", false},
		"something behind it":                 {200, empty + empty, 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := provider(t, func(r *http.Request) (*http.Response, error) {
				healthy := served(r)
				switch {
				case r.Form.Get("id") == vmRef.ID:
					return reply(c.status, c.body), nil
				case c.others != 0:
					return reply(c.others, c.othersBody), nil
				}
				return healthy, nil
			}, func(o *Options) { o.Rate = 1000 })
			_, err := p.Get(t.Context(), vmRef)
			if err == nil || errors.Is(err, cluster.ErrGone) != c.gone {
				t.Errorf("get: %v; gone should be %t", err, c.gone)
			}
			if !c.gone && fault.Of(err) == fault.Unknown {
				t.Errorf("get: %v is no declared fault", err)
			}
			if c.status == 429 || c.others == 429 {
				return // it would have to wait
			}
			call, err := p.Act(t.Context(), vmRef, cluster.Destroy)
			if c.gone != (err == nil && call.Done) {
				t.Errorf("destroy: %+v, %v", call, err)
			}
			if _, err = p.Act(t.Context(), vmRef, cluster.Start); errors.Is(err, cluster.ErrGone) != c.gone {
				t.Errorf("start: %v", err)
			}
		})
	}
}

func TestALostConnectionIsNotGone(t *testing.T) {
	p := provider(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") })
	if _, err := p.Get(t.Context(), vmRef); errors.Is(err, cluster.ErrGone) || fault.Of(err) != cluster.ProviderUnreachable {
		t.Errorf("%v", err)
	}
}

// The VM states of the API; only a resource that is not listed is gone.
func TestStates(t *testing.T) {
	for state, want := range map[string]cluster.Power{
		"Starting": cluster.PoweringOn, "Running": cluster.PoweredOn, "Stopping": cluster.PoweringOff, "Stopped": cluster.PoweredOff, "Destroyed": cluster.PowerGone,
		"Expunging": cluster.PowerGone, "Migrating": cluster.PoweringOn, "Error": cluster.PowerBroken, "Unknown": cluster.UnknownPower,
		"Shutdown": cluster.PoweredOff, "Restoring": cluster.PoweringOn, "running": cluster.PoweredOn, "Hibernating": cluster.UnknownPower, "": cluster.UnknownPower,
	} {
		p := provider(t, func(*http.Request) (*http.Response, error) {
			return reply(200, fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":%q,"name":"vm","state":%q}]}}`, vmRef.ID, state)), nil
		})
		got, err := p.Get(t.Context(), vmRef)
		if err != nil || got.Power != want || got.State != state {
			t.Errorf("%q: %q %q, %v; want %q", state, got.Power, got.State, err, want)
		}
	}
}

func TestDestroyedIsExpunged(t *testing.T) {
	for state, want := range map[string]string{
		"Destroyed": "expungeVirtualMachine", "Expunging": "", "Running": "destroyVirtualMachine", "Error": "destroyVirtualMachine", "Stopped": "destroyVirtualMachine",
	} {
		sent := ""
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			switch command := commandOf(r); command {
			case "listVirtualMachines":
				return reply(200, fmt.Sprintf(`{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":%q,"state":%q}]}}`, vmRef.ID, state)), nil
			default:
				sent = command
				if command == "destroyVirtualMachine" && r.Form.Get("expunge") != "true" {
					t.Error("expunge is not asked for")
				}
				return reply(200, `{"`+strings.ToLower(command)+`response":{"jobid":"j"}}`), nil
			}
		})
		if _, err := p.Act(t.Context(), vmRef, cluster.Destroy); err != nil || sent != want {
			t.Errorf("%s: sent %q, %v; want %q", state, sent, err, want)
		}
	}
}

// Errors with the server's text contain no secrets and have a maximum length.
func TestErrorsHideSecrets(t *testing.T) {
	userData := []byte("token of a node, which nobody may see in a log")
	p := provider(t, func(r *http.Request) (*http.Response, error) {
		command := commandOf(r)
		if command != "deployVirtualMachine" {
			return served(r), nil
		}
		all := "SECRET " + r.Form.Get("userdata") + " " + r.Form.Get("signature") + " \x1b[31m " + strings.Repeat("x", 10_000)
		return reply(431, fmt.Sprintf(`{"deployvirtualmachineresponse":{"errorcode":431,"errortext":%q}}`, strings.ReplaceAll(all, "\x1b", `\u001b`))), nil
	})
	w := cluster.DesiredResource{
		Kind: cluster.VM, Name: "vm", Key: "k", Spec: cluster.Spec{Zone: "z1", UserData: userData},
		Tags: map[string]string{cluster.TagInstallation: "exam", cluster.TagCluster: "c", cluster.TagKey: "k"},
	}
	_, err := p.Create(t.Context(), w)
	if fault.Of(err) != cluster.ProviderRefused {
		t.Fatalf("%v", err)
	}
	for _, secret := range []string{"SECRET", "dG9rZW4", "\x1b"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q in %s", secret, err)
		}
	}
	if len(err.Error()) > 1000 {
		t.Errorf("the text has %d bytes", len(err.Error()))
	}
	down := provider(t, nil, func(o *Options) { o.Client, o.URL = nil, "http://127.0.0.1:1/client/api" })
	if _, err := down.Get(t.Context(), vmRef); err == nil || strings.Contains(err.Error(), "signature") || strings.Contains(err.Error(), "apikey") {
		t.Errorf("a connection that fails: %v", err)
	}
	if text := fmt.Sprintf("%v %+v", Options{Secret: "SECRET"}, p.o); strings.Contains(text, "SECRET") {
		t.Errorf("options print the secret: %s", text)
	}
}

// Signature version 3 that expires in ten minutes, changes only by POST, no tilde.
func TestRequests(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	seen := 0
	var outcomes []string
	p := provider(t, func(r *http.Request) (*http.Response, error) {
		seen++
		command := commandOf(r)
		if change := !strings.HasPrefix(command, "list") && !strings.HasPrefix(command, "query"); change != (r.Method == http.MethodPost) || change && r.URL.RawQuery != "" {
			t.Errorf("%s by %s %s", command, r.Method, r.URL.RawQuery)
		}
		if r.Form.Get("signatureversion") != "3" || r.Form.Get("expires") != "2029-12-31T23:10:00+0000" || r.Form.Get("response") != "json" || r.Form.Get("apikey") != "KEY" {
			t.Errorf("%s: %v", command, r.Form)
		}
		all := map[string]string{}
		for name := range r.Form {
			all[name] = r.Form.Get(name)
		}
		if cloudsign.Sign("SECRET", all) != r.Form.Get("signature") {
			t.Errorf("%s: the signature does not fit", command)
		}
		if r.Method == http.MethodPost {
			return reply(200, `{"`+strings.ToLower(command)+`response":{"id":"i","jobid":"j"}}`), nil
		}
		return served(r), nil
	}, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.OnCall = func(command, outcome string, _ time.Duration) { outcomes = append(outcomes, command+" "+outcome) }
	})
	w := cluster.DesiredResource{
		Kind: cluster.VM, Name: "vm", Key: "k", CallID: "c", Spec: cluster.Spec{Zone: "z1", UserData: []byte("x")},
		Tags: map[string]string{cluster.TagInstallation: "exam", cluster.TagCluster: "c", cluster.TagKey: "k", "note": "ü & = + [x]"},
	}
	call, err := p.Create(t.Context(), w)
	if err != nil || call.Job != "j,j" || call.Ref.ID != "i" {
		t.Errorf("%+v, %v", call, err)
	}
	if len(outcomes) != seen || !slices.Contains(outcomes, "listVirtualMachines ok") || !slices.Contains(outcomes, "queryAsyncJobResult provider_refused") {
		t.Errorf("%d requests, OnCall got %v", seen, outcomes)
	}
	w.Name, w.Key = "a~b", "a~b"
	w.Tags[cluster.TagKey] = "a~b"
	before := seen
	if _, err := p.Create(t.Context(), w); fault.Of(err) != cluster.ProviderRefused || seen != before {
		t.Errorf("a tilde: %v after %d requests", err, seen-before)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	n := 0
	p := provider(t, func(*http.Request) (*http.Response, error) {
		n++
		res := reply(307, "")
		res.Header.Set("Location", "https://elsewhere.example.org/")
		return res, nil
	})
	if _, err := p.List(t.Context(), cluster.Filter{}, ""); fault.Of(err) != cluster.ProviderUnreachable || n != 1 {
		t.Errorf("%v after %d requests", err, n)
	}
}

func TestOptions(t *testing.T) {
	good := Options{URL: "https://cloud.example.org/client/api", APIKey: "K", Secret: "S", Installation: "i"}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"no URL": func(o *Options) { o.URL = "" }, "no scheme": func(o *Options) { o.URL = "cloud.example.org" }, "a file": func(o *Options) { o.URL = "file:///x" },
		"a password": func(o *Options) { o.URL = "https://me:you@cloud.example.org/" }, "a query": func(o *Options) { o.URL += "?x=1" },
		"no key": func(o *Options) { o.APIKey = "" }, "no secret": func(o *Options) { o.Secret = "" }, "no installation": func(o *Options) { o.Installation = "" },
		"a tilde": func(o *Options) { o.Installation = "~" },
	} {
		o := good
		change(&o)
		if _, err := New(o); fault.Of(err) != cluster.ClusterInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
