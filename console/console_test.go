package console

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
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

// folder returns the folder of the files, from the page that names it.
func folder(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`<script type="module" src="(/static/[0-9a-f]{16})/app\.js">`).FindStringSubmatch(request(t, "GET", "/").Body.String())
	if found == nil {
		t.Fatal("the page does not name its folder")
	}
	return found[1]
}

func TestHandler(t *testing.T) {
	in := folder(t)
	for _, c := range []struct {
		method, at, kind, cache string
		status                  int
	}{
		{"GET", "/", "text/html; charset=utf-8", "no-cache", 200},
		{"HEAD", "/", "text/html; charset=utf-8", "no-cache", 200},
		{"GET", in + "/app.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"GET", in + "/style.css", "text/css; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"GET", in + "/vendor/preact.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"GET", in + "/vendor/preact.license.txt", "text/plain; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"GET", in + "/icon.svg", "image/svg+xml", "public, max-age=31536000, immutable", 200},
		{"GET", in + "/index.html", "text/plain; charset=utf-8", "", 404},
		{"GET", "/static/0000000000000000/app.js", "text/plain; charset=utf-8", "", 404},
		{"GET", "/app.js", "text/plain; charset=utf-8", "", 404},
		{"GET", "/../console.go", "text/plain; charset=utf-8", "", 404},
		{"POST", "/", "text/plain; charset=utf-8", "", 405},
	} {
		got := request(t, c.method, c.at)
		if got.Code != c.status || got.Header().Get("Content-Type") != c.kind || got.Header().Get("Cache-Control") != c.cache {
			t.Errorf("%s %s: %d as %s, %s", c.method, c.at, got.Code, got.Header().Get("Content-Type"), got.Header().Get("Cache-Control"))
		}
		if c.status == 200 && (got.Header().Get("Content-Security-Policy") != policy || got.Header().Get("ETag") == "") {
			t.Errorf("%s %s: %v", c.method, c.at, got.Header())
		}
	}
	etag := request(t, "GET", "/").Header().Get("ETag")
	if got := request(t, "GET", "/", "If-None-Match", etag); got.Code != http.StatusNotModified {
		t.Errorf("what the browser has is sent again: %d", got.Code)
	}
}

// A client that takes gzip gets each file packed, with an ETag of its own; others get it as it is.
func TestFilesArePacked(t *testing.T) {
	at := folder(t) + "/style.css"
	plain, packed := request(t, "GET", at), request(t, "GET", at, "Accept-Encoding", "gzip, br")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("Vary") != "Accept-Encoding" {
		t.Fatal(plain.Header(), packed.Header())
	}
	if plain.Header().Get("ETag") == packed.Header().Get("ETag") {
		t.Error("two forms of a file have one ETag")
	}
	length := packed.Body.Len()
	unpacked, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil || string(text) != plain.Body.String() {
		t.Error("unpacked it is another file", err)
	}
	if length*2 > len(text) {
		t.Errorf("%d of %d bytes are sent", length, len(text))
	}
	for _, header := range []string{"", "identity"} {
		if got := request(t, "HEAD", at, "Accept-Encoding", header); got.Header().Get("Content-Encoding") != "" {
			t.Errorf("Accept-Encoding %q is answered with gzip", header)
		}
	}
}

// The folder is another one as soon as one byte of one file is another one.
func TestFolderIsNamedAfterContent(t *testing.T) {
	of := func(style string) string {
		files, err := read(fstest.MapFS{
			"static/index.html": {Data: []byte(`<link href="/style.css">`)},
			"static/style.css":  {Data: []byte(style)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(files["/"].data)
	}
	a, again, b := of("a"), of("a"), of("b")
	if a != again || a == b || !strings.HasSuffix(a, `/style.css">`) {
		t.Error(a, again, b)
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
	for _, needed := range []string{"package.json", "node_modules"} {
		if _, err := os.Stat(needed); err == nil {
			t.Errorf("%s: the console has no build", needed)
		}
	}
}

var imports = regexp.MustCompile(`from '\./([^']+)\.js'`)

// importsOf adds to found the modules that a module imports, and those that these import.
func importsOf(t *testing.T, module string, found map[string]bool) map[string]bool {
	t.Helper()
	data, err := fs.ReadFile(static, "static/"+module+".js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range imports.FindAllStringSubmatch(string(data), -1) {
		if !found[m[1]] {
			found[m[1]] = true
			importsOf(t, m[1], found)
		}
	}
	return found
}

// The browser asks at once for all that the opened page needs, and for nothing else: index.html preloads what app.js and every
// list with live events need; opening.js names the rest for each page.
func TestPagesNameTheirModules(t *testing.T) {
	page, err := fs.ReadFile(static, "static/index.html")
	if err != nil {
		t.Fatal(err)
	}
	opening, err := fs.ReadFile(static, "static/opening.js")
	if err != nil {
		t.Fatal(err)
	}
	app, err := fs.ReadFile(static, "static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	preloaded, used := map[string]bool{}, importsOf(t, "app", map[string]bool{})
	for _, m := range regexp.MustCompile(`<link rel="modulepreload" href="/([^"]+)\.js">`).FindAllStringSubmatch(string(page), -1) {
		preloaded[m[1]] = true
	}
	preloaded["opening"] = strings.Contains(string(page), `<script type="module" async src="/opening.js">`)
	for module := range used {
		if !preloaded[module] {
			t.Errorf("index.html does not preload %s, which app.js imports", module)
		}
	}
	used["live"] = true
	for module := range preloaded {
		if !used[module] {
			t.Errorf("index.html preloads %s, which only some pages need", module)
		}
	}

	_, table, _ := strings.Cut(string(opening), "const modules = {\n")
	table, _, _ = strings.Cut(table, "\n};")
	named := map[string][]string{}
	for _, line := range strings.Split(table, "\n") {
		m := regexp.MustCompile(`^  ([a-z]+): \[(.*)\],$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("opening.js has the row %q", line)
		}
		named[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune("', ", r) })
	}
	for _, m := range regexp.MustCompile(`\['([a-z]+)', '[a-z]+Page'\]|load\('([a-z]+)'\)`).FindAllStringSubmatch(string(opening)+string(app), -1) {
		if _, ok := named[m[1]+m[2]]; !ok {
			t.Errorf("the console loads %s, and does not say which modules it imports", m[1]+m[2])
		}
	}
	for module, list := range named {
		var needed []string
		for m := range importsOf(t, module, map[string]bool{}) {
			if !preloaded[m] {
				needed = append(needed, m)
			}
		}
		slices.Sort(needed)
		if !slices.Equal(needed, list) {
			t.Errorf("opening.js: %s names %q; it imports %q", module, list, needed)
		}
		for _, m := range append(list, module) {
			used[m] = true
		}
	}
	all, err := fs.Glob(static, "static/*.js")
	libraries, failed := fs.Glob(static, "static/vendor/*.js")
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for _, name := range append(all, libraries...) {
		if module := strings.TrimSuffix(strings.TrimPrefix(name, "static/"), ".js"); module != "app" && !used[module] {
			t.Errorf("no page needs %s", name)
		}
	}
}
