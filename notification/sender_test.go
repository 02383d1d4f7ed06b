package notification

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

type secrets struct{}

func (secrets) Secret(context.Context, workflow.SecretRef) (string, error) { return secret, nil }

// history has one run with events.
type history struct{ events []runtype.Event }

func (h *history) List(context.Context, runstore.Query) ([]*runtype.Run, string, error) {
	return []*runtype.Run{{ID: "r", Flow: "F", Subject: "Volume/default/v"}}, "", nil
}

func (h *history) Events(_ context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
	n := len(h.events)
	if cursor != "now" {
		if _, err := fmt.Sscan(cursor, &n); err != nil {
			return nil, "", err
		}
	}
	end := min(len(h.events), n+limit)
	return append([]runtype.Event(nil), h.events[n:end]...), fmt.Sprint(end), nil
}

func (h *history) add(at time.Time) {
	h.events = append(h.events, runtype.Event{Run: "r", Seq: int64(len(h.events) + 1), At: at, Kind: runtype.RunPaused, Code: "X"})
}

// dying is a store that dies at a write.
type dying struct {
	*control.Memory
	how string
}

func (d *dying) Update(ctx context.Context, o control.Object) (control.Object, error) {
	if d.how == "before" {
		return o, errors.New("died before the write")
	}
	out, err := d.Memory.Update(ctx, o)
	if d.how == "after" && err == nil {
		return out, errors.New("died after the write")
	}
	return out, err
}

type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func answer(code int) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(nil)), Header: http.Header{}}
}

var ref = control.Ref{Kind: Kind, Namespace: "default", Name: "n"}

func apply(t interface{ Fatal(...any) }, m control.Objects, spec string) {
	if _, err := m.Apply(context.Background(), control.Object{Ref: ref, Spec: json.RawMessage(spec)}); err != nil {
		t.Fatal(err)
	}
}

func statusNow(t interface{ Fatal(...any) }, m control.Objects) Status {
	o, err := m.Get(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	s, err := StatusOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const spec = `{"url": "https://hooks.example.com/x", "secrets": [{"name": "a"}], "attempts": 3}`

// Each event is delivered or dead in the end, under one id, and counted once, wherever servers die.
func TestNoEventIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		now := time.Unix(1_800_000_000, 0)
		h, memory := &history{}, control.NewMemory()
		delivered, refuse := map[string]int{}, false
		var mu sync.Mutex
		client := &http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if refuse {
				return answer(500), nil
			}
			delivered[r.Header.Get(HeaderID)]++
			return answer(204), nil
		})}
		stores := []*dying{{Memory: memory}, {Memory: memory}}
		senders := make([]*Sender, 2)
		start := func(i int) {
			senders[i] = New(Options{Objects: stores[i], History: h, Secrets: secrets{}, Client: func() *http.Client { return client }, Now: func() time.Time { return now }})
		}
		start(0)
		start(1)
		apply(t, memory, spec)
		if err := senders[0].Pass(ctx, ref); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(t, "actions") {
			i := rapid.IntRange(0, 1).Draw(t, "server")
			switch rapid.SampledFrom([]string{"event", "event", "pass", "before", "after", "time", "refuse"}).Draw(t, "action") {
			case "event":
				h.add(now)
			case "before":
				stores[i].how = "before"
				_ = senders[i].Pass(ctx, ref)
				stores[i].how = ""
				start(i)
			case "after":
				stores[i].how = "after"
				_ = senders[i].Pass(ctx, ref)
				stores[i].how = ""
				start(i)
			case "pass":
				if err := senders[i].Pass(ctx, ref); err != nil {
					t.Fatal(err)
				}
			case "time":
				now = now.Add(20 * time.Second)
			case "refuse":
				refuse = !refuse
			}
		}
		refuse = false
		for range 4 {
			now = now.Add(time.Hour)
			if err := senders[0].Pass(ctx, ref); err != nil {
				t.Fatal(err)
			}
		}
		s := statusNow(t, memory)
		dead := map[string]bool{}
		for _, d := range s.Dead {
			if dead[d.ID] {
				t.Fatalf("%s is dead twice", d.ID)
			}
			dead[d.ID] = true
		}
		for _, e := range h.events {
			id := Event{Run: "r", Seq: e.Seq}.ID(uidOf(t, memory))
			if delivered[id] == 0 && !dead[id] {
				t.Fatalf("%s is lost: %+v", id, s)
			}
		}
		if int(s.Sent+s.GivenUp) != len(h.events) || len(s.Waiting) > 0 || len(delivered) > len(h.events) {
			t.Fatalf("%d events: %+v", len(h.events), s)
		}
	})
}

func uidOf(t interface{ Fatal(...any) }, m control.Objects) string {
	o, err := m.Get(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return o.UID
}

// A receiver verifies what a sender sends; 410 stops it until the spec changes, and a dead event comes again when asked.
func TestReceiver(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	code, seen := 200, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if got, want := r.Header.Get("webhook-signature"), Sign(r.Header.Get("webhook-id"), now, body, key, key); got != want {
			t.Errorf("signature %s, not %s", got, want)
		}
		seen++
		w.WriteHeader(code)
	}))
	defer server.Close()
	h, m := &history{}, control.NewMemory()
	s := New(Options{Objects: m, History: h, Secrets: secrets{}, Client: server.Client, Now: func() time.Time { return now }})
	url := strings.Replace(spec, "https://hooks.example.com/x", server.URL, 1)
	url = strings.Replace(url, `[{"name": "a"}]`, `[{"name": "a"}, {"name": "b"}]`, 1)
	pass := func(want string) {
		t.Helper()
		if err := s.Pass(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		st := statusNow(t, m)
		if got := fmt.Sprint(st.State, " sent ", st.Sent, " waiting ", len(st.Waiting), " dead ", len(st.Dead), " seen ", seen); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	ask := func(key, value string) {
		if _, err := control.Modify(t.Context(), m, ref, func(o *control.Object) error {
			o.Annotations = map[string]string{key: value}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, m, url)
	pass("Active sent 0 waiting 0 dead 0 seen 0")
	h.add(now)
	pass("Active sent 1 waiting 0 dead 0 seen 1")
	code = 500
	h.add(now)
	for range 3 {
		if err := s.Pass(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	pass("Active sent 1 waiting 0 dead 1 seen 4")
	code = 200
	ask(RedeliverAnnotation, "all")
	pass("Active sent 2 waiting 0 dead 0 seen 5")
	ask(TestAnnotation, "token")
	pass("Active sent 2 waiting 0 dead 0 seen 6")
	code = 410
	h.add(now)
	pass("Gone sent 2 waiting 1 dead 0 seen 7")
	if f := statusNow(t, m).Fault; f == nil || f.Code != Gone.Code {
		t.Errorf("%v", f)
	}
	code, now = 200, now.Add(time.Hour)
	pass("Gone sent 2 waiting 1 dead 0 seen 7")
	apply(t, m, strings.Replace(url, `"attempts": 3`, `"attempts": 4`, 1))
	pass("Active sent 3 waiting 0 dead 0 seen 8")
}

// The vector that the libraries of github.com/standard-webhooks/standard-webhooks test with: libraries/go/webhook_test.go at b2fa7b87.
func TestSign(t *testing.T) {
	key, err := ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	if got := Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), key); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	for _, bad := range []string{"", "MfKQ", "whsec_!", "whsec_MfKQ"} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		attempts int
		random   float64
		asked    time.Duration
		want     time.Duration
	}{
		{1, 0, 0, 5 * time.Second}, {2, 0, 0, 10 * time.Second}, {2, 1, 0, 7500 * time.Millisecond}, {1, 0, time.Minute, time.Minute},
		{11, 0, 0, 5120 * time.Second}, {12, 0, 0, 2 * time.Hour}, {30, 0, 0, 2 * time.Hour}, {1, 0, 9 * time.Hour, 2 * time.Hour},
	} {
		if got := Delay(c.attempts, c.random, c.asked); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`{"secrets": [{"name": "a"}]}`, "url or urlFrom is missing, or both are there: write one"},
		{`{"url": "https://a.b"}`, "secrets: it is missing: a receiver knows a webhook by its signature"},
		{`{"url": "https://a.b", "format": "slack", "events": ["run.lost"]}`, `events.0: "run.lost" is not one of ` + strings.Join(Types, ", ")},
		{`{"url": "https://a.b", "format": "slack", "filter": "event.flow"}`, "filter: the expression is a string, not true or false"},
		{`{"url": "https://a.b", "format": "slack", "template": "{\"text\": \"{{.Message}}\"}"}`, "template: it makes no JSON where a value has quotes or lines: write {{json .Message}} without quotes around it"},
		{`{"url": "https://a.b", "format": "slack", "colour": 1}`, "colour: unknown key"},
		{`{"url": "https://a.b", "format": "teams"}`, "<nil>"}, {`{"url": "https://a.b", "format": "slack"}`, "<nil>"},
	} {
		if _, err := Parse(json.RawMessage(c.spec)); fmt.Sprint(err) != c.want {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
}
