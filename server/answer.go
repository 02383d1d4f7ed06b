package server

import (
	"net/http"
	"strings"
)

// responseWriter is the http.ResponseWriter of every request. It counts bytes, and it
// turns the answer to a conditional GET into 304 if the caller has that version.
type responseWriter struct {
	http.ResponseWriter
	request  *http.Request
	status   int
	bytes    int64
	omitBody bool // the body is not sent
}

// Unwrap lets http.ResponseController reach the connection.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *responseWriter) wrote() bool { return a.status != 0 }

func (a *responseWriter) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// WriteHeader sends the status. Further calls do nothing.
func (a *responseWriter) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	h := a.Header()
	if status == http.StatusOK && (a.request.Method == http.MethodGet || a.request.Method == http.MethodHead) &&
		matches(a.request.Header.Get("If-None-Match"), h.Get("ETag")) {
		status, a.omitBody = http.StatusNotModified, true
		h.Del("Content-Type")
		h.Del("Content-Length")
	}
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *responseWriter) Write(data []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.omitBody {
		return len(data), nil
	}
	n, err := a.ResponseWriter.Write(data)
	a.bytes += int64(n)
	return n, err
}

func (a *responseWriter) finish() {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
}

// matches reports whether an If-None-Match or If-Match names the ETag. Weak tags compare as strong ones.
func matches(header, etag string) bool {
	if header == "" || etag == "" {
		return false
	}
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}
