package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
)

// A reader of an event stream that reads nothing is disconnected when the buffers of its
// TCP connection are full, and its slot becomes free. Another reader gets all events.
func TestSlowReaderIsCut(t *testing.T) {
	objects := control.NewMemory()
	s, err := server.New(server.Options{Engine: newEngine(t), Objects: objects, Listen: "127.0.0.1:0", SlowReader: 200 * time.Millisecond, MaxEvents: 2})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	listen := func() *bufio.Reader {
		t.Helper()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /v1/events?type=object HTTP/1.1\r\nHost: %s\r\n\r\n", ln.Addr())
		in := bufio.NewReader(conn)
		for line := ""; !strings.HasPrefix(line, "retry:"); {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		return in
	}
	listen() // and reads nothing more
	in := listen()
	h := &servertest.Fixture{T: t, URL: "http://" + ln.Addr().String()}
	if got := h.Do("GET", "/v1/events", nil); got.Status != http.StatusServiceUnavailable {
		t.Fatalf("both slots are taken, and a third reader got %d", got.Status)
	}

	// Each event is long, so that a few hundred fill what the kernel buffers.
	long := strings.Repeat("x", 100_000)
	const most = 2000
	reported := 0
	for ; s.Streams() == 2; reported++ {
		if reported == most {
			t.Fatalf("a reader that took nothing of %d MB is still served", most*len(long)>>20)
		}
		status, err := json.Marshal(map[string]string{"state": fmt.Sprint(reported, long)})
		if err != nil {
			t.Fatal(err)
		}
		o, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: fmt.Sprint("c", reported)}})
		if err == nil {
			o.Status = status
			_, err = objects.Update(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := ""; !strings.Contains(line, fmt.Sprintf(`"state":"%d`, reported)); { // the other reader reads all events
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatalf("the other reader was disconnected too, after %d events: %v", reported, err)
			}
		}
	}
	if reported < 10 {
		t.Errorf("cut after %d events", reported)
	}
	listen() // its slot is free
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
