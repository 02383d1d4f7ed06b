package servertest

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// EventReader reads server-sent events.
type EventReader struct {
	T     *testing.T
	Lines *bufio.Scanner
	Close func()
}

// ReceivedEvent is a server-sent event.
type ReceivedEvent struct {
	ID, Kind, Data string
}

// Listen opens a stream that continues after an event; "" is now.
func (h *Fixture) Listen(path, last string, header ...string) *EventReader {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r, err := http.NewRequestWithContext(ctx, "GET", h.URL+path, nil)
	if err != nil {
		h.T.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r) //nolint:bodyclose // ear.Close does
	if err != nil {
		h.T.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		h.T.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	e := &EventReader{T: h.T, Lines: bufio.NewScanner(response.Body), Close: func() { cancel(); response.Body.Close() }}
	h.T.Cleanup(e.Close)
	if !e.Lines.Scan() || !strings.HasPrefix(e.Lines.Text(), "retry:") && !strings.HasPrefix(e.Lines.Text(), "id:") {
		h.T.Fatalf("the stream begins with %q", e.Lines.Text())
	}
	return e
}

// Next reads an event.
func (e *EventReader) Next() ReceivedEvent {
	e.T.Helper()
	var h ReceivedEvent
	for e.Lines.Scan() {
		name, value, _ := strings.Cut(e.Lines.Text(), ": ")
		switch name {
		case "id":
			h.ID = value
		case "event":
			h.Kind = value
		case "data":
			h.Data = value
		case "":
			if h.Kind != "" {
				return h
			}
		}
	}
	e.T.Fatalf("the stream ended: %v", e.Lines.Err())
	return h
}

// Until reads up to an event of a kind that contains a text.
func (e *EventReader) Until(kind, text string) (all []ReceivedEvent) {
	e.T.Helper()
	for {
		h := e.Next()
		all = append(all, h)
		if h.Kind == kind && strings.Contains(h.Data, text) {
			return all
		}
	}
}
