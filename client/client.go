// Package client calls the HTTP API of a Pawl server.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:7295"})
//	run, err := c.StartRun(ctx, client.StartRunRequest{Flow: "Backup"}, client.StartRunParams{})
//
// There is a method for each operation of docs/openapi.yaml. An answer that is no
// success is a *view.Problem with code and remedy, or SERVER_UNREACHABLE.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Unreachable is the fault of a server that does not answer.
var Unreachable = fault.Declare(fault.Kind{
	Code: "SERVER_UNREACHABLE", Class: fault.Transient, Uncharged: true,
	Title:  "the server does not answer",
	Remedy: "Start the server (`pawl dev`, `pawl server`), or name the one that runs: pawl context use NAME, --server. Verbs of runs, objects and accounts work on the local store with --store sqlite or --dsn; those of clusters need a server.",
})

// Options name a server and the caller.
type Options struct {
	URL   string // http://HOST:PORT or https://HOST:PORT; without a scheme it is http
	Token string // of an account or of the operator; empty: none

	// CertificateAuthority holds the PEM certificates that a server's must be signed by. Default: those of the system.
	// It is not used with HTTP.
	CertificateAuthority []byte
	// HTTP sends the requests. Default: a client without redirects, so that the token goes
	// to the server that was named.
	HTTP *http.Client
	// Timeout limits a request and its answer. Default 30 s. Event streams have no limit.
	Timeout time.Duration
}

// Client calls one server. Its methods may be called from several goroutines.
type Client struct {
	options Options
	base    *url.URL
}

// tries is how often a request is sent that fails for a reason that may pass.
const tries = 4

// New returns the client of a server. It does not connect. INPUT_INVALID.
func New(o Options) (*Client, error) {
	if !strings.Contains(o.URL, "://") {
		o.URL = "http://" + o.URL
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, runtype.InputInvalid.Errorf("--server %s is no URL: it is http://HOST:PORT or https://HOST:PORT", o.URL)
	}
	if o.HTTP == nil {
		transport, err := o.transport()
		if err != nil {
			return nil, err
		}
		o.HTTP = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	return &Client{options: o, base: base}, nil
}

// transport is http.DefaultTransport, with an authority of its own if there is one.
func (o Options) transport() (http.RoundTripper, error) {
	if o.CertificateAuthority == nil {
		return http.DefaultTransport, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(o.CertificateAuthority) {
		return nil, runtype.InputInvalid.Errorf("the certificate authority of %s holds no certificate in PEM", o.URL)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// URL is the address of the server, with a scheme.
func (c *Client) URL() string { return strings.TrimSuffix(c.base.String(), "/") }

// Close closes idle connections.
func (c *Client) Close() error {
	c.options.HTTP.CloseIdleConnections()
	return nil
}

// Items is a page of a list. Next is the cursor of the next page; empty: this is the last.
type Items[T any] struct {
	Items []T    `json:"items"`
	Total int    `json:"total,omitempty"`
	Next  string `json:"next,omitempty"`
}

// All reads all pages of a list. page reads the one at a cursor.
func All[T any](page func(cursor string) (Items[T], error)) ([]T, error) {
	var all []T
	for cursor := ""; ; {
		p, err := page(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if cursor = p.Next; cursor == "" {
			return all, nil
		}
	}
}

// request is one call of an operation.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	contentType  string
}

// path fills the segments of a route.
func path(route string, segments ...string) string {
	for _, segment := range segments {
		from := strings.IndexByte(route, '{')
		to := strings.IndexByte(route, '}')
		route = route[:from] + url.PathEscape(segment) + route[to+1:]
	}
	return route
}

// addQuery adds a parameter that is not its zero value.
func (r *request) addQuery(name string, value any) {
	if text := parameter(value); text != "" {
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set(name, text)
	}
}

func (r *request) addHeader(name string, value any) {
	if text := parameter(value); text != "" {
		if r.header == nil {
			r.header = http.Header{}
		}
		r.header.Set(name, text)
	}
}

// parameter writes a value as a parameter; "" for its zero value.
func parameter(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.IsZero() {
		return ""
	}
	if at, ok := value.(time.Time); ok {
		return at.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(reflect.Indirect(v).Interface())
}

// send sends a request and decodes its answer. Each request can be repeated: it reads,
// or carries a revision or an Idempotency-Key.
func send[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	var body []byte
	if r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return answer, err
		}
	}
	if r.method == http.MethodPost && r.header.Get("Idempotency-Key") == "" {
		r.addHeader("Idempotency-Key", rand.Text())
	}
	delay := 100 * time.Millisecond
	for try := 1; ; try++ {
		err = c.once(ctx, r, body, &answer)
		if err == nil || try == tries || ctx.Err() != nil || !temporary(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(delay):
			delay *= 2
		}
	}
}

// temporary reports an error that may pass.
func temporary(err error) bool {
	var p *view.Problem
	if errors.As(err, &p) {
		return p.Status == http.StatusServiceUnavailable || p.Code == "IDEMPOTENCY_KEY_BUSY"
	}
	return fault.Of(err) == Unreachable
}

func (c *Client) once(ctx context.Context, r request, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	response, err := c.do(ctx, r, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return Unreachable.Errorf("%s broke off: %w", c.base, err)
	}
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer of %s: %w", c.base, err)
	}
	return nil
}

// do returns the answer, or its problem document as an error.
func (c *Client) do(ctx context.Context, r request, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(c.base.String(), "/")+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = r.query.Encode()
	for name, values := range r.header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", r.contentType)
	}
	req.Header.Set("Accept", "application/json, application/problem+json, text/event-stream")
	if c.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.options.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, ctx.Err()
		}
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, Unreachable.Errorf("%s: %w", c.base, err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // what cannot be read is no problem document
	var p view.Problem
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return nil, Unreachable.Errorf("%s answers %s: is it a pawl server?", c.base, response.Status)
	}
	return nil, &p
}
