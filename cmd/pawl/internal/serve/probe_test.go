package serve

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
)

// An endpoint answers if it proves with the cluster's own CA who it is, and
// says anything but that it is broken.
func TestProbe(t *testing.T) {
	status, path := http.StatusOK, ""
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if status == http.StatusFound {
			w.Header().Set("Location", "http://127.0.0.1:1/")
		}
		w.WriteHeader(status)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are the point
	s.StartTLS()
	defer s.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()

	tests := []struct {
		name, endpoint, ca string
		status             int
		says               string // empty: it answers
	}{
		{"it answers", s.URL, ca, 200, ""},
		{"a slash at the end", s.URL + "/", ca, 200, ""},
		{"it asks who we are", s.URL, ca, 401, ""},
		{"it sends us elsewhere, where nobody goes", s.URL, ca, 302, ""},
		{"it is broken", s.URL, ca, 503, "503"},
		{"nobody knows its CA", s.URL, "", 200, "certificate"},
		{"the CA is none", s.URL, "nonsense", 200, "no certificate"},
		{"not over TLS", "http" + strings.TrimPrefix(s.URL, "https"), ca, 200, "https only"},
		{"nobody is there", "https://127.0.0.1:1", ca, 200, "refused"},
		{"it is no URL", "https://\x00", ca, 200, "invalid"},
	}
	p := &parts{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, path = test.status, ""
			err := p.probe(t.Context(), &cluster.Cluster{Endpoint: test.endpoint, Provider: "local"}, &cluster.Details{CACert: test.ca})
			switch {
			case test.says == "" && (err != nil || path != "/version"):
				t.Errorf("%v, asked for %q", err, path)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("%v, not %q", err, test.says)
			}
		})
	}
}
