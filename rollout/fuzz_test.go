package rollout_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
)

// FuzzParsePlan: whatever a plan says, it is refused with PLAN_INVALID or judged: nothing panics, and
// the counts of an accepted plan never fall and end at the total.
func FuzzParsePlan(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"numBatches":3}`, `{"rolloutBatches":[{"replicas":"20%"},{"replicas":2},{}],"batchPartition":0}`,
		`{"rolloutBatches":[{"pods":{"ordinals":["5","2-3"]}},{"podList":["db-1"]}],"order":{"roleLabel":"role","roles":["a","b"]}}`,
		`{"disruption":{"quorum":{"selector":{"matchLabels":{"a":"b"}},"minHealthy":"majority"},"maxUnavailable":"50%"}}`,
		`{"canaryMetric":[{"name":"m","metricsRange":{"max":"0.1"},"provider":{"prometheus":{"address":"http://x","query":"q"}}}],"soak":"5s"}`,
		`{"numBatches":1e99}`, `{"rolloutBatches":[{"replicas":"101%"}]}`, `{"rolloutBatches":null}`, `[]`, `{"a":{}} {}`, `{"targetSize":-1}`,
		`{"rolloutBatches":[{"pods":{"ordinals":["0-2147483647"]}}]}`,
	} {
		f.Add([]byte(text), 5)
	}
	f.Fuzz(func(t *testing.T, text []byte, total int) {
		p, err := rollout.ParsePlan(text)
		if err != nil {
			if fault.Of(err) != rollout.PlanInvalid {
				t.Fatalf("the fault is %v", err)
			}
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rollout.ParsePlan(written); err != nil {
			t.Fatalf("what was read cannot be read again: %v: %s", err, written)
		}
		total = int(uint(total) % 1000) //nolint:gosec // a number of pods
		if p.Problems() != nil || p.NumBatches != nil && *p.NumBatches > 200 {
			return
		}
		if total <= 100 {
			_, _ = rollout.Preview(p, rollout.IdealFacts(rollout.StatefulSet, "db", total, p))
		}
		p = p.Defaulted(total)
		for _, m := range []rollout.Mode{rollout.Scale, rollout.Rollout} {
			if p.Verify(m, 0, total) != nil {
				continue
			}
			last := 0
			for batch := range p.RolloutBatches {
				n := p.Target(m, 0, total, batch)
				if n < last || n > total {
					t.Fatalf("%s: batch %d ends at %d after %d, of %d", m, batch, n, last, total)
				}
				last = n
			}
			if last != total {
				t.Fatalf("%s: the last batch ends at %d of %d", m, last, total)
			}
		}
		_ = p.Change(p, rollout.Position{})
	})
}

// FuzzHookJudge: each answer is one of passed, again after a delay, failed with WEBHOOK_FAILED.
func FuzzHookJudge(f *testing.F) {
	f.Add(1, 3, 200, "", "ok", int64(0), 0)
	f.Add(4, 3, 503, "", "busy", int64(time.Hour), 0)
	f.Add(1, 0, 0, "HTTP_UNAVAILABLE", "", int64(math.MaxInt64), 0)
	f.Add(math.MaxInt, -1, -5, "X", "\xff\xfe", int64(-1), 404)
	f.Fuzz(func(t *testing.T, attempt, retries, status int, code, body string, after int64, expected int) {
		h := rollout.Hook{Name: "h", URL: "http://x", Retries: &retries}
		if expected != 0 {
			h.ExpectedStatus = []int{expected}
		}
		if attempt < 1 {
			attempt = 1
		}
		v := h.Judge(attempt, rollout.Answer{Attempt: attempt, Code: fault.Code(code), Status: status, Body: body, RetryAfter: rollout.Duration(after)})
		good := code == "" && (expected == 0 && status >= 200 && status <= 299 || expected != 0 && status == expected)
		switch {
		case v.Done != good:
			t.Fatalf("done is %t", v.Done)
		case v.Done:
		case v.Outcome.IsWait():
			if attempt > retries || v.Outcome.After() <= 0 {
				t.Fatalf("attempt %d of %d is followed by another after %s", attempt, retries, v.Outcome.After())
			}
		case !v.Outcome.IsFail() || fault.Of(v.Outcome.Err()) != rollout.WebhookFailed:
			t.Fatalf("it is %s", v.Outcome)
		}
	})
}

// FuzzMetricJudge: nothing but numbers in the range pass.
func FuzzMetricJudge(f *testing.F) {
	f.Add("0.5", "", "", true)
	f.Add("NaN", "+Inf", "", true)
	f.Add("0x1p-2", "1e-3", "", true)
	f.Add("1_0", "", "error", false)
	f.Fuzz(func(t *testing.T, first, second, message string, two bool) {
		low, high := decimal(t, "0"), decimal(t, "1")
		m := rollout.Metric{Name: "m", MetricsRange: rollout.Range{Min: &low, Max: &high}, InconclusiveLimit: new(0)}
		a := rollout.Answer{Samples: []string{first}, Message: message}
		if two {
			a.Samples = append(a.Samples, second)
		}
		v := m.Judge(a, rollout.Measured{})
		good := message == ""
		for _, s := range a.Samples {
			n, err := strconv.ParseFloat(s, 64)
			good = good && err == nil && n >= 0 && n <= 1
		}
		if v.Done != good {
			t.Fatalf("%q: done is %t: %s", a.Samples, v.Done, v.Outcome)
		}
		if code := fault.Of(v.Outcome.Err()); !v.Done && code != rollout.MetricFailed && code != rollout.MetricInconclusive {
			t.Fatalf("%q: it is %s", a.Samples, v.Outcome)
		}
	})
}
