package rollout

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// HookTimeout is how long one call of a hook may take by default.
const HookTimeout = 10 * time.Second

const (
	hookRetries = 3
	firstRetry  = time.Second
	lastRetry   = time.Minute
)

// retriedStatus are Request Timeout, Too Early and Too Many Requests.
var retriedStatus = []int{408, 425, 429}

func (h Hook) defaulted(onFailure OnFailure) Hook {
	if h.Method == "" && h.URL != "" {
		h.Method = "POST"
	}
	if h.Timeout == 0 {
		h.Timeout = Duration(HookTimeout)
	}
	if h.Retries == nil {
		h.Retries = new(hookRetries)
	}
	if h.OnFailure == "" {
		h.OnFailure = onFailure
	}
	return h
}

// Judge is the verdict on the answer to an attempt, counted from 1: the hook has passed, is asked
// again after a delay that grows, or has failed with WEBHOOK_FAILED.
func (h Hook) Judge(attempt int, a Answer) Verdict {
	if h.Flow != "" {
		return h.judgeRun(a)
	}
	var again bool
	var why string
	switch {
	case a.Code != "":
		again, why = a.Code == "HTTP_UNAVAILABLE", string(a.Code)+": "+a.Message
	case h.expects(a.Status):
		return passed()
	default:
		again = slices.Contains(retriedStatus, a.Status) || a.Status >= 500
		why = "status " + strconv.Itoa(a.Status)
		if a.Body != "" {
			why += ": " + clip(a.Body)
		}
	}
	if retries := *h.defaulted("").Retries; again && attempt <= retries {
		return waits(max(retryDelay(h.Name, attempt), time.Duration(a.RetryAfter)), "WebhookRetry",
			"hook %s: %s; attempt %d of %d", h.Name, why, attempt, retries+1)
	}
	return refused(WebhookFailed.Errorf("hook %s: %s", h.Name, why).With("hook", h.Name).With("status", a.Status))
}

func (h Hook) expects(status int) bool {
	if len(h.ExpectedStatus) == 0 {
		return status >= 200 && status <= 299
	}
	return slices.Contains(h.ExpectedStatus, status)
}

func (h Hook) judgeRun(a Answer) Verdict {
	switch {
	case a.Run == "Succeeded":
		return passed()
	case a.Run == "Cancelled" || a.Code != "" && a.Run == "":
		return refused(WebhookFailed.Errorf("hook %s: the run of flow %s ended: %s %s", h.Name, h.Flow, a.Code, a.Message).With("hook", h.Name))
	case a.Run == "Paused":
		return waits(0, "FlowPaused", "hook %s: the run of flow %s is paused: %s %s", h.Name, h.Flow, a.Code, a.Message)
	case a.Message != "" && a.Run == "":
		return waits(0, "FlowUnavailable", "hook %s: flow %s: %s", h.Name, h.Flow, a.Message)
	default:
		return waits(0, "FlowRunning", "hook %s: flow %s runs", h.Name, h.Flow)
	}
}

// clip is the first 256 bytes of an answer.
func clip(s string) string { return s[:min(len(s), 256)] }

// retryDelay grows from 1 s to 1 min. Up to a quarter of it depends on the name, so that hooks that
// failed together are not asked again together.
func retryDelay(name string, attempt int) time.Duration {
	d := min(firstRetry<<min(attempt-1, 10), lastRetry)
	h := fnv.New32a()
	_, _ = h.Write([]byte(name + strconv.Itoa(attempt)))
	return d - d/4 + d/4*time.Duration(h.Sum32()%1024)/1024
}

// hooks are the hooks of a type: those of the plan first, then those of the batch.
func (p Plan) hooks(t HookType, batch int) []Hook {
	var all []Hook
	add := func(hooks []Hook) {
		for _, h := range hooks {
			if h.Type == t {
				all = append(all, h)
			}
		}
	}
	add(p.RolloutWebhooks)
	if (t == PreBatchHook || t == PostBatchHook) && batch < len(p.RolloutBatches) {
		add(p.RolloutBatches[batch].BatchRolloutWebhooks)
	}
	return all
}

// hookNames are type and name of the hooks of a batch.
func (p Plan) hookNames(batch int, types ...HookType) (names []string) {
	for _, t := range types {
		for _, h := range p.hooks(t, batch) {
			names = append(names, string(t)+" "+h.Name)
		}
	}
	return names
}

func (h Handover) defaulted() Handover {
	if h.Timeout == 0 {
		h.Timeout = Duration(30 * time.Second)
	}
	if h.Retries == nil {
		h.Retries = new(hookRetries)
	}
	return h
}

// judge is the verdict on an attempt to move the role. That it succeeded is not enough: the role must
// be seen to have moved.
func (h Handover) judge(pod string, attempt int, a Answer) outcome.Outcome {
	if a.Code == "" && (a.Status == 0 || a.Status >= 200 && a.Status <= 299) {
		return outcome.Done()
	}
	why := a.Message
	if a.Status != 0 {
		why = strconv.Itoa(a.Status) + " " + clip(a.Body)
	}
	if retries := *h.defaulted().Retries; attempt <= retries {
		return outcome.Wait(retryDelay(pod, attempt), "HandoverPending", "pod %s keeps its role: %s; attempt %d of %d", pod, why, attempt, retries+1)
	}
	return outcome.Fail(HandoverFailed.Errorf("pod %s keeps its role: %s", pod, why).With("pod", pod))
}
