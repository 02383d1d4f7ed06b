package contextfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
)

// Whatever is done with a file: names stay unique, the current context is one that there is, a process takes away
// only its own entry, and never one of the user.
func TestFileStaysWhole(t *testing.T) {
	names := rapid.SampledFrom([]string{"dev", "prod", "staging", "10.0.0.1:7295"})
	processes := rapid.SampledFrom([]string{"P1", "P2"})
	rapid.Check(t, func(t *rapid.T) {
		f, users := &File{}, map[string]string{} // context of the user: its server
		before := *f
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c := Context{Name: names.Draw(t, "name"), Server: rapid.StringMatching(`https://[a-z]{1,4}`).Draw(t, "server")}
				if err := f.Put(c); err != nil {
					t.Fatal(err)
				}
				users[c.Name] = c.Server
			},
			"use": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if err := f.Use(name); (err == nil) != slices.Contains(f.Names(), name) {
					t.Fatal(err)
				} else if err == nil && f.Current != name {
					t.Fatalf("%s is current, not %s", f.Current, name)
				}
			},
			"rename": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				current := f.Current
				err := f.Rename(from, to)
				server, own := users[from]
				if err == nil && own && from != to {
					delete(users, from)
					users[to] = server
				}
				if err == nil && current == from && f.Current != to {
					t.Fatalf("the current context was renamed to %s, and %q is current", to, f.Current)
				}
			},
			"delete": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if f.Delete(name) == nil {
					delete(users, name)
				}
			},
			"enter": func(t *rapid.T) {
				c := Context{Name: "dev", Server: "http://127.0.0.1:1", Process: processes.Draw(t, "process")}
				current := users["dev"]
				entered := f.Enter(c)
				if entered == (current != "") {
					t.Fatalf("entered %t over %q of the user", entered, current)
				}
				if before.Current != "" && f.Current != before.Current {
					t.Fatalf("%s is current, which was %s", f.Current, before.Current)
				}
			},
			"leave": func(t *rapid.T) {
				process := processes.Draw(t, "process")
				f.Leave(process)
				for _, c := range f.Contexts {
					if c.Process == process {
						t.Fatalf("%v is still there", c)
					}
				}
			},
			"": func(t *rapid.T) {
				if err := f.check(); err != nil {
					t.Fatal(err)
				}
				if f.Current != "" && !slices.Contains(f.Names(), f.Current) {
					t.Fatalf("the current context %s is none of %v", f.Current, f.Names())
				}
				for name, server := range users {
					if c, err := f.Find(name); err != nil || c.Server != server || c.Process != "" {
						t.Fatalf("the user's %s is %v, %v", name, c, err)
					}
				}
				data, err := yaml.Marshal(f)
				var again File
				if err == nil {
					err = yaml.Unmarshal(data, &again)
				}
				if err != nil || again.Current != f.Current || !slices.Equal(again.Contexts, f.Contexts) {
					t.Fatalf("%v became %v: %v", f, again, err)
				}
				before = *f
			},
		})
	})
}

func TestFaults(t *testing.T) {
	f := &File{Contexts: []Context{{Name: "prod", Server: "x"}, {Name: "dev", Server: "y"}}}
	for what, test := range map[string]struct {
		err  error
		want *fault.Kind
		says string
	}{
		"use":      {f.Use("prdo"), NotFound, "did you mean prod"},
		"rename":   {f.Rename("prod", "dev"), Exists, "dev"},
		"to dash":  {f.Rename("prod", "-x"), NameWrong, "-x"},
		"to space": {f.Rename("prod", "a b"), NameWrong, "a b"},
		"nothing":  {f.Put(Context{}), NameWrong, `""`},
		"delete":   {f.Delete("x"), NotFound, "x"},
	} {
		if fault.Of(test.err) != test.want || !strings.Contains(test.err.Error(), test.says) {
			t.Errorf("%s: %v", what, test.err)
		}
	}
}

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "contexts.yaml")
	if f, err := Read(path); err != nil || len(f.Contexts) != 0 {
		t.Fatalf("a file that is not there: %v, %v", f, err)
	}
	put := func(c Context) {
		t.Helper()
		if err := Update(path, func(f *File) error { return f.Put(c) }); err != nil {
			t.Fatal(err)
		}
	}
	put(Context{Name: "a", Server: "http://a", Token: "secret"})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { put(Context{Name: string(rune('b' + i)), Server: "http://x"}) })
	}
	all.Wait()
	f, err := Read(path)
	if err != nil || len(f.Contexts) != 21 {
		t.Errorf("%v, %v: one of 21 writers was lost", f.Names(), err)
	}
	before, _ := os.ReadFile(path)
	if err := Update(path, func(f *File) error { f.Contexts = nil; return f.Use("nowhere") }); fault.Of(err) != NotFound {
		t.Error(err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("a change that failed was written")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Update(link, func(f *File) error { return f.Use("a") }); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("a link became a file")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".contexts-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v were left, %v", left, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	for text, says := range map[string]string{
		"current: [":                     "line 1",
		"contexts:\n- {nam: a}":          "line 2: field nam not found",
		"contexts: [{name: a}]":          "context a names no server",
		"contexts: [{server: http://a}]": `"" names no context`,
		"contexts: [{name: a, server: x}, {name: a, server: y}]": "two contexts are named a",
	} {
		path := filepath.Join(dir, "contexts.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); fault.Of(err) != Unusable || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "current: gone\n"} {
		path := filepath.Join(dir, "contexts.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A file with a token is its owner's alone, and so is a file that holds one.
func TestOthersMayNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	for text, refused := range map[string]bool{
		"contexts: [{name: a, server: x, token: t}]":        true,
		"contexts: [{name: a, server: x, tokenFile: /etc}]": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); (err != nil) != refused || refused && !strings.Contains(err.Error(), "may be read by others") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := (Context{TokenFile: path}).Credential(); fault.Of(err) != Unusable {
			t.Errorf("a token file with mode 644: %v", err)
		}
	}
}

func TestPath(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	for _, test := range []struct{ own, config, want string }{
		{"/x/y.yaml", "/c", "/x/y.yaml"},
		{"", "/c", "/c/pawl/contexts.yaml"},
		{"", "", "/home/ann/.config/pawl/contexts.yaml"},
		{"", "relative", "/home/ann/.config/pawl/contexts.yaml"},
	} {
		t.Setenv("PAWL_CONTEXTS", test.own)
		t.Setenv("XDG_CONFIG_HOME", test.config)
		if got := Path(); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("# of ann\n\n first \nsecond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		c     Context
		token string
		fails bool
	}{
		{Context{}, "", false},
		{Context{Token: "t", TokenFile: file}, "t", false},
		{Context{TokenFile: file}, "first", false},
		{Context{TokenFile: empty}, "", true},
		{Context{TokenFile: file + "-not"}, "", true},
	} {
		token, err := test.c.Credential()
		if token != test.token || (err != nil) != test.fails || err != nil && fault.Of(err) != Unusable {
			t.Errorf("%+v: %q, %v", test.c, token, err)
		}
	}
}
