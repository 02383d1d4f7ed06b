package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		text string
		want [][]string
	}{
		{"", [][]string{nil}},
		{"status json", [][]string{{"status", "json"}}},
		{"  kill;  kill 10.1.1.1:4501 ; sleep 5", [][]string{{"kill"}, {"kill", "10.1.1.1:4501"}, {"sleep", "5"}}},
		{"kill;", [][]string{{"kill"}, nil}},
		{`set a ""`, [][]string{{"set", "a", ""}}},
		{`set "a b;c" d`, [][]string{{"set", "a b;c", "d"}}},
		{`set a\ b\;c\"d\\e f`, [][]string{{"set", `a b;c"d\e`, "f"}}},
		{`get \xff\x02/\x00`, [][]string{{"get", "\xff\x02/\x00"}}},
		{"get a\nget\tb\r", [][]string{{"get", "a", "get", "b"}}},
		{`configure regions=[{\"datacenters\":[]}]`, [][]string{{"configure", `regions=[{"datacenters":[]}]`}}},
		{`a"b"c`, [][]string{{"abc"}}},
		{`"a`, nil}, {`a\`, nil}, {`a\n`, nil}, {`\x1`, nil}, {`\x1g`, nil}, {`\u0041`, nil},
	} {
		got, err := Split(c.text)
		if (err != nil) != (c.want == nil) || !cmp.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}

// Whatever a word holds, it stays one word of one command.
func TestWordsStayWords(t *testing.T) {
	word := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringOf(rapid.SampledFrom([]rune{'"', '\\', ' ', ';', '\n', '\x00', 'x', '0', 'a'})))
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(rapid.SliceOfN(word, 1, 4), 1, 4).Draw(t, "commands")
		text := Join(commands...)
		got, err := Split(text)
		if err != nil || !cmp.Equal(got, commands) {
			t.Fatalf("%q becomes %q, %q, %v", commands, text, got, err)
		}
		if strings.ContainsAny(text, "\n\x00\r") {
			t.Fatalf("%q is no line", text)
		}
	})
}

func TestUnprintable(t *testing.T) {
	for text, want := range map[string]string{`a b`: "a b", `\\`: `\`, `\xff\x02`: "\xff\x02", "`'": "`'"} {
		if got, ok := Unprintable(text); !ok || string(got) != want {
			t.Errorf("%q: %q, %t", text, got, ok)
		}
	}
	for _, text := range []string{`\`, `\ `, `\;`, `\x1`, "a\nb", "\xff", "\x1b[0m"} {
		if got, ok := Unprintable(text); ok {
			t.Errorf("%q is read as %q", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		if got, ok := Unprintable(Printable(string(b))); !ok || !slices.Equal(got, b) {
			t.Fatalf("%q becomes %q, %q", b, Printable(string(b)), got)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "kill; kill a", `set "a b" \xff`, `a\`, `"`, ";;", `\x4`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands, err := Split(text)
		if err != nil {
			return
		}
		if again, err := Split(Join(commands...)); err != nil || !cmp.Equal(again, commands) {
			t.Fatalf("%q becomes %q, then %q, %v", text, commands, again, err)
		}
		if b, ok := Unprintable(text); ok {
			if again, ok := Unprintable(Printable(string(b))); !ok || !slices.Equal(again, b) {
				t.Fatalf("%q is read as %q, then %q", text, b, again)
			}
		}
	})
}
