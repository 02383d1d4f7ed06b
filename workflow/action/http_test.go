package action

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// serve starts a server that the harness allows.
func serve(t *testing.T, b *harness, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	b.options.HTTPAllow = append(b.options.HTTPAllow, s.URL)
	return s.URL
}

func answerWith(status int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header()["Date"] = nil
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestHTTPSendsItsParameters(t *testing.T) {
	b := newHarness(t)
	var got *http.Request
	var body string
	base := serve(t, b, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got, body = r, string(data)
		answerWith(201, "application/json; charset=utf-8", `{"id": 9007199254740993}`, "X-A", "1", "Set-Cookie", "session=1")(w, r)
	})
	o, task := b.run(t.Context(), t, "http", fmt.Sprintf(`{"method": "POST", "url": "%s/a?x=0&keep=1", "query": {"x": [1, "b c"], "y": true},
		"headers": {"X-N": 5, "authorization": {"secret": "token", "prefix": "Bearer "}}, "json": {"n": 1}}`, base))
	wantCode(t, o, "Done")
	wantOutput(t, task, `{"headers":{"content-length":"24","content-type":"application/json; charset=utf-8","x-a":"1"},"json":{"id":9007199254740993},"status":201}`)
	if got.Method != "POST" || got.URL.RequestURI() != "/a?keep=1&x=1&x=b+c&y=true" || body != `{"n": 1}` {
		t.Errorf("%s %s %s", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{"Idempotency-Key": "r1/Group/Do/2", "Content-Type": "application/json", "X-N": "5", "Authorization": "Bearer s3cr3t-value", "User-Agent": "pawl"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	o, _ = b.run(t.Context(), t, "http", fmt.Sprintf(`{"method": "PUT", "url": %q, "body": "raw", "headers": {"Content-Type": "text/x"}}`, base))
	wantCode(t, o, "Done")
	if body != "raw" || got.Header.Get("Content-Type") != "text/x" {
		t.Errorf("%s %s", got.Header.Get("Content-Type"), body)
	}
}

func TestHTTPChecksTheStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		more   string
		want   string
	}{
		{200, "", "Done"},
		{204, "", "Done"},
		{302, "", "HTTP_UNEXPECTED"}, // redirects are off
		{302, `"expect": "3xx"`, "Done"},
		{404, "", "HTTP_UNEXPECTED"},
		{404, `"expect": [200, 404]`, "Done"},
		{404, `"retryOn": ["4xx"]`, "HTTP_UNAVAILABLE"},
		{200, `"expect": [404]`, "HTTP_UNEXPECTED"},
		{408, "", "HTTP_UNAVAILABLE"},
		{425, "", "HTTP_UNAVAILABLE"},
		{429, "", "HTTP_UNAVAILABLE"},
		{500, "", "HTTP_UNAVAILABLE"},
		{503, "", "HTTP_UNAVAILABLE"},
		{503, `"retryOn": [429]`, "HTTP_UNEXPECTED"},
		{503, `"expect": 503`, "Done"},
	} {
		b := newHarness(t)
		with := `{"url": "` + serve(t, b, answerWith(c.status, "text/plain", "", "Location", "/x")) + `"`
		if c.more != "" {
			with += ", " + c.more
		}
		o, _ := b.run(t.Context(), t, "http", with+"}")
		if code(o) != c.want {
			t.Errorf("%d %s: %v, want %s", c.status, c.more, o, c.want)
		}
	}
	b := newHarness(t)
	o, _ := b.run(t.Context(), t, "http", `{"url": "`+serve(t, b, answerWith(403, "text/plain", "no such luck"))+`"}`)
	if d := fault.Details(o.Err()); o.Message() != "403 Forbidden: no such luck" || d["status"] != 403 || d["body"] != "no such luck" {
		t.Errorf("%v, details %v", o, d)
	}
}

func TestHTTPBody(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body, want string }{
		"text":            {"text/plain", "hé\n", `"body":"hé\n"`},
		"no UTF-8":        {"application/octet-stream", "a\xff", `"body":"a` + "\uFFFD" + `"`},
		"JSON":            {"application/problem+json", `{"a": [1]}`, `"json":{"a":[1]}`},
		"JSON not marked": {"text/plain", `{"a":1}`, `"body":"{\"a\":1}"`},
		"broken JSON":     {"application/json", `{"a"`, `"body":"{\"a\""`},
		"nothing":         {"application/json", ``, `"body":""`},
	} {
		b := newHarness(t)
		o, task := b.run(t.Context(), t, "http", `{"url": "`+serve(t, b, answerWith(200, c.contentType, c.body))+`"}`)
		if !o.IsDone() || !strings.Contains(string(task.Result()), c.want) {
			t.Errorf("%s: %v, %s", name, o, task.Result())
		}
	}
}

func TestHTTPHidesSecretsThatComeBack(t *testing.T) {
	b := newHarness(t)
	status := 200
	base := serve(t, b, func(w http.ResponseWriter, r *http.Request) {
		answerWith(status, "application/json", `{"you": "`+r.Header.Get("X-Token")+`"}`, "X-Echo", r.Header.Get("X-Token"))(w, r)
	})
	with := `{"url": "` + base + `", "headers": {"X-Token": {"secret": "token"}}}`
	o, task := b.run(t.Context(), t, "http", with)
	wantCode(t, o, "Done")
	if out := string(task.Result()); strings.Contains(out, "s3cr3t") || !strings.Contains(out, `"json":{"you":"***"}`) {
		t.Errorf("output %s", out)
	}
	status = 400
	o, _ = b.run(t.Context(), t, "http", with)
	if strings.Contains(o.Message(), "s3cr3t") || strings.Contains(fmt.Sprint(fault.Details(o.Err())), "s3cr3t") {
		t.Errorf("message %s", o.Message())
	}
	b.facts.Resolver = mapSecrets{"token": "a\r\nX-Evil: 1"}
	o, _ = b.run(t.Context(), t, "http", with)
	wantCode(t, o, "PARAMETERS_INVALID")
}

func TestHTTPLimits(t *testing.T) {
	b := newHarness(t)
	base := serve(t, b, answerWith(200, "text/plain", strings.Repeat("x", 70<<10)))
	o, _ := b.run(t.Context(), t, "http", `{"url": "`+base+`", "maxResponse": "64KiB"}`)
	wantCode(t, o, "HTTP_TOO_LARGE")
	o, _ = b.run(t.Context(), t, "http", `{"url": "`+base+`"}`)
	wantCode(t, o, "OUTPUT_TOO_LARGE")
	b.facts.MaxOutput = 100 << 10
	o, _ = b.run(t.Context(), t, "http", `{"url": "`+base+`"}`)
	wantCode(t, o, "Done")
}

func TestHTTPConnectionErrors(t *testing.T) {
	b := newHarness(t)
	s := httptest.NewServer(http.NotFoundHandler())
	b.options.HTTPAllow = []string{s.URL}
	s.Close()
	o, _ := b.run(t.Context(), t, "http", `{"url": "`+s.URL+`"}`)
	wantCode(t, o, "HTTP_UNAVAILABLE")
	o, _ = b.run(t.Context(), t, "http", `{"url": "`+s.URL+`", "retryOn": ["5xx"]}`)
	wantCode(t, o, "HTTP_UNEXPECTED")
}

func TestHTTPObeysItsContext(t *testing.T) {
	b := newHarness(t)
	arrived := make(chan struct{})
	base := serve(t, b, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	draining := errors.New("the worker drains")
	go func() {
		<-arrived
		cancel(draining)
	}()
	o, _ := b.run(ctx, t, "http", `{"url": "`+base+`"}`)
	if !errors.Is(o.Err(), draining) {
		t.Errorf("got %v", o)
	}
}

func TestHTTPHonoursRetryAfterUpToLongest(t *testing.T) {
	b := newHarness(t)
	header := "7"
	base := serve(t, b, func(w http.ResponseWriter, r *http.Request) {
		answerWith(429, "text/plain", "", "Retry-After", header)(w, r)
	})
	with := `{"url": "` + base + `"}`
	first, _ := b.run(t.Context(), t, "http", with)
	wantCode(t, first, "RetryAfter")
	if first.After() != 7*time.Second {
		t.Errorf("after %v", first.After())
	}
	b.continued(first)
	o, _ := b.run(t.Context(), t, "http", with) // after the wait the failure counts
	wantCode(t, o, "HTTP_UNAVAILABLE")
	b.facts.Attempt++
	header = "3600"
	o, _ = b.run(t.Context(), t, "http", with)
	if o.After() != time.Minute {
		t.Errorf("after %v, longest is 1m", o.After())
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-5": 0, "soon": 0,
		"Sun, 01 Mar 2026 02:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 01:00:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestHTTPPollWaitsForTheAnswer(t *testing.T) {
	b := newHarness(t)
	reply := answerWith(200, "application/json", `{"state": "building"}`)
	base := serve(t, b, func(w http.ResponseWriter, r *http.Request) { reply(w, r) })
	with := `{"url": "` + base + `", "poll": {"every": "30s", "until": "response.status == 200 && response.json.state == 'ready'", "deadline": "1h"}}`
	o, task := b.run(t.Context(), t, "http", with)
	wantCode(t, o, "Polling")
	if o.After() != 30*time.Second || task.Result() != nil {
		t.Fatalf("got %v, output %s", o, task.Result())
	}
	b.continued(o)
	same, _ := b.run(t.Context(), t, "http", with)
	if same != o {
		t.Errorf("the same wait is reported again: %v", same)
	}
	reply = answerWith(503, "text/plain", "")
	if o, _ = b.run(t.Context(), t, "http", with); code(o) != "Polling" {
		t.Errorf("trouble within a poll's deadline: %v", o)
	}
	b.facts.Wait.Since = time.Now().Add(-time.Hour + 10*time.Second)
	if o, _ = b.run(t.Context(), t, "http", with); o.After() > 10*time.Second {
		t.Errorf("the next poll is after the deadline: %v", o)
	}
	b.facts.Wait.Since = time.Now().Add(-time.Hour)
	o, _ = b.run(t.Context(), t, "http", with)
	wantCode(t, o, "WAIT_EXPIRED")
	reply = answerWith(200, "application/json", `{"state": "ready"}`)
	o, task = b.run(t.Context(), t, "http", with) // a last poll may still succeed
	wantCode(t, o, "Done")
	if !strings.Contains(string(task.Result()), `"json":{"state":"ready"}`) {
		t.Errorf("output %s", task.Result())
	}
	reply = answerWith(404, "text/plain", "")
	o, _ = b.run(t.Context(), t, "http", with)
	wantCode(t, o, "HTTP_UNEXPECTED")
}

func TestHTTPPollWithoutDeadlineChargesTrouble(t *testing.T) {
	b := newHarness(t)
	base := serve(t, b, answerWith(503, "text/plain", ""))
	b.facts.Wait = &runtype.WaitRecord{Reason: "Polling", Since: time.Now()}
	o, _ := b.run(t.Context(), t, "http", `{"url": "`+base+`", "poll": {"every": "30s", "until": "true"}}`)
	wantCode(t, o, "HTTP_UNAVAILABLE")
}

func TestHTTPPollExpressions(t *testing.T) {
	for _, c := range []struct{ until, want string }{
		{`response.body.contains("n")`, "Done"},
		{`response.json.n == 3 && response.json.n > 2.5`, "Done"},
		{`response.headers["x-a"] == "1"`, "Done"},
		{`has(response.json.gone)`, "Polling"},
		{`response.json.gone == 1`, "EXPRESSION_FAILED"},
		{`response.json.n`, "EXPRESSION_FAILED"},
		{`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e > 0)))))`, "EXPRESSION_FAILED"},
	} {
		b := newHarness(t)
		until, _ := json.Marshal(c.until)
		base := serve(t, b, answerWith(200, "application/json", `{"n": 3}`, "X-A", "1"))
		o, _ := b.run(t.Context(), t, "http", fmt.Sprintf(`{"url": %q, "poll": {"every": "1s", "until": %s}}`, base, until))
		if code(o) != c.want {
			t.Errorf("%s: %v, want %s", c.until, o, c.want)
		}
	}
}

func TestHTTPRefusesAddressesAfterResolution(t *testing.T) {
	b := newHarness(t)
	reached := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		o, _ := b.run(t.Context(), t, "http", `{"url": "http://`+host+`:`+port+`/"}`)
		if code(o) != "HTTP_ADDRESS_REFUSED" {
			t.Errorf("%s: %v", host, o)
		}
	}
	o, _ := b.run(t.Context(), t, "http", `{"url": "http://169.254.169.254/latest/meta-data"}`)
	wantCode(t, o, "HTTP_ADDRESS_REFUSED")
	if reached {
		t.Error("a refused request was sent")
	}
	for _, allow := range []string{"127.0.0.0/8", "127.0.0.1", s.URL, s.URL + "/hooks", "127.0.0.1:" + port} {
		b.options.HTTPAllow = []string{allow}
		o, _ := b.run(t.Context(), t, "http", `{"url": "`+s.URL+`/hooks/1"}`)
		if !o.IsDone() {
			t.Errorf("%s allowed: %v", allow, o)
		}
	}
	for _, allow := range []string{"10.0.0.0/8", "localhost", "127.0.0.1:1", "https://127.0.0.1:" + port, s.URL + "/hook", s.URL + "/hooks/1/2"} {
		b.options.HTTPAllow = []string{allow}
		o, _ := b.run(t.Context(), t, "http", `{"url": "`+s.URL+`/hooks/1"}`)
		if code(o) != "HTTP_ADDRESS_REFUSED" {
			t.Errorf("only %s allowed: %v", allow, o)
		}
	}
	b.options.HTTPAllow = []string{s.URL + "/hooks"}
	o, _ = b.run(t.Context(), t, "http", `{"url": "`+s.URL+`/hooks/../secret"}`)
	wantCode(t, o, "HTTP_ADDRESS_REFUSED")
}

func TestHTTPRedirects(t *testing.T) {
	b := newHarness(t)
	type redirect struct{ host, token, auth, plain, key, body string }
	var hops []redirect
	var other string
	handle := func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		hops = append(hops, redirect{r.Host, r.Header.Get("X-Token"), r.Header.Get("Authorization"), r.Header.Get("X-Plain"), r.Header.Get("Idempotency-Key"), string(data)})
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, r, other+"/back?to=http://"+r.Host+"/end", http.StatusTemporaryRedirect)
		case "/back":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
		case "/inside":
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/iam/security-credentials/", http.StatusFound)
		case "/metadata-twice":
			http.Redirect(w, r, other+"/metadata", http.StatusFound)
		}
	}
	base := serve(t, b, handle)
	other = serve(t, b, handle)
	with := func(path string, redirects int) string {
		return fmt.Sprintf(`{"method": "POST", "url": "%s%s", "body": "b", "redirects": %d, "headers": {"X-Token": {"secret": "token"}, "Authorization": "literal", "X-Plain": "p"}}`, base, path, redirects)
	}
	o, _ := b.run(t.Context(), t, "http", with("/same", 0))
	wantCode(t, o, "HTTP_UNEXPECTED")
	if len(hops) != 1 {
		t.Fatalf("hops %+v", hops)
	}
	hops = nil
	o, _ = b.run(t.Context(), t, "http", with("/same", 1))
	wantCode(t, o, "Done")
	if len(hops) != 2 || hops[1] != hops[0] || hops[1].token != "s3cr3t-value" {
		t.Errorf("to the same host: %+v", hops)
	}
	hops = nil
	o, _ = b.run(t.Context(), t, "http", with("/away", 2))
	wantCode(t, o, "Done")
	if len(hops) != 3 {
		t.Fatalf("hops %+v", hops)
	}
	for _, h := range hops[1:] { // even if another host redirects to it
		if h.token != "" || h.auth != "" || h.plain != "p" || h.key != "r1/Group/Do/2" {
			t.Errorf("to another host: %+v", h)
		}
	}
	hops = nil
	o, _ = b.run(t.Context(), t, "http", with("/away", 1))
	wantCode(t, o, "HTTP_UNEXPECTED")
	o, _ = b.run(t.Context(), t, "http", with("/inside", 5)) // allowed URLs do not open others
	wantCode(t, o, "HTTP_ADDRESS_REFUSED")
	for _, path := range []string{"/metadata", "/metadata-twice"} { // nor the metadata of the cloud
		o, _ = b.run(t.Context(), t, "http", with(path, 5))
		if e, ok := errors.AsType[*fault.Error](o.Err()); code(o) != "HTTP_ADDRESS_REFUSED" || !ok || e.Details["address"] != "169.254.169.254" {
			t.Errorf("%s: %v", path, o)
		}
	}
}

func TestHTTPVerifiesCertificates(t *testing.T) {
	b := newHarness(t)
	s := httptest.NewUnstartedServer(answerWith(200, "text/plain", "secure"))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	b.options.HTTPAllow = []string{"127.0.0.1", "localhost"}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	quoted, _ := json.Marshal(string(authority))

	o, _ := b.run(t.Context(), t, "http", `{"url": "`+s.URL+`"}`)
	wantCode(t, o, "HTTP_UNTRUSTED")
	o, _ = b.run(t.Context(), t, "http", fmt.Sprintf(`{"url": %q, "ca": %s}`, s.URL, quoted))
	wantCode(t, o, "Done")
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	o, _ = b.run(t.Context(), t, "http", fmt.Sprintf(`{"url": "https://localhost:%s", "ca": %s}`, port, quoted)) // another name
	wantCode(t, o, "HTTP_UNTRUSTED")

	b.options.RootCAs = x509.NewCertPool()
	b.options.RootCAs.AddCert(s.Certificate())
	o, _ = b.run(t.Context(), t, "http", `{"url": "`+s.URL+`"}`)
	wantCode(t, o, "Done")

	if schema, _ := httpParams.MarshalJSON(); bytes.Contains(bytes.ToLower(schema), []byte("insecure")) || bytes.Contains(bytes.ToLower(schema), []byte("verify")) {
		t.Error("the schema offers to switch verification off")
	}
}

func ExampleStandard_http() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"state": "building"}`)
	}))
	defer server.Close()
	actions, _ := Standard(Options{Only: []string{"http"}, HTTPAllow: []string{server.URL}})
	task := workflow.NewTask(context.Background(), workflow.TaskFacts{
		Run: "r1", Step: "Built",
		With: json.RawMessage(`{"url": "` + server.URL + `/build/7", "poll": {"every": "10s", "until": "response.json.state == 'ready'", "deadline": "30m"}}`),
	})
	fmt.Println(actions[0].Do(context.Background(), task))
	// Output:
	// wait 10s Polling: until response.json.state == 'ready'
}
