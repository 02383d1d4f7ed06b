package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/client"
)

// TestHandlerTransport: a handler of this process answers like a server: as it writes, with
// a body that breaks off when it panics, and until its caller has gone.
func TestHandlerTransport(t *testing.T) {
	defer goleak.VerifyNone(t)
	step, ended := make(chan struct{}), make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-From", r.RemoteAddr+" "+r.Host)
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "not sent")
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "one")
		<-step
		_, err := fmt.Fprint(w, "two")
		ended <- errors.Join(err, r.Context().Err())
	})
	mux.HandleFunc("GET /panic", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "begun")
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := &http.Client{Transport: client.HandlerTransport(mux)}
	get := func(ctx context.Context, path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Do(req)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pawl.test/echo", io.NopCloser(&oneByte{"hello"}))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || string(body) != "hello" || res.StatusCode != http.StatusAccepted || res.Header.Get("X-From") != "127.0.0.1:0 pawl.test" || res.Header.Get("X-Late") != "" {
		t.Errorf("echo: %d %v %q, %v", res.StatusCode, res.Header, body, err)
	}

	if res, err = get(t.Context(), "/stream"); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "one" {
		t.Errorf("the first part: %q, %v", first, err)
	}
	res.Body.Close()
	close(step)
	if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after its caller has gone a handler sees %v", err)
	}

	if res, err = get(t.Context(), "/panic"); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "begun" {
		t.Errorf("panic: %q, %v", body, err)
	}
	res.Body.Close()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err = get(ctx, "/silent"); !errors.Is(err, context.Canceled) {
		res.Body.Close()
		t.Errorf("a request that is given up: %v", err)
	}
}

// oneByte reads one byte at a time.
type oneByte struct{ rest string }

func (o *oneByte) Read(p []byte) (int, error) {
	if o.rest == "" {
		return 0, io.EOF
	}
	p[0], o.rest = o.rest[0], o.rest[1:]
	return 1, nil
}
