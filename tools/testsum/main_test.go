package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

const passing = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestOne"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"    chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestOne"}
{"Action":"run","Package":"m/a","Test":"TestTwo"}
{"Action":"skip","Package":"m/a","Test":"TestTwo"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"pass","Package":"m/a"}
`

const failing = `{"Action":"run","Package":"m/b","Test":"TestOne"}
{"Action":"output","Package":"m/b","Test":"TestOne","Output":"    b_test.go:3: no\n"}
{"Action":"fail","Package":"m/b","Test":"TestOne"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.1s\n"}
{"Action":"fail","Package":"m/b"}
`

const unbuilt = `{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1:1: expected 'package'\n"}
{"ImportPath":"m/c","Action":"build-fail"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c","FailedBuild":"m/c"}
`

const died = `{"Action":"run","Package":"m/d","Test":"TestHang"}
{"Action":"output","Package":"m/d","Test":"TestHang","Output":"panic: no\n"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d\t0.1s\n"}
{"Action":"fail","Package":"m/d"}
`

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		events, sum  string
		shows, hides string
		good         bool
	}{
		"nothing ran":    {"", "0 passed, 0 failed, 0 skipped", "", "ok", false},
		"passed":         {passing, "1 passed, 0 failed, 1 skipped", "ok  \tm/a", "chatter", true},
		"failed":         {passing + failing, "1 passed, 1 failed, 1 skipped", "b_test.go:3: no", "chatter", false},
		"does not build": {unbuilt, "0 passed, 1 failed, 0 skipped", "c.go:1:1", "chatter", false},
		"died":           {died, "0 passed, 1 failed, 0 skipped", "panic: no", "chatter", false},
		"not an event":   {"go: cannot find module\n" + passing, "1 passed, 0 failed, 1 skipped", "cannot find module", "chatter", true},
	} {
		t.Run(name, func(t *testing.T) {
			results, out := Results{}, &strings.Builder{}
			if err := Read(t.Context(), strings.NewReader(c.events), results, out); err != nil {
				t.Fatal(err)
			}
			if got := results.Sum(); got != c.sum {
				t.Errorf("sum: got %q, want %q", got, c.sum)
			}
			if results.Good() != c.good {
				t.Errorf("good: got %v, want %v", results.Good(), c.good)
			}
			if !strings.Contains(out.String(), c.shows) || strings.Contains(out.String(), c.hides) {
				t.Errorf("want %q shown and %q hidden in:\n%s", c.shows, c.hides, out)
			}
		})
	}
}

func TestWhatIsStoppedIsNoResult(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	results := Results{}
	if err := Read(ctx, strings.NewReader(failing), results, io.Discard); err != nil {
		t.Fatal(err)
	}
	if len(results) != 0 {
		t.Errorf("want no results, got %v", results)
	}
}

func TestCountsEachTestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally")
	first := Results{"m/a TestOne": Passed, "m/a TestTwo": Skipped, "m/a TestThree": Passed}
	second := Results{"m/a TestOne": Passed, "m/a TestTwo": Passed, "m/a TestThree": Failed}
	for _, r := range []Results{first, second} {
		if err := r.save(path); err != nil {
			t.Fatal(err)
		}
	}
	sum := Results{}
	if err := sum.load(path); err != nil {
		t.Fatal(err)
	}
	if got, want := sum.Sum(), "2 passed, 1 failed, 0 skipped"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := sum.load(path + "-absent"); err == nil {
		t.Error("a missing tally must be an error: nothing was tested")
	}
}
