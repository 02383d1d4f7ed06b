package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
)

// sidecar answers like packaging/docker/sidecar.py of foundationdb 7.3.69: a check_hash gets two answers, of which the
// second one is 404.
type sidecar struct {
	files  map[string]string
	values map[string]any
	mapped map[string]string // what copy_files will copy
	old    bool              // as before 7.1.4: no is_present
	posted []string
}

func (s *sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	connection, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	answer := func(code int, phrase, body string) {
		fmt.Fprintf(stream, "HTTP/1.0 %d %s\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n%s", code, phrase, len(body), body)
	}
	defer stream.Flush()
	notFound := func(phrase string) { answer(404, phrase, "<html>"+phrase+"</html>") }
	file, isHash := strings.CutPrefix(r.URL.Path, "/check_hash/")
	name, isPresent := strings.CutPrefix(r.URL.Path, "/is_present/")
	if !isHash {
		file = name
	}
	content, there := s.files[file]
	isPresent = isPresent && !s.old
	switch {
	case r.Method == http.MethodPost && (r.URL.Path == "/copy_files" || r.URL.Path == "/copy_monitor_conf"):
		s.posted = append(s.posted, r.URL.Path)
		maps.Copy(s.files, s.mapped)
		answer(200, "OK", "OK\n")
	case r.Method == http.MethodPost:
		notFound("Path not found")
	case isHash && there:
		sum := sha256.Sum256([]byte(content))
		answer(200, "OK", hex.EncodeToString(sum[:]))
		notFound("Path not found")
	case isHash:
		notFound(file + " not found")
		notFound("Path not found")
	case isPresent && there:
		answer(200, "OK", "OK\n")
	case isPresent:
		notFound(file + " not found")
	case r.URL.Path == "/substitutions":
		raw, err := json.Marshal(s.values)
		if err != nil {
			panic(err)
		}
		answer(200, "OK", string(raw)+"\n")
	default:
		notFound("Path not found")
	}
}

func podWith(ip string, arguments ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "blue-storage-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "foundationdb", Args: []string{"--tls"}}, {Name: sidecarContainer, Args: arguments}}},
		Status:     corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
}

// serve lets all pods be this server, and returns the addresses that were dialled.
func serve(t *testing.T, s *Sidecars, handler http.Handler) (server *httptest.Server, dialled func() []string) {
	t.Helper()
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	var mu sync.Mutex
	var all []string
	s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		all = append(all, address)
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return server, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestSidecarAnswers(t *testing.T) {
	fake := &sidecar{
		files:  map[string]string{"fdb.cluster": "a:b@10.0.0.1:4500", "bin/7.3.69/fdbserver": "binary"},
		values: map[string]any{"FDB_PUBLIC_IP": "10.0.0.1", "FDB_ZONE_ID": "", "NODE_LABEL": nil},
	}
	s := NewSidecars(SidecarOptions{})
	server, dialled := serve(t, s, fake)
	server.Start()
	pod := podWith("10.0.0.1")
	for range 2 { // a sidecar before 7.1.4 gives the same answers
		sum := sha256.Sum256([]byte("a:b@10.0.0.1:4500"))
		for file, want := range map[string]string{"fdb.cluster": hex.EncodeToString(sum[:]), "fdbmonitor.conf": ""} {
			if got, err := s.Hash(t.Context(), pod, file); err != nil || got != want {
				t.Errorf("the hash of %s is %q, %v", file, got, err)
			}
		}
		for file, want := range map[string]bool{"bin/7.3.69/fdbserver": true, "bin/7.4.6/fdbserver": false} {
			if got, err := s.Present(t.Context(), pod, file); err != nil || got != want {
				t.Errorf("%s present: %v, %v", file, got, err)
			}
		}
		fake.old = true
	}
	// A variable that the sidecar does not have is none.
	got, err := s.Substitutions(t.Context(), pod)
	if want := map[string]string{"FDB_PUBLIC_IP": "10.0.0.1", "FDB_ZONE_ID": ""}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the substitutions are %v, %v", got, err)
	}
	if err := s.Copy(t.Context(), pod); err != nil || !reflect.DeepEqual(fake.posted, []string{"/copy_files", "/copy_monitor_conf"}) {
		t.Errorf("copied by %v, %v", fake.posted, err)
	}
	for _, address := range dialled() {
		if address != "10.0.0.1:8080" {
			t.Errorf("dialled %s", address)
		}
	}
	for _, file := range []string{"", "/etc/passwd", "../x", "a/../../x", "a b", "a%2fb", "a?b"} {
		if _, err := s.Hash(t.Context(), pod, file); fault.Of(err) != controller.Refused {
			t.Errorf("file %q: %v", file, err)
		}
	}
}

func TestSidecarTrouble(t *testing.T) {
	text := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, body) }
	}
	for name, c := range map[string]struct {
		handler http.Handler
		ask     string
		want    string // a part of the message
	}{
		"no JSON":           {text(200, "<html>"), "substitutions", "are no JSON object"},
		"JSON null":         {text(200, "null"), "substitutions", "are no JSON object"},
		"no text values":    {text(200, `{"A":1}`), "substitutions", "are no JSON object"},
		"trouble":           {text(500, "{}"), "substitutions", "500 Internal Server Error"},
		"no approval":       {text(401, ""), "hash", "401 Unauthorized"},
		"no hash":           {text(200, "abc"), "hash", `is "abc"`},
		"a hash in capital": {text(200, strings.Repeat("A", 64)), "hash", "the hash of fdb.cluster"},
		"a redirect":        {http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound), "hash", "302 Found"},
		"a long answer":     {text(200, strings.Repeat("x", longestAnswer+1)), "hash", "more than 1048576 bytes"},
		"nothing to copy":   {text(500, ""), "copy", "POST http://10.0.0.1:8080/copy_files: 500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSidecars(SidecarOptions{})
			server, _ := serve(t, s, c.handler)
			server.Start()
			var err error
			switch c.ask {
			case "hash":
				_, err = s.Hash(t.Context(), podWith("10.0.0.1"), "fdb.cluster")
			case "copy":
				err = s.Copy(t.Context(), podWith("10.0.0.1"))
			default:
				_, err = s.Substitutions(t.Context(), podWith("10.0.0.1"))
			}
			if fault.Of(err) != SidecarUnreachable || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "n/blue-storage-1") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A sidecar that hangs costs one time-out; a caller that ends is not the sidecar's trouble.
func TestSidecarHangs(t *testing.T) {
	s := NewSidecars(SidecarOptions{GetTimeout: time.Millisecond, PostTimeout: time.Millisecond})
	server, _ := serve(t, s, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	server.Start()
	for what, ask := range map[string]func(context.Context) error{
		"GET":  func(ctx context.Context) error { _, err := s.Substitutions(ctx, podWith("10.0.0.1")); return err },
		"POST": func(ctx context.Context) error { return s.Copy(ctx, podWith("10.0.0.1")) },
	} {
		if err := ask(t.Context()); fault.Of(err) != SidecarUnreachable || !strings.Contains(err.Error(), "no answer within 1ms") {
			t.Errorf("%s: %v", what, err)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the pass ends"))
		if err := ask(ended); err == nil || err.Error() != "the pass ends" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A former leader does not write.
func TestSidecarFence(t *testing.T) {
	s := NewSidecars(SidecarOptions{Wrap: func(next http.RoundTripper) http.RoundTripper { return fenced{next} }})
	fake := &sidecar{values: map[string]any{}}
	server, _ := serve(t, s, fake)
	server.Start()
	if _, err := s.Substitutions(t.Context(), podWith("10.0.0.1")); err != nil {
		t.Error(err)
	}
	if err := s.Copy(t.Context(), podWith("10.0.0.1")); fault.Of(err) != controller.LeaderLost || len(fake.posted) > 0 {
		t.Errorf("%v was posted: %v", fake.posted, err)
	}
}

type fenced struct{ http.RoundTripper }

func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, controller.LeaderLost.Errorf("the lease is over")
	}
	return f.RoundTripper.RoundTrip(r)
}

func TestSidecarAddress(t *testing.T) {
	both := func(annotation string, arguments ...string) *corev1.Pod {
		pod := podWith("10.0.0.1", arguments...)
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
		if annotation != "" {
			pod.Annotations = map[string]string{familyAnnotation: annotation}
		}
		return pod
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // empty: an error
	}{
		"any family":             {both(""), "10.0.0.1:8080"},
		"family 0":               {both("0"), "10.0.0.1:8080"},
		"family 4":               {both("4"), "10.0.0.1:8080"},
		"family 6":               {both("6"), "[fd00::1]:8080"},
		"family by argument":     {both("", "--public-ip-family", "6"), "[fd00::1]:8080"},
		"family by one argument": {both("", "--public-ip-family=6"), "[fd00::1]:8080"},
		"only 6":                 {podWith("fd00::2"), "[fd00::2]:8080"},
		"not of the family":      {podWith("10.0.0.1", "--public-ip-family", "6"), ""},
		"no address yet":         {podWith(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSidecars(SidecarOptions{})
			server, dialled := serve(t, s, &sidecar{values: map[string]any{}})
			server.Start()
			_, err := s.Substitutions(t.Context(), c.pod)
			if c.want == "" {
				if fault.Of(err) != SidecarUnreachable || len(dialled()) > 0 {
					t.Errorf("dialled %v: %v", dialled(), err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(dialled(), []string{c.want}) {
				t.Errorf("dialled %v: %v", dialled(), err)
			}
		})
	}
}

// With TLS both sides show a certificate of one authority. New files are used as soon as they belong together.
func TestSidecarTLS(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "new")
	files := TLSFiles{Certificate: t.TempDir() + "/tls.crt", Key: t.TempDir() + "/tls.key", CA: t.TempDir() + "/ca.crt"}
	s := NewSidecars(SidecarOptions{TLS: files})
	server, _ := serve(t, s, &sidecar{values: map[string]any{}})
	server.TLS = old.server(t, "fdb.example.com")
	server.StartTLS()
	pod := podWith("10.0.0.1", "--tls")
	ask := func() error { _, err := s.Substitutions(t.Context(), pod); return err }

	if err := ask(); fault.Of(err) != CertificateMissing {
		t.Errorf("without files: %v", err)
	}
	version := time.Now()
	write := func(file string, content []byte) {
		t.Helper()
		version = version.Add(time.Second)
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.Chtimes(file, version, version)); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key := old.sign(t, "operator")
	write(files.Certificate, certificate)
	write(files.Key, key)
	write(files.CA, old.pem)
	if err := ask(); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	// A pod whose sidecar is without TLS is asked without it, and this server does not understand that.
	if _, err := s.Substitutions(t.Context(), podWith("10.0.0.1")); fault.Of(err) != SidecarUnreachable {
		t.Errorf("without TLS: %v", err)
	}

	certificate, key = next.sign(t, "operator")
	write(files.Certificate, certificate) // the key is still the old one
	if err := ask(); err != nil {
		t.Errorf("in the middle of a change: %v", err)
	}
	write(files.Key, key)
	if err := ask(); err == nil {
		t.Error("the server accepts a certificate of another authority")
	}
	write(files.CA, next.pem)
	if err := ask(); fault.Of(err) != SidecarUnreachable || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of the old authority: %v", err)
	}
	second, _ := serve(t, s, &sidecar{values: map[string]any{}})
	second.TLS = next.server(t, "fdb.example.com")
	second.StartTLS()
	if err := ask(); err != nil {
		t.Errorf("a server of the new authority: %v", err)
	}

	for rules, accepted := range map[string]bool{"S.CN=fdb.example.com": true, "S.CN=other": false, "Check.Valid=0": true, "CN": false} {
		strict := NewSidecars(SidecarOptions{TLS: TLSFiles{files.Certificate, files.Key, files.CA, rules}})
		strict.dial = s.dial
		_, err := strict.Substitutions(t.Context(), pod)
		if (err == nil) != accepted {
			t.Errorf("rules %s: %v", rules, err)
		}
	}
}
