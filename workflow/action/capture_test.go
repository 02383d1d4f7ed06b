package action

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCaptureKeepsBothEnds(t *testing.T) {
	for _, c := range []struct {
		limit        int
		writes, want string
	}{
		{10, "short", "short"},
		{10, "0123456789", "0123456789"},
		{10, "0123456789a", "01234\n[1 bytes left out]\n6789a"},
		{10, "01234|56789|abcdef|ghijklmno", "01234\n[15 bytes left out]\nklmno"},
		{5, "abcdefgh", "abc\n[3 bytes left out]\ngh"},
		{6, "aéééb", "aé\n[2 bytes left out]\néb"},
		{6, "éééé", "é\n[4 bytes left out]\né"},
	} {
		capture := newCapture(c.limit)
		for w := range strings.SplitSeq(c.writes, "|") {
			if n, err := capture.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := capture.text(&secrets{}); got != c.want {
			t.Errorf("limit %d, %q: %q, want %q", c.limit, c.writes, got, c.want)
		}
	}
}

func TestCaptureShowsNoPartOfASecret(t *testing.T) {
	hidden := &secrets{}
	hidden.hide("hunter2horse\n")
	hidden.hide(`quote"d`)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"hunter2horse", `quote"d`, `quote\"d`, "x", "\n", "é", "hunters"}), 1, 30).Draw(t, "text"), "")
		limit := rapid.IntRange(2, 60).Draw(t, "limit")
		c := newCapture(limit)
		_, _ = c.Write([]byte(text))
		got := c.text(hidden)
		for _, part := range []string{"hunter2horse", "hunter2", "2horse", `quote"d`, `quote\"d`, `e"d`} {
			if strings.Contains(got, part) {
				t.Fatalf("limit %d: %q shows %q", limit, got, part)
			}
		}
	})
}

func TestShrinkKeepsBothEnds(t *testing.T) {
	c := newCapture(100)
	_, _ = c.Write([]byte(strings.Repeat("a", 60) + strings.Repeat("b", 60)))
	if got := c.shrink(10).text(&secrets{}); got != "aaaaa\n[110 bytes left out]\nbbbbb" {
		t.Errorf("got %q", got)
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("hello world"), 4, 3)
	f.Add([]byte("héé\xff\x80wörld\n"), 7, 1)
	f.Add([]byte{}, 0, 0)
	f.Fuzz(func(t *testing.T, data []byte, limit, step int) {
		if limit < 0 || limit > 1<<16 || step < 1 || len(data) > 1<<16 {
			t.Skip()
		}
		c := newCapture(limit)
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			if written, err := c.Write(rest[:n]); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if c.total != int64(len(data)) || len(c.head)+len(c.ring) > c.limit {
			t.Fatalf("total %d of %d, kept %d+%d of %d", c.total, len(data), len(c.head), len(c.ring), c.limit)
		}
		if !bytes.HasPrefix(data, c.head) || !bytes.HasSuffix(data, c.tail()) {
			t.Fatal("the kept bytes are not the two ends")
		}
		if c.whole() && !bytes.Equal(data, append(append([]byte{}, c.head...), c.tail()...)) {
			t.Fatal("something is missing")
		}
		text := c.text(&secrets{})
		if !utf8.ValidString(text) {
			t.Fatalf("%q is no UTF-8", text)
		}
		if c.whole() && utf8.Valid(data) && text != string(data) {
			t.Fatalf("%q became %q", data, text)
		}
		if limit := c.limit/2 + 1; utf8.ValidString(c.shrink(limit).text(&secrets{})) == false {
			t.Fatal("shrunk to invalid UTF-8")
		}
	})
}

func ExampleOptions() {
	// The parameters in a flow file are checked when the file is loaded.
	fmt.Println(execParams.Check([]byte(`{"comand": ["true"]}`)))
	// Output:
	// comand: unknown key "comand": known are command, dir, env, faults, killGrace, maxOutput, okCodes, output, passEnv, shell, stdin; command or shell is missing
}
