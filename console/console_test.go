package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func request(t *testing.T, method, at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+at, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	for _, c := range []struct {
		method, at, kind string
		status           int
	}{
		{"GET", "/", "text/html; charset=utf-8", 200},
		{"HEAD", "/", "text/html; charset=utf-8", 200},
		{"GET", "/app.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/style.css", "text/css; charset=utf-8", 200},
		{"GET", "/vendor/preact.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/vendor/preact.license.txt", "text/plain; charset=utf-8", 200},
		{"GET", "/icon.svg", "image/svg+xml", 200},
		{"GET", "/index.html", "text/plain; charset=utf-8", 404},
		{"GET", "/static/app.js", "text/plain; charset=utf-8", 404},
		{"GET", "/../console.go", "text/plain; charset=utf-8", 404},
		{"POST", "/", "text/plain; charset=utf-8", 405},
	} {
		got := request(t, c.method, c.at)
		if got.Code != c.status || got.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s %s: %d as %s", c.method, c.at, got.Code, got.Header().Get("Content-Type"))
		}
		if c.status == 200 && (got.Header().Get("Content-Security-Policy") != policy || got.Header().Get("ETag") == "") {
			t.Errorf("%s %s: %v", c.method, c.at, got.Header())
		}
	}
	etag := request(t, "GET", "/app.js").Header().Get("ETag")
	if got := request(t, "GET", "/app.js", "If-None-Match", etag); got.Code != http.StatusNotModified {
		t.Errorf("what the browser has is sent again: %d", got.Code)
	}
}

// The libraries are what their authors publish: nobody has edited them, and an update is seen.
func TestLibrariesAreAsPublished(t *testing.T) {
	sums := map[string]string{
		"preact.js": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
		"dagre.js":  "b0ddaf4af1417bec9bd89373a3a3987f081727d6cc6d95fc40dbf85a19bdf3b0",
		"htm.js":    "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
	}
	scripts, err := fs.Glob(static, "static/vendor/*.js")
	if err != nil || len(scripts) != len(sums) {
		t.Fatal(scripts, err)
	}
	for _, name := range scripts {
		data, err := fs.ReadFile(static, name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != sums[path.Base(name)] {
			t.Errorf("%s has the sum %x", name, sum)
		}
		if regexp.MustCompile(`\bimport\b`).Match(data) {
			t.Errorf("%s imports another module", name)
		}
		license := strings.TrimSuffix(name, ".js") + ".license.txt"
		if _, err := fs.Stat(static, license); err != nil {
			t.Errorf("%s has no licence: %v", name, err)
		}
	}
}

// The policy allows nothing inline, no other site, and no text as markup.
func TestPolicyIsStrict(t *testing.T) {
	for _, hole := range []string{"unsafe", "*", "http:", "https:", "data:", "blob:"} {
		if strings.Contains(policy, hole) {
			t.Errorf("the policy allows %s", hole)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") {
		t.Error("what the policy does not name is allowed")
	}
}

// The files need nothing that the policy refuses, no other server, and no build. All imported files exist.
func TestFilesAreWhole(t *testing.T) {
	imported := regexp.MustCompile(`from '([^']+)'`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\bstyle=|<script>|\son\w+="`)
	site := regexp.MustCompile(`https?://[^\s'"]+`)
	names, err := fs.Glob(static, "static/*.*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(static, name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if n := strings.Count(text, "\n"); n >= 500 {
			t.Errorf("%s has %d lines", name, n)
		}
		for _, m := range imported.FindAllStringSubmatch(text, -1) {
			if _, err := fs.Stat(static, path.Join("static", m[1])); err != nil || !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s imports %s", name, m[1])
			}
		}
		if found := markup.FindString(text); found != "" {
			t.Errorf("%s has %q, which the policy refuses", name, found)
		}
		for _, found := range site.FindAllString(text, -1) {
			if found != "http://www.w3.org/2000/svg" {
				t.Errorf("%s names another site: %s", name, found)
			}
		}
	}
	// The page names all modules, so that the browser loads them at once instead of one import after the other.
	page, err := fs.ReadFile(static, "static/index.html")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := fs.Glob(static, "static/*.js")
	libraries, failed := fs.Glob(static, "static/vendor/*.js")
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for _, name := range append(modules, libraries...) {
		if at := strings.TrimPrefix(name, "static"); at != "/app.js" && !strings.Contains(string(page), `<link rel="modulepreload" href="`+at+`">`) {
			t.Errorf("index.html does not preload %s", at)
		}
	}
	for _, named := range regexp.MustCompile(`href="/([^"]+\.js)"`).FindAllStringSubmatch(string(page), -1) {
		if _, err := fs.Stat(static, path.Join("static", named[1])); err != nil {
			t.Errorf("index.html preloads %s, which is not there", named[1])
		}
	}
	for _, needed := range []string{"package.json", "node_modules"} {
		if _, err := os.Stat(needed); err == nil {
			t.Errorf("%s: the console has no build", needed)
		}
	}
}
