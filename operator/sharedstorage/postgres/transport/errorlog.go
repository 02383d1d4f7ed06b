package transport

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	sayAgainAfter = 10 * time.Minute
	maxCauses     = 32 // further ones are told as one
)

// ErrorLog returns the ErrorLog of an http.Server: what it writes goes to log. A cause of failed handshakes, which whoever
// scans ports can bring about, is told once in ten minutes, with how often it came in between.
func ErrorLog(to *slog.Logger) *log.Logger {
	return log.New(&errorLog{log: to, causes: map[string]*cause{}}, "", 0)
}

type errorLog struct {
	log *slog.Logger

	mu     sync.Mutex
	causes map[string]*cause
}

type cause struct {
	said     time.Time
	repeated int // since then
}

// Write implements io.Writer.
func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	rest, ok := strings.CutPrefix(text, "http: TLS handshake error from ")
	remote, why, found := strings.Cut(rest, ": ")
	if !ok || !found {
		e.log.Error("serving HTTP", "error", text)
		return len(line), nil
	}
	if repeated, say := e.say(why); say {
		e.log.Warn("a TLS handshake failed", "error", why, "remote", remote, "repeated", repeated)
	}
	return len(line), nil
}

// say reports whether a cause is to be told now, and how often it came since it was last told.
func (e *errorLog) say(why string) (repeated int, say bool) {
	// "read tcp 10.0.0.1:7298->10.0.0.2:40012: …": the addresses are not the cause.
	if strings.HasPrefix(why, "read tcp ") || strings.HasPrefix(why, "write tcp ") {
		if n := strings.Index(why, ": "); n >= 0 {
			why = why[n:]
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.causes[why]
	if c == nil && len(e.causes) >= maxCauses {
		why = "others"
		c = e.causes[why]
	}
	if c == nil {
		c = &cause{}
		e.causes[why] = c
	}
	if now := time.Now(); c.said.IsZero() || now.Sub(c.said) >= sayAgainAfter {
		repeated, c.repeated, c.said = c.repeated, 0, now
		return repeated, true
	}
	c.repeated++
	return 0, false
}
