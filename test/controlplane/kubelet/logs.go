package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// logOptions are those of a request for a log.
type logOptions struct {
	follow, previous bool
	tail, limit      int64 // negative: no limit
}

func parseLogOptions(query url.Values) (logOptions, error) {
	o := logOptions{follow: query.Get("follow") == "true", previous: query.Get("previous") == "true", tail: -1, limit: -1}
	for name, value := range map[string]*int64{"tailLines": &o.tail, "limitBytes": &o.limit} {
		if text := query.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				return o, fmt.Errorf("%s is %q", name, text)
			}
			*value = n
		}
	}
	if query.Get("timestamps") == "true" || query.Has("sinceSeconds") || query.Has("sinceTime") {
		return o, fmt.Errorf("the fake kubelet keeps no times of lines: timestamps and since do not work")
	}
	if stream := query.Get("stream"); stream != "" && stream != "All" {
		return o, fmt.Errorf("the fake kubelet keeps one log for all streams")
	}
	return o, nil
}

// logOf returns the path of the log that a request means.
func (c *container) logOf(previous bool) (string, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	pod, state, ended := c.w.name.Name, c.status.State, c.status.LastTerminationState.Terminated != nil
	switch {
	case previous && !ended:
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", c.spec.Name, pod)
	case previous || state.Waiting != nil && ended:
		return c.w.logFile(c.spec.Name, c.status.RestartCount-1), nil
	case state.Waiting != nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", c.spec.Name, pod, state.Waiting.Reason)
	}
	return c.w.logFile(c.spec.Name, c.status.RestartCount), nil
}

// writes reports whether the container's process still writes to a log.
func (c *container) writes(log string) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.now != nil && c.now.log == log
}

func (k *Kubelet) serveLogs(rw http.ResponseWriter, r *http.Request, w *worker, c *container) {
	o, err := parseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	path, err := c.logOf(o.previous)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	file, err := os.Open(path)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	rw.Header().Set("Content-Type", "text/plain")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	if err := o.copy(ctx, rw, file, func() bool { return o.follow && c.writes(path) && k.reachable(w.node) }); err != nil && ctx.Err() == nil {
		k.o.Log("kubelet: log of %s/%s: %v", w.name, c.spec.Name, err)
	}
}

// copy copies a log, and what is written to it while grows is true.
func (o logOptions) copy(ctx context.Context, rw http.ResponseWriter, file io.Reader, grows func() bool) error {
	left := o.limit
	for first := true; ; first = false {
		again := grows() // before the read: what was written until the end is read
		text, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		if first && o.tail >= 0 {
			text = lastLines(text, o.tail)
		}
		if o.limit >= 0 {
			text = text[:min(int64(len(text)), left)]
			left -= int64(len(text))
		}
		if _, err := rw.Write(text); err != nil {
			return err
		}
		if !again || o.limit >= 0 && left == 0 {
			return nil
		}
		if err := http.NewResponseController(rw).Flush(); err != nil {
			return err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int64) []byte {
	at := len(text)
	if n == 0 {
		return nil
	}
	for end := len(bytes.TrimSuffix(text, []byte("\n"))); n > 0; n-- {
		at = bytes.LastIndexByte(text[:end], '\n') + 1
		if end = at - 1; at == 0 {
			break
		}
	}
	return text[at:]
}
