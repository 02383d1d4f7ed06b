// Package console serves the web console: static files that use only the public API
// /v1. The Go code knows nothing of clusters, runs or objects.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy allows pages of the console to load only files of this server: no inline
// scripts, no other sites, no frames. Data becomes text nodes only: trusted types refuse
// markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

type file struct {
	name, kind, etag string
	data             []byte
}

// Handler serves the console: its page at / and its other files below. Pages within the
// console are URL fragments, which never reach the server.
func Handler() http.Handler {
	files, err := read(static)
	if err != nil {
		panic(err) // the embedded files are always readable
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		f, ok := files[r.URL.Path]
		switch {
		case !ok:
			http.Error(w, "There is nothing at this path. The console is at /.", http.StatusNotFound)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "This path takes GET.", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // the browser revalidates each time, and gets 304
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.data))
	})
}

func read(from fs.FS) (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		at := "/" + strings.TrimPrefix(name, "static/")
		if path.Base(name) == "index.html" {
			at = strings.TrimSuffix(at, "index.html")
		}
		files[at] = file{name: path.Base(name), kind: kindOf(name), etag: `"` + hex.EncodeToString(sum[:8]) + `"`, data: data}
		return nil
	})
	return files, err
}

// kindOf returns the media type of a file. The MIME tables of the machine are not reliable for scripts.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}
