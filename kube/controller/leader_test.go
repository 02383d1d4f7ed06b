package controller

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/fault"
)

// A former leader writes nothing after its lease, counted from the moment when the renewal
// was sent. A process that never was the leader is not restricted.
func TestFence(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/pawl-operator"
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		status, takes := http.StatusOK, time.Duration(0)
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.Method+" "+r.URL.Path)
			time.Sleep(takes)
			return &http.Response{StatusCode: status, Body: http.NoBody}, nil
		})
		f := &fence{lease: 15 * time.Second}
		config := &rest.Config{Host: "http://api"}
		f.guard(config)
		call := func(agent, method, path string) error {
			t.Helper()
			body := &closed{Reader: strings.NewReader("{}")}
			r, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("User-Agent", agent)
			answer, err := config.WrapTransport(server).RoundTrip(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			if err != nil && !body.closed {
				t.Error("the body of what was not sent is open")
			}
			return err
		}
		goes := func(method, path string) {
			t.Helper()
			sent = nil
			if err := call("pawl", method, path); err != nil || len(sent) != 1 {
				t.Errorf("%s %s: %v, sent %v", method, path, err, sent)
			}
		}
		refused := func(method, path string) {
			t.Helper()
			sent = nil
			if err := call("pawl", method, path); fault.Of(err) != LeaderLost || len(sent) != 0 {
				t.Errorf("%s %s: %v, sent %v", method, path, err, sent)
			}
		}
		elect := func(method, path string, answer int) {
			t.Helper()
			status = answer
			if err := call("pawl/leader-election", method, path); err != nil {
				t.Error(err)
			}
			status = http.StatusOK
		}

		elect(http.MethodGet, lease, http.StatusOK) // another process holds it
		elect(http.MethodPost, "/api/v1/namespaces/n/events", http.StatusCreated)
		elect(http.MethodPut, lease, http.StatusConflict)
		time.Sleep(time.Hour)
		goes(http.MethodPatch, "/pods/a")

		takes = 4 * time.Second
		elect(http.MethodPut, lease, http.StatusOK)
		takes = 0
		time.Sleep(11 * time.Second)
		goes(http.MethodPatch, "/pods/a")
		m := &Manager{fence: f}
		if err := m.Leading(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		if err := m.Leading(); fault.Of(err) != LeaderLost {
			t.Errorf("after its lease it leads: %v", err)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			refused(method, "/pods/a")
		}
		goes(http.MethodGet, "/pods/a")
		sent = nil // it does not release a Lease that may belong to another process
		if err := call("pawl/leader-election", http.MethodPut, lease); fault.Of(err) != LeaderLost || len(sent) != 0 {
			t.Errorf("a late write of the Lease: %v, sent %v", err, sent)
		}
	})
}

// A write that waits for its connection until the lease has ended is not sent: the lease is
// checked again when its body is read.
func TestALateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{lease: 15 * time.Second, renewedAt: time.Now()}
		for _, c := range []struct {
			dial time.Duration
			want *fault.Kind
		}{{10 * time.Second, nil}, {20 * time.Second, LeaderLost}} {
			got := make(chan string, 1)
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(c.dial)
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					r, err := http.ReadRequest(bufio.NewReader(there))
					if err != nil {
						got <- ""
						return
					}
					body, _ := io.ReadAll(r.Body) // the part that was sent
					got <- string(body)
					_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // the client may be gone
				}()
				return here, nil
			}}
			client := &http.Client{Transport: (&Manager{fence: f}).Fence(transport)}
			answer, err := client.Post("http://agent/v1/stop", "application/json", strings.NewReader("stop at once"))
			if err == nil {
				err = answer.Body.Close()
			}
			said := <-got
			transport.CloseIdleConnections()
			if refused := c.want != nil; refused != (said == "") || refused != (err != nil) || refused && fault.Of(err) != c.want {
				t.Errorf("a connection after %s: %v, the agent heard %q", c.dial, err, said)
			}
		}
		if alone := (&Manager{}).Fence(http.DefaultTransport); alone != http.DefaultTransport {
			t.Error("who is alone has a fence")
		}
	})
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

// The refusal of a write keeps its code through the clients of client-go.
func TestAFencedWriteKeepsItsCode(t *testing.T) {
	f := &fence{lease: time.Second, renewedAt: time.Now().Add(-time.Hour)}
	config := &rest.Config{Host: "http://127.0.0.1:1", ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}}
	f.guard(config)
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	err = Fault(client.Put().AbsPath("/x").Do(t.Context()).Error())
	if fault.Of(err) != LeaderLost || !strings.Contains(err.Error(), "PUT /x is not sent") {
		t.Errorf("got %v", err)
	}
}
