package program

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sidecarServer answers the HTTP requests of the operator. Source: packaging/docker/sidecar.py at 7.1.67, 7.3.69 and
// 7.4.6, SidecarHandler. In the older ones a second answer follows that to check_hash; no client reads it, and it is
// not played. restart answers and ends nothing, since there it ends the thread of the request only.
type sidecarServer struct {
	c *sidecar

	mu          sync.Mutex
	certificate *tls.Certificate
}

// certificatePause is how long the sidecar waits after a certificate has changed before it reads it.
const certificatePause = 10 * time.Second

func (c *sidecar) serve(ctx context.Context) int {
	s := &sidecarServer{c: c}
	listener, err := net.Listen("tcp", c.bind)
	if err != nil {
		c.errorf("%v\n", err)
		return exitError
	}
	ctx, cancel := context.WithCancel(ctx)
	var gone sync.WaitGroup
	defer gone.Wait()
	defer cancel()
	if c.tls {
		config, err := s.tlsConfig()
		if err != nil {
			listener.Close()
			c.errorf("%v\n", err)
			return exitError
		}
		listener = tls.NewListener(listener, config)
		gone.Go(func() { s.refresh(ctx) })
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	signals, stop := c.signals(syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	gone.Go(func() {
		select {
		case <-ctx.Done():
		case <-signals:
		}
		server.Close()
	})
	c.errorf("INFO Listening on %s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		c.errorf("%v\n", err)
		return exitError
	}
	return exitSuccess
}

// tlsConfig takes connections without a certificate too: only then the request is refused.
func (s *sidecarServer) tlsConfig() (*tls.Config, error) {
	if err := s.loadCertificate(); err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(s.c.path(s.c.authority))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", s.c.authority)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.certificate, nil
		},
	}, nil
}

func (s *sidecarServer) loadCertificate() error {
	pair, err := tls.LoadX509KeyPair(s.c.path(s.c.certificate), s.c.path(s.c.key))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificate = &pair
	return nil
}

// refresh reads certificates again when their files change.
func (s *sidecarServer) refresh(ctx context.Context) {
	changed := watch(ctx, s.c.path(s.c.certificate), s.c.path(s.c.key))
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			pause(ctx, certificatePause)
			if err := s.loadCertificate(); err != nil {
				s.c.errorf("ERROR %v\n", err)
			}
		}
	}
}

// ServeHTTP answers a request.
func (s *sidecarServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path != "/ready" && s.c.tls {
		approved, err := approves(r.TLS, s.c.rules)
		switch {
		case err != nil:
			s.fail(w, http.StatusInternalServerError, "Internal Server Error")
			return
		case !approved:
			s.fail(w, http.StatusUnauthorized, "Client certificate was not approved")
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		s.get(w, path)
	case http.MethodPost:
		s.post(w, path)
	default:
		s.fail(w, http.StatusNotImplemented, fmt.Sprintf("Unsupported method ('%s')", r.Method))
	}
}

func (s *sidecarServer) get(w http.ResponseWriter, path string) {
	hash, hashed := strings.CutPrefix(path, "/check_hash/")
	present, asked := strings.CutPrefix(path, "/is_present/")
	switch {
	case hashed:
		file, ok := s.file(w, hash)
		if !ok {
			return
		}
		content, err := os.ReadFile(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			s.fail(w, http.StatusNotFound, hash+" not found")
		case err != nil:
			s.fail(w, http.StatusInternalServerError, "Internal Server Error")
		default:
			sum := sha256.Sum256(content)
			s.answer(w, hex.EncodeToString(sum[:]))
		}
	case asked:
		file, ok := s.file(w, present)
		switch {
		case !ok:
		case exists(file):
			s.answer(w, "OK\n")
		default:
			s.fail(w, http.StatusNotFound, present+" not found")
		}
	case path == "/ready":
		s.answer(w, "OK\n")
	case path == "/substitutions":
		s.answer(w, s.c.json()+"\n")
	case s.c.Version.Short() >= "7.4":
		s.fail(w, http.StatusNotFound, "Path "+path+" not found")
	default:
		s.fail(w, http.StatusNotFound, "Path not found")
	}
}

// file is a file of the output folder. From 7.4 on others are refused.
func (s *sidecarServer) file(w http.ResponseWriter, name string) (string, bool) {
	base := s.c.path(s.c.output)
	file := filepath.Join(base, filepath.FromSlash(name))
	if s.c.Version.Short() >= "7.4" && !strings.HasPrefix(file, filepath.Clean(base)) {
		s.fail(w, http.StatusForbidden, fmt.Sprintf("path %s is outside of the allowed directory %s and therefore denied", file, base))
		return "", false
	}
	return file, true
}

func (s *sidecarServer) post(w http.ResponseWriter, path string) {
	do := map[string]func() error{
		"/copy_files": s.c.copyFiles, "/copy_binaries": s.c.copyBinaries, "/copy_libraries": s.c.copyLibraries,
		"/copy_monitor_conf": s.c.fillConf,
		"/refresh_certs": func() error {
			if !s.c.tls {
				return errNoTLS
			}
			return s.loadCertificate()
		},
		"/restart": func() error { return nil },
	}[path]
	if do == nil {
		s.fail(w, http.StatusNotFound, "Path not found")
		return
	}
	err, empty := do(), noContents("")
	switch {
	case errors.Is(err, errNoTLS):
		s.fail(w, http.StatusBadRequest, "Server is not using TLS")
	case errors.As(err, &empty) && s.c.Version.Short() >= "7.4":
		s.fail(w, http.StatusBadRequest, empty.Error())
	case err != nil:
		s.c.errorf("ERROR Error processing request %v\n", err)
		s.fail(w, http.StatusInternalServerError, "Internal Server Error")
	default:
		s.answer(w, "OK\n")
	}
}

var errNoTLS = errors.New("the sidecar does not use TLS")

func (s *sidecarServer) answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write([]byte(text)) // the client has gone
}

func (s *sidecarServer) fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "text/html;charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintf(w, "<!DOCTYPE HTML>\n<html lang=\"en\">\n<p>Error code: %d</p>\n<p>Message: %s.</p>\n</html>\n", code, html.EscapeString(message))
}

// json prints the substitutions as json.dumps does.
func (c *sidecar) json() string {
	var parts []string
	for _, name := range c.names {
		key, err1 := json.Marshal(name)
		value, err2 := json.Marshal(c.substitutions[name])
		if err1 == nil && err2 == nil {
			parts = append(parts, string(key)+": "+string(value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
