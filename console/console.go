// Package console serves the web console: static files that use only the public API
// /v1. The Go code knows nothing of clusters, runs or objects.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
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

// file is a static file of the console. packed is its data after gzip; nil if that saves nothing.
type file struct {
	name, kind, etag string
	data, packed     []byte
}

// Handler serves the console: its page at /, which the browser revalidates, and its other files below a folder that is named
// after their content, which the browser keeps. Pages within the console are URL fragments, which never reach the server.
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
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		if r.URL.Path == "/" {
			h.Set("Cache-Control", "no-cache") // the browser revalidates each time, and gets 304
		}
		h.Set("Content-Type", f.kind)
		h.Set("Vary", "Accept-Encoding")
		data, etag := f.data, f.etag
		if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			data, etag = f.packed, f.etag+"-gzip"
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("ETag", `"`+etag+`"`)
		http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(data))
	})
}

// read returns the files by their paths on the server.
func read(from fs.FS) (map[string]file, error) {
	contents := map[string][]byte{}
	all := sha256.New()
	err := fs.WalkDir(from, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		contents[strings.TrimPrefix(name, "static")] = data
		fmt.Fprintf(all, "%s %d\n%s", name, len(data), data)
		return err
	})
	if err != nil {
		return nil, err
	}
	folder := "/static/" + hex.EncodeToString(all.Sum(nil)[:8])
	files := map[string]file{}
	for name, data := range contents {
		at := folder + name
		if name == "/index.html" {
			at, data = "/", bytes.ReplaceAll(data, []byte(`="/`), []byte(`="`+folder+`/`))
		}
		packed, err := pack(data)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		files[at] = file{name: path.Base(name), kind: kindOf(name), etag: hex.EncodeToString(sum[:8]), data: data, packed: packed}
	}
	return files, nil
}

func pack(data []byte) ([]byte, error) {
	var to bytes.Buffer
	z, err := gzip.NewWriterLevel(&to, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = z.Write(data); err == nil {
		err = z.Close()
	}
	if err != nil || to.Len() >= len(data) {
		return nil, err
	}
	return to.Bytes(), nil
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
