package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/notification"
)

// receiver URLFILE SECRETFILE BODIES: receives webhooks until the script ends. It writes its URL into
// a file, and each body whose signature is right onto a line of another; it refuses what is signed wrongly.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: receiver URLFILE SECRETFILE BODIES")
	}
	key, err := notification.ParseSecret(ts.ReadFile(args[1]))
	ts.Check(err)
	bodies, err := os.Create(ts.MkAbs(args[2]))
	ts.Check(err)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		seconds, _ := strconv.ParseInt(r.Header.Get(notification.HeaderTimestamp), 10, 64)
		id := r.Header.Get(notification.HeaderID)
		if err != nil || id == "" || r.Header.Get(notification.HeaderSignature) != notification.Sign(id, time.Unix(seconds, 0), body, key) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(bodies, "%s\n", body)
	}))
	ts.Defer(func() {
		server.Close()
		_ = bodies.Close()
	})
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	ts.Check(os.WriteFile(path, []byte(server.URL+"/hook\n"), 0o600))
	ts.Check(os.WriteFile(filepath.Join(filepath.Dir(path), "gone"), []byte(server.URL+"/gone\n"), 0o600))
}
