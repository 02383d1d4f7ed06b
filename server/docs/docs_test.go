package docs_test

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Hosts that RapiDoc names and never asks: its own fonts (load-fonts is false), and what
// is named in comments, examples and identifiers of schemas. The policy would refuse them too.
var named = []string{"fonts.gstatic.com", "swagger.io", "localhost", "vladimirgorej.com", "spec.openapis.org", "marked.js.org", "github.com", "example.com"}

// The page and the files that it loads come from this server, and no policy allows another.
func TestPageLoadsNothingElse(t *testing.T) {
	h := servertest.New(t, nil)
	foreign := regexp.MustCompile(`(?:https?:|["'(=])//([a-zA-Z0-9.-]+\.[a-z]{2,}|localhost)`)
	page := h.Do("GET", "/docs", nil)
	if page.Status != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", page.Status, page.Body)
	}
	if found := foreign.FindAllString(string(page.Body), -1); len(found) > 0 {
		t.Errorf("the page names %v", found)
	}
	policy := page.Header.Get("Content-Security-Policy")
	for part := range strings.SplitSeq(policy, "; ") {
		kind, sources, _ := strings.Cut(part, " ")
		for _, source := range strings.Fields(sources) {
			if strings.HasSuffix(kind, "-src") && !slices.Contains([]string{"'none'", "'self'", "data:", "'unsafe-inline'"}, source) ||
				source == "'unsafe-inline'" && kind != "style-src" {
				t.Errorf("the policy allows %s %s", kind, source)
			}
		}
	}
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
		t.Errorf("policy %q", policy)
	}
	links := regexp.MustCompile(`(?:src|href|spec-url)="([^"]*)"`).FindAllStringSubmatch(string(page.Body), -1)
	if len(links) != 2 {
		t.Fatalf("the page loads %v", links)
	}
	for _, link := range links {
		got := h.Do("GET", link[1], nil)
		if got.Status != http.StatusOK || len(got.Body) == 0 {
			t.Errorf("%s: %d", link[1], got.Status)
		}
		for _, host := range foreign.FindAllStringSubmatch(string(got.Body), -1) {
			if !slices.Contains(named, host[1]) {
				t.Errorf("%s names %s", link[1], host[0])
			}
		}
	}
	if !strings.Contains(string(page.Body), `load-fonts="false"`) {
		t.Error("the page loads the fonts of another site")
	}
	if got := h.Do("GET", "/docs/licenses.txt", nil); !strings.Contains(string(got.Body), "Mrinmoy Majumdar") {
		t.Errorf("licences: %d", got.Status)
	}
}

// The page is for those who may read the document.
func TestPageIsAsOpenAsTheDocument(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.Tokens = servertest.Tokens(t, servertest.Secret) })
	for _, path := range []string{"/v1/openapi.json", "/docs", "/docs/rapidoc-min.js", "/docs/licenses.txt"} {
		if got := h.Do("GET", path, nil); got.Status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, got.Status)
		}
		if got := h.Do("GET", path, nil, "Authorization", "Bearer "+servertest.Secret); got.Status != http.StatusOK {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
}

// The same script, packed or not, and not again for who has it.
func TestScriptIsPacked(t *testing.T) {
	h := servertest.New(t, nil)
	plain := h.Do("GET", "/docs/rapidoc-min.js", nil, "Accept-Encoding", "identity")
	r, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/docs/rapidoc-min.js", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r) // unpacks
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	unpacked, err := io.ReadAll(answer.Body)
	if err != nil || !answer.Uncompressed || string(unpacked) != string(plain.Body) || len(unpacked) < 500_000 {
		t.Errorf("%d bytes, %d packed, %v", len(plain.Body), len(unpacked), err)
	}
	if again := h.Do("GET", "/docs/rapidoc-min.js", nil, "Accept-Encoding", "identity", "If-None-Match", plain.Header.Get("ETag")); again.Status != http.StatusNotModified || len(again.Body) != 0 {
		t.Errorf("again: %d, %d bytes", again.Status, len(again.Body))
	}
	if head := h.Do("POST", "/docs", nil); head.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", head.Status)
	}
}
