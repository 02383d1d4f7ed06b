package rollout

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const metadataAddress = "http://169.254.169.254/latest/meta-data"

// loopback lets calls reach this machine, and nothing else that is refused.
func loopback(t *testing.T) *outside.Client {
	t.Helper()
	policy, err := egress.NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return &outside.Client{Egress: policy}
}

// harmful are servers of hooks and of Prometheus that do not answer as they should.
var harmful = map[string]http.HandlerFunc{
	"hangs": func(_ http.ResponseWriter, r *http.Request) { hang(r) },
	"500": func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "broken", http.StatusInternalServerError)
	},
	"nothing": func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	"two megabytes": func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte(`{"x":"` + strings.Repeat("x", 2<<20) + `"}`))
	},
	"to the metadata": func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, metadataAddress, http.StatusTemporaryRedirect)
	},
	"hangs in the body": func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusBadGateway)
		_ = http.NewResponseController(rw).Flush()
		hang(r)
	},
}

// hang waits until the client has gone, which is seen when its body was read.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestHarmfulHooks: what a hook answers is judged within its timeout, and nothing else is called.
func TestHarmfulHooks(t *testing.T) {
	for name, want := range map[string]string{
		"hangs": "again", "500": "again", "nothing": "again", "two megabytes": "passed", "to the metadata": "status 307", "hangs in the body": "again",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(harmful[name])
			defer server.Close()
			defer server.CloseClientConnections()
			o := loopback(t)
			client, err := o.HTTP(t.Context(), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			hook := rollout.Hook{Name: "h", URL: server.URL, Timeout: rollout.Duration(500 * time.Millisecond)}
			a := Caller{Client: client}.Call(t.Context(), hook, HookBody{Key: "k"})
			if len(a.Body) > bodyKept {
				t.Errorf("%d bytes of the answer are kept", len(a.Body))
			}
			v := hook.Judge(1, a)
			switch {
			case want == "passed" && !v.Done, want == "again" && !v.Outcome.IsWait(),
				want != "passed" && want != "again" && (!v.Outcome.IsFail() || !strings.Contains(fault.Message(v.Outcome.Err()), want)):
				t.Errorf("the verdict on %+v is %t %s, expected %s", a, v.Done, v.Outcome, want)
			}
		})
	}
}

// TestHarmfulPrometheus: nothing but numbers in the range passes.
func TestHarmfulPrometheus(t *testing.T) {
	says := func(text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write([]byte(text))
		}
	}
	vector := func(value string) http.HandlerFunc {
		return says(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"` + value + `"]}]}}`)
	}
	tests := map[string]struct {
		server http.HandlerFunc
		want   string
	}{
		"NaN":           {vector("NaN"), "NoData"},
		"+Inf":          {vector("+Inf"), "NoData"},
		"no sample":     {says(`{"status":"success","data":{"resultType":"vector","result":[]}}`), "NoData"},
		"a matrix":      {says(`{"status":"success","data":{"resultType":"matrix","result":[]}}`), "ProviderError"},
		"a text":        {says(`{"status":"success","data":{"resultType":"string","result":[1,"0.1"]}}`), "ProviderError"},
		"an error":      {says(`{"status":"error","errorType":"execution","error":"too many samples"}`), "ProviderError"},
		"no JSON":       {says(`<html>`), "ProviderError"},
		"an empty body": {says(``), "ProviderError"},
		"null":          {says(`null`), "ProviderError"},
		"out of range":  {vector("7"), "outside"},
		"in range":      {vector("0.5"), "passed"},
	}
	for name, server := range harmful {
		tests[name] = struct {
			server http.HandlerFunc
			want   string
		}{server, "ProviderError"}
	}
	high, err := rollout.ParseDecimal("1")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.server)
			defer server.Close()
			defer server.CloseClientConnections()
			m := rollout.Metric{Name: "m", MetricsRange: rollout.Range{Max: &high}, InconclusiveLimit: new(0), Provider: rollout.MetricProvider{
				Prometheus: &rollout.Prometheus{Address: server.URL, Query: "x", Timeout: rollout.Duration(time.Second)},
			}}
			a := loopback(t).Measure(t.Context(), "", m, strings.NewReplacer())
			v := m.Judge(a, rollout.Measured{})
			if v.Done != (test.want == "passed") || !v.Done && !strings.Contains(fault.Message(v.Outcome.Err()), test.want) {
				t.Errorf("the verdict on %+v is %t %s, expected %s", a, v.Done, v.Outcome, test.want)
			}
		})
	}
}

// FuzzRequest: whatever stands in an annotation is a request that can be carried out or refused.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{"all", "3; by=ann; reason=because; of that#id", "; ;=;by=", "true", "#", "##", "next#pause-1.id", "\x00; by=\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range verbs {
			stamped := stamp(v, text, nil)
			r := parseRequest(v, stamped)
			if r.ID == "" || !strings.HasSuffix(stamped, "#"+r.ID) || r.By == "" || r.Verb != v {
				t.Fatalf("%q is %+v", text, r)
			}
			if reasoned := parseRequest(v, stamp(v, "all; by=ann; reason=x"+text, nil)); reasoned.Reason != strings.TrimSpace("x"+text) || reasoned.By != "ann" {
				t.Fatalf("the reason %q is read as %+v", text, reasoned)
			}
			if again := parseRequest(v, text); v == rollout.Approve && strings.Contains(again.Argument, ";") {
				t.Fatalf("%q has the argument %q", text, again.Argument)
			}
			at := rollout.Position{State: rollout.InBatch, BatchState: rollout.BatchReady, Mode: rollout.Rollout, Batches: map[int]rollout.BatchPosition{0: {Size: 1, Target: 1}}}
			d := rollout.Next(rollout.Plan{}, at, rollout.Facts{Wanted: rollout.Wanted{Kind: rollout.StatefulSet, Request: &r}}, time.Unix(0, 0))
			if last := d.Position.LastRequest; last == nil || last.ID != r.ID {
				t.Fatalf("%q has no answer: %+v", text, d.Position)
			}
		}
	})
}
