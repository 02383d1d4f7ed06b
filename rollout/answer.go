package rollout

import (
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Verdict is a judgement: of a rule on a workload, of a hook or a metric on an answer. Done means
// that it holds; otherwise the outcome is a wait with a reason, or a failure.
type Verdict struct {
	Done     bool            `json:"done"`
	Acts     []Act           `json:"acts,omitempty"`
	Asks     []Ask           `json:"asks,omitempty"`
	Position Position        `json:"position,omitzero"`
	Measured Measured        `json:"measured,omitzero"` // of Metric.Judge
	Outcome  outcome.Outcome `json:"-"`
}

func passed() Verdict { return Verdict{Done: true} }

func refused(err error) Verdict { return Verdict{Outcome: outcome.Fail(err)} }

func waits(d time.Duration, reason, format string, args ...any) Verdict {
	return Verdict{Outcome: outcome.Wait(d, reason, format, args...)}
}

// AskKind is what is asked.
type AskKind string

const (
	AskWebhook  AskKind = "Webhook"
	AskFlow     AskKind = "Flow"
	AskMetric   AskKind = "Metric"
	AskGate     AskKind = "Gate" // answered at once, without leaving the process
	AskProbe    AskKind = "Probe"
	AskHandover AskKind = "Handover"
)

// Ask is a question to something outside. Its answer is a fact of a later pass, under the same key.
type Ask struct {
	Key      string    `json:"key"` // the same for every attempt; the Idempotency-Key of webhooks
	Kind     AskKind   `json:"kind"`
	Name     string    `json:"name"`
	Attempt  int       `json:"attempt,omitempty"` // from 1
	Batch    int       `json:"batch"`
	Phase    string    `json:"phase,omitempty"` // of the body of a webhook
	Hook     *Hook     `json:"hook,omitempty"`
	Metric   *Metric   `json:"metric,omitempty"`
	Gate     *Gate     `json:"gate,omitempty"`
	Probe    *Probe    `json:"probe,omitempty"`
	Handover *Handover `json:"handover,omitempty"`
	Pods     []string  `json:"pods,omitempty"` // of probes and handovers
	// Fresh asks a probe now, before its period is over.
	Fresh bool `json:"fresh,omitempty"`
}

// Answer is what came back for one attempt of an ask.
type Answer struct {
	Attempt int `json:"attempt,omitempty"`
	// Code is the fault of a call that got no answer, such as HTTP_UNAVAILABLE.
	Code    fault.Code `json:"code,omitempty"`
	Message string     `json:"message,omitempty"`
	// Status, RetryAfter and Body are those of HTTP; the body is cut at 256 bytes.
	Status     int      `json:"status,omitempty"`
	RetryAfter Duration `json:"retryAfter,omitempty"`
	Body       string   `json:"body,omitempty"`
	// Samples are the values of a metric in the form of Prometheus: "0.5", "NaN", "+Inf".
	Samples []string `json:"samples,omitempty"`
	// Open is the value of a gate; Value shows what it looked at.
	Open  bool   `json:"open,omitempty"`
	Value string `json:"value,omitempty"`
	// Run is the phase of the run of a flow: Succeeded, Paused, Cancelled; empty while it runs.
	Run string `json:"run,omitempty"`
}
