package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
)

// DefaultListen is the default address of `pawl server`.
const DefaultListen = "127.0.0.1:7295"

// checkListen refuses options with which other machines could use the server without a token: LISTEN_UNSAFE.
func checkListen(o Options) error {
	if err := checkOptions(o); err != nil {
		return err
	}
	if some, _ := o.Tokens.Any(context.Background()); auth.IsLoopback(o.Listen) || some || o.Reviewer != nil {
		return nil
	}
	return route.ListenUnsafe.Errorf("it would listen on %s, which other machines reach, and has neither token nor account", o.Listen)
}

func checkOptions(o Options) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fault.ListenFailed.Errorf("listen address %q is not HOST:PORT: %w", o.Listen, err)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return route.Malformed.Errorf("TLS needs both a certificate and a key")
	}
	return nil
}

// Listen opens the listener of the options, with TLS if they have a certificate.
func (s *Server) Listen() (net.Listener, error) {
	o := s.options
	if o.Reviewer != nil && !s.loopback {
		some, err := o.Reviewer.Any(context.Background())
		if err != nil {
			return nil, err
		}
		if own, _ := o.Tokens.Any(context.Background()); !some && !own {
			return nil, route.ListenUnsafe.Errorf("it would listen on %s, which other machines reach, and has neither token nor account", o.Listen)
		}
	}
	ln, err := listen(o)
	if err == nil && o.CertFile == "" && !s.loopback {
		s.log.Warn("tokens cross the network in clear text: give the server a certificate with --tls-cert and --tls-key", "listen", ln.Addr().String())
	}
	return ln, err
}

func listen(o Options) (net.Listener, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, route.Malformed.Errorf("TLS: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fault.ListenFailed.Errorf("%w", err)
	}
	if o.CertFile != "" {
		return tls.NewListener(ln, config), nil
	}
	return ln, nil
}

// Serve answers on the listener until ctx ends. Then it ends the event streams and
// waits up to Options.Drain for open requests. It returns nil if all were answered.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(ln) }()
	select {
	case err := <-failed:
		s.EndStreams()
		return err
	case <-ctx.Done():
	}
	s.EndStreams()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Drain)
	defer cancel()
	err := h.Shutdown(deadline)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were still open after %s: %w", s.options.Drain, err), h.Close())
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// EndStreams ends all event streams, now and later. Their readers reconnect.
func (s *Server) EndStreams() { s.events.End() }
