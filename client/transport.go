package client

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// HandlerTransport sends requests to a handler of this process instead of a connection:
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1", HTTP: &http.Client{Transport: client.HandlerTransport(srv)}})
//
// To the handler they come from loopback. The answer is passed on while the handler writes
// it, so that event streams work; closing its body ends the request.
func HandlerTransport(h http.Handler) http.RoundTripper { return handlerTransport{h} }

type handlerTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.RemoteAddr, in.RequestURI, in.Host = "127.0.0.1:0", req.URL.RequestURI(), req.URL.Host
	in.URL.Scheme, in.URL.Host = "", ""
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: writer, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer func() {
			p := recover()
			w.WriteHeader(http.StatusOK)
			if p != nil { // as a connection: the answer breaks off, and the process goes on
				_ = writer.CloseWithError(io.ErrUnexpectedEOF) // it never fails
				return
			}
			_ = writer.Close() // it never fails
		}()
		t.handler.ServeHTTP(w, in)
	}()
	select {
	case <-w.begun:
	case <-req.Context().Done():
	}
	if err := req.Context().Err(); err != nil { // also when the handler has ended because of it
		cancel()
		_ = body.Close() // it never fails
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &pipeBody{body, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// pipeWriter is the http.ResponseWriter of one request.
type pipeWriter struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	once         sync.Once
	begun        chan struct{} // closed when status and header are known
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(data)
}

// Flush implements http.Flusher: nothing is held back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// pipeBody is the body of an answer; closing it ends the request.
type pipeBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *pipeBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
