package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// TestFinding3ExecAsksInTheChild: the lease ends between the start of the process and the command.
// The command does not start. An exit code 75 of the command itself is not mistaken for that.
func TestFinding3ExecAsksInTheChild(t *testing.T) {
	if _, err := os.Stat(uptime); err != nil {
		t.Skip("the child has no clock to ask here")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]string{
		"shell":   `{"shell": "touch %s"}`,
		"command": `{"command": ["touch", "%s"]}`,
		"script":  `{"command": ["` + script + `", "%s"]}`,
	} {
		for _, ends := range []struct {
			left  time.Duration
			begun bool
		}{{0, false}, {time.Millisecond, false}, {time.Hour, true}} { // less than a tick of the clock has passed when the child reads it
			t.Run(fmt.Sprint(name, ends.left), func(t *testing.T) {
				b := newHarness(t)
				b.facts.Lease = func() time.Duration { return ends.left }
				made := filepath.Join(t.TempDir(), "made")
				o, _ := b.run(t.Context(), t, "exec", fmt.Sprintf(with, made))
				if _, err := os.Stat(made); (err == nil) != ends.begun {
					t.Errorf("started: %v, want %v; %v", err == nil, ends.begun, o)
				}
				if lost := errors.Is(o.Err(), workflow.ErrLeaseLost); lost == ends.begun {
					t.Errorf("%v", o)
				}
			})
		}
	}
	b := newHarness(t)
	o, _ := b.run(t.Context(), t, "exec", `{"shell": "exit 75"}`)
	wantCode(t, o, "COMMAND_FAILED")
}

// TestFinding3HTTPAsksBeforeItWrites: the lease ends while the connection is made. The request is
// not written.
func TestFinding3HTTPAsksBeforeItWrites(t *testing.T) {
	var served atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	for name, server := range map[string]*httptest.Server{"http": httptest.NewServer(handler), "https": httptest.NewTLSServer(handler)} {
		defer server.Close()
		b := newHarness(t)
		b.options.HTTPAllow = []string{server.URL}
		var asked atomic.Int32
		b.facts.Lease = func() time.Duration {
			if asked.Add(1) > 1 { // the first check happens after the connection is made
				return 0
			}
			return time.Hour
		}
		o, _ := b.run(context.Background(), t, "http", `{"method": "POST", "json": {"a": 1}, "url": "`+server.URL+`"}`)
		if !errors.Is(o.Err(), workflow.ErrLeaseLost) || served.Load() != 0 {
			t.Errorf("%s: %v, %d requests served", name, o, served.Load())
		}
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	b := newHarness(t)
	b.options.HTTPAllow = []string{server.URL}
	if o, _ := b.run(context.Background(), t, "http", `{"url": "`+server.URL+`"}`); !o.IsDone() || served.Load() != 1 {
		t.Errorf("%v, %d requests served", o, served.Load())
	}
}
