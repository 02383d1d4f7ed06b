package backend

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	againEvery  = time.Second     // between connections of an event stream
	safetyEvery = 5 * time.Second // poll without a notification
)

// Changes implements Runs by the server's event stream.
func (r *Remote) Changes(ctx context.Context, id string) <-chan struct{} {
	c := make(chan struct{}, 1)
	notify := func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	notified := make(chan struct{}, 1)
	go func() { // reads the stream; ends with ctx, which ends its request
		last := ""
		for ctx.Err() == nil {
			last = r.listen(ctx, id, last, func() {
				select {
				case notified <- struct{}{}:
				default:
				}
			})
			select {
			case <-ctx.Done():
			case <-time.After(againEvery):
			}
		}
	}()
	go func() {
		defer close(c)
		safety := time.NewTicker(safetyEvery)
		defer safety.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-notified:
			case <-safety.C:
			}
			notify()
		}
	}()
	return c
}

// listen reads one connection to its end and returns the last event id.
func (r *Remote) listen(ctx context.Context, id, last string, notify func()) string {
	query := url.Values{}
	if id != "" {
		query.Set("run", id)
	}
	header := map[string]string{}
	if last != "" {
		header["Last-Event-ID"] = last
	}
	answer, err := r.send(ctx, call{method: http.MethodGet, path: []string{"events"}, query: query, header: header}, nil)
	if err != nil {
		return last
	}
	defer answer.Body.Close()
	notify() // what happened before the stream began
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			last = rest
		}
		if strings.HasPrefix(line, "event: ") {
			notify()
		}
	}
	return last
}
