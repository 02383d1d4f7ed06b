// Package docs serves the page of the API at /docs: RapiDoc, which reads the OpenAPI
// document of this server. All its files are embedded; the page loads nothing else.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/server/route"
)

//go:embed static
var static embed.FS

// policy is that of the console, but RapiDoc styles its elements inline and makes its
// markup through one trusted-types policy, lit-html.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html"

// Routes are the page and its files, for those who may read the document.
func Routes() route.Table {
	return route.Table{Routes: []route.Route{
		{Method: http.MethodGet, Path: "/docs", Role: route.User, Handle: route.Raw(file("index.html", "text/html; charset=utf-8"))},
		{Method: http.MethodGet, Path: "/docs/rapidoc-min.js", Role: route.User, Handle: route.Raw(file("rapidoc-min.js.gz", "text/javascript; charset=utf-8"))},
		{Method: http.MethodGet, Path: "/docs/licenses.txt", Role: route.User, Handle: route.Raw(file("licenses.txt", "text/plain; charset=utf-8"))},
	}}
}

// file serves an embedded file; one that ends in .gz as it is, or unpacked for a client
// that does not take gzip.
func file(name, mediaType string) http.HandlerFunc {
	data, err := static.ReadFile("static/" + name)
	if err != nil {
		panic(err) // the embedded files are always readable
	}
	packed := strings.HasSuffix(name, ".gz")
	sum := sha256.Sum256(data)
	tag := hex.EncodeToString(sum[:8])
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", mediaType)
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("ETag", `"`+tag+`"`)
		var body io.Reader = bytes.NewReader(data)
		if packed {
			h.Set("Vary", "Accept-Encoding")
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				h.Set("Content-Encoding", "gzip")
			} else {
				unpacked, err := gzip.NewReader(body)
				if err != nil {
					route.WriteProblem(w, r, err)
					return
				}
				body = unpacked
				h.Set("ETag", `"`+tag+`-plain"`)
			}
		}
		_, _ = io.Copy(w, body) // the caller may have disconnected
	}
}
