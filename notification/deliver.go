package notification

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/action/egress"
)

const answerFor = 10 * time.Second

// endpoint is where webhooks go, and what signs them.
type endpoint struct {
	*Target
	url    string
	keys   [][]byte
	client *http.Client
}

// endpoint reads the secrets of a notification.
func (s *Sender) endpoint(ctx context.Context, w *worker) (to endpoint, err error) {
	if to.Target, err = w.spec(); err != nil {
		return to, err
	}
	to.url = to.URL
	if ref := to.URLFrom; ref != nil {
		if to.url, err = s.options.Secrets.Secret(ctx, *ref); err != nil {
			return to, SecretUnusable.Errorf("urlFrom: %w", err)
		}
		if to.url = strings.TrimSpace(to.url); egress.CheckURL(to.url) != nil {
			return to, SecretUnusable.Errorf("urlFrom: secret %s %s is no URL", ref.Name, ref.Key)
		}
	}
	for i, ref := range to.Secrets {
		text, err := s.options.Secrets.Secret(ctx, ref)
		if err != nil {
			return to, SecretUnusable.Errorf("secrets.%d: %w", i, err)
		}
		key, err := ParseSecret(text)
		if err != nil {
			return to, SecretUnusable.Errorf("secrets.%d: secret %s %s: %w", i, ref.Name, ref.Key, err)
		}
		to.keys = append(to.keys, key)
	}
	to.client = w.clientOf(to.url, s.options.Client)
	return to, nil
}

// attempt is one attempt to deliver an event.
type attempt struct {
	Delivery
	test  string // token of a test; empty: an event
	gone  bool
	err   error
	asked time.Duration // what the receiver asked for
}

// deliver sends a batch at once.
func (s *Sender) deliver(ctx context.Context, to endpoint, due []*attempt) {
	var all sync.WaitGroup
	for _, a := range due {
		all.Go(func() { s.post(ctx, to, a) })
	}
	all.Wait()
}

func (s *Sender) post(ctx context.Context, to endpoint, a *attempt) {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	body, err := to.Body(a.Event)
	if err != nil {
		a.err = err
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		a.err = errors.New("the URL cannot be used")
		return
	}
	now := s.options.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "pawl")
	req.Header.Set(HeaderID, a.ID)
	req.Header["Idempotency-Key"] = nil // not sent: net/http sends again what met a connection that the receiver had closed
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	if len(to.keys) > 0 {
		req.Header.Set(HeaderSignature, Sign(a.ID, now, body, to.keys...))
	}
	answer, err := to.client.Do(req)
	if err != nil {
		var wrapped *url.Error // its text has the URL, which may be a secret
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		a.err = err
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // the status is the answer; read, it leaves the connection usable
	if answer.StatusCode/100 != 2 {
		a.err = fmt.Errorf("the receiver answers %d", answer.StatusCode)
		a.gone = answer.StatusCode == http.StatusGone
		a.asked = retryAfter(answer.Header, now)
	}
}
