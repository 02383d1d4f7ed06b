package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/operator/rollout/outside"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const (
	bodyKept    = 256      // bytes of an answer
	bodyDrained = 64 << 10 // bytes that are read of it at most
)

// Caller calls webhooks with a client, whose transport decides what may be reached. The zero Caller
// uses http.DefaultClient.
type Caller struct {
	Client *http.Client
}

// HookBody is what a webhook gets. Key, its Idempotency-Key, is the same for every attempt of one hook
// in one batch of one rollout.
type HookBody struct {
	Key       string            `json:"-"`
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	UID       string            `json:"uid"`
	Phase     string            `json:"phase"`              // initializing, batchInitializing, batchFinalizing, or the rolling state at the end
	Rollback  bool              `json:"rollback,omitempty"` // the pods go back
	Metadata  map[string]string `json:"metadata,omitempty"`
	Rollout   HookRevisions     `json:"rollout"`
	Batch     HookBatch         `json:"batch"`
}

// HookRevisions are the revisions of a rollout; a scale has no source.
type HookRevisions struct {
	Source string `json:"source,omitempty"`
	Target string `json:"target"`
}

// HookBatch is the present batch, from 0, and the number of batches.
type HookBatch struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// IdempotencyKey is the header of that name.
func (b HookBody) IdempotencyKey() string { return b.Key }

// Call makes one attempt of a webhook. The body is sent as JSON, unless the method is GET; its method
// IdempotencyKey, if it has one, is the header Idempotency-Key. Redirects are not followed. An answer
// without a status has a code: HTTP_UNAVAILABLE, HTTP_UNTRUSTED, HTTP_ADDRESS_REFUSED or, for a hook
// that cannot be called, HTTP_UNEXPECTED.
func (c Caller) Call(ctx context.Context, h rollout.Hook, body any) rollout.Answer {
	timeout := time.Duration(h.Timeout)
	if timeout <= 0 {
		timeout = rollout.HookTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := newRequest(ctx, h, body)
	if err != nil {
		return outside.Failed(action.HTTPUnexpected.Errorf("%w", err))
	}
	client := http.Client{}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		return outside.Failed(outside.Error(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, bodyKept))
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, bodyDrained)
	}
	return rollout.Answer{Status: response.StatusCode, Body: string(text), RetryAfter: rollout.Duration(retryAfter(response.Header.Get("Retry-After")))}
}

func newRequest(ctx context.Context, h rollout.Hook, body any) (*http.Request, error) {
	if err := egress.CheckURL(h.URL); err != nil {
		return nil, err
	}
	method := h.Method
	if method == "" {
		method = http.MethodPost
	}
	var content io.Reader
	if method != http.MethodGet {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, h.URL, content)
	if err != nil {
		return nil, err
	}
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("User-Agent", "pawl")
	if b, ok := body.(interface{ IdempotencyKey() string }); ok && b.IdempotencyKey() != "" {
		request.Header.Set(outside.KeyHeader, b.IdempotencyKey())
	}
	return request, nil
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
