package cloudstack

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/fault"
)

const (
	signatureLifetime = 10 * time.Minute
	maxAnswerBytes    = 64 << 20 // per answer
	dateForm          = "2006-01-02T15:04:05-0700"

	maxThrottle = time.Minute
)

// params are the parameters of a command. Empty values are left out.
type params map[string]string

// request is one call of the API.
type request struct {
	command string
	zone    string // the zone whose rate limit applies; empty: the shared one
	params  params
	changes bool // sent by POST
}

// call sends a request and decodes its answer into out, which may be nil. Only a *refusal
// (refusal.go) is a statement of the API about the resource.
func (p *Provider) call(ctx context.Context, r request, out any) error {
	began := time.Now()
	err := p.send(ctx, r, out)
	outcome := "ok"
	if err != nil {
		outcome = strings.ToLower(string(fault.Of(err).Code))
	}
	p.o.OnCall(r.command, outcome, time.Since(began))
	return err
}

func (p *Provider) send(ctx context.Context, r request, out any) error {
	signed, err := p.signed(r)
	if err != nil {
		return err
	}
	leave, err := p.gates.enter(ctx, r.zone)
	if err != nil {
		return unanswered(r.command, err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	p.sign(signed) // sign after waiting at the gate: the signature expires
	status, header, body, err := p.exchange(ctx, r, signed)
	if err != nil {
		return unanswered(r.command, err)
	}
	err = decode(r.command, status, body, out)
	var refused *refusal
	if errors.As(err, &refused) {
		refused.redact(string(p.o.Secret), signed["userdata"], signed["signature"])
		if refused.Status == http.StatusTooManyRequests {
			p.gates.hold(retryAfter(header.Get("Retry-After"), refused.Text, p.o.Now()))
		}
		return refused.fault()
	}
	return err
}

// signed returns the parameters to send, without the signature.
func (p *Provider) signed(r request) (map[string]string, error) {
	all := map[string]string{"command": r.command, "apikey": p.o.APIKey, "response": "json", "signatureversion": "3"}
	maps.Copy(all, r.params)
	for name, value := range all {
		switch {
		case value == "":
			delete(all, name)
		case strings.Contains(value, "~"):
			return nil, cluster.ProviderRefused.Errorf("%s: parameter %s has a ~, which servers sign in two ways: choose another name", r.command, name)
		}
	}
	return all, nil
}

func (p *Provider) sign(all map[string]string) {
	all["expires"] = p.o.Now().Add(signatureLifetime).UTC().Format(dateForm)
	all["signature"] = cloudsign.Sign(p.o.Secret.Reveal(), all)
}

func (p *Provider) exchange(ctx context.Context, r request, signed map[string]string) (status int, header http.Header, body []byte, err error) {
	target, method, form := *p.base, http.MethodGet, ""
	if r.changes {
		method, form = http.MethodPost, encode(signed)
	} else {
		target.RawQuery = encode(signed)
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(form))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if r.changes {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := p.http.Do(req)
	if err != nil {
		var in *url.Error // its text contains the whole query with the signature
		if errors.As(err, &in) {
			err = in.Err
		}
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return 0, nil, nil, err
	case len(body) > maxAnswerBytes:
		return 0, nil, nil, errors.New("the answer is longer than 64 MiB")
	}
	return res.StatusCode, res.Header, body, nil
}

// unanswered is the error of a call whose effect is unknown.
func unanswered(command string, err error) error {
	if fault.Of(err) != fault.Unknown {
		return err
	}
	return cluster.ProviderUnreachable.Errorf("%s: no answer: %w", command, err)
}

// retryAfter returns how long to wait: seconds or a date from the header, or milliseconds
// from the end of the text; default: one second.
func retryAfter(header, text string, now time.Time) time.Duration {
	wait := time.Second
	if n, err := strconv.Atoi(strings.TrimSpace(header)); err == nil {
		wait = time.Duration(min(max(n, 0), 3600)) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	} else if before, ok := strings.CutSuffix(strings.TrimRight(strings.TrimSpace(text), "."), " ms"); ok {
		if n, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:]); err == nil {
			wait = time.Duration(min(max(n, 0), 3_600_000)) * time.Millisecond
		}
	}
	return min(max(wait, 0), maxThrottle)
}
