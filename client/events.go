package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strings"
)

// EventsParams select the events of a stream.
type EventsParams struct {
	Run   string // id of a run; empty: all that the caller may see
	Type  string // of events; empty: all
	After string // id of the event behind which the stream begins; empty: now
}

// StreamEvent is an event of a stream: a change of a run, an object or a cluster.
type StreamEvent struct {
	ID   string
	Type string
	Data json.RawMessage
}

// Events reads the stream of events of GET /v1/events until ctx ends, the caller stops or
// the connection breaks, which is the last error. Go on with After: the ID of the last event.
func (c *Client) Events(ctx context.Context, params EventsParams) iter.Seq2[StreamEvent, error] {
	r := request{method: http.MethodGet, path: "/v1/events"}
	r.addQuery("run", params.Run)
	return c.stream(ctx, r, params)
}

// ClusterEvents is Events for one cluster: GET /v1/clusters/{id}/events.
func (c *Client) ClusterEvents(ctx context.Context, id string, params EventsParams) iter.Seq2[StreamEvent, error] {
	return c.stream(ctx, request{method: http.MethodGet, path: path("/v1/clusters/{id}/events", id)}, params)
}

// stream reads a stream. The first event has no type: it says that the stream has begun.
func (c *Client) stream(ctx context.Context, r request, params EventsParams) iter.Seq2[StreamEvent, error] {
	r.addQuery("type", params.Type)
	r.addHeader("Last-Event-ID", params.After)
	return func(yield func(StreamEvent, error) bool) {
		response, err := c.do(ctx, r, nil)
		if err != nil {
			yield(StreamEvent{}, err)
			return
		}
		defer response.Body.Close()
		if !yield(StreamEvent{ID: params.After}, nil) {
			return
		}
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		e := StreamEvent{ID: params.After}
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.ID = value
			case "event":
				e.Type = value
			case "data":
				e.Data = append(e.Data, value...)
			case "":
				if e.Type != "" && !yield(e, nil) {
					return
				}
				e = StreamEvent{ID: e.ID}
			}
		}
		if ctx.Err() == nil {
			yield(e, Unreachable.Errorf("%s broke off: %w", c.base, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)))
		}
	}
}
