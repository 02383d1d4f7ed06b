// Package contextfile is the file of the servers that a user knows: their names, addresses and credentials, and
// which of them is asked when a command names none.
//
//	current: prod
//	contexts:
//	- name: prod
//	  server: https://pawl.example.com:7295
//	  tokenFile: /home/ann/.pawl-token
//	  certificateAuthority: /etc/pawl/ca.crt
//	- name: dev
//	  server: http://127.0.0.1:7295
//	  process: 7MGYQSZKX2ZO3WRH   # the pawl dev that wrote it, and takes it away
package contextfile

import (
	"slices"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// The faults of contexts.
var (
	NotFound = fault.Declare(fault.Kind{
		Code: "CONTEXT_NOT_FOUND", Class: fault.Invalid,
		Title:  "there is no such context",
		Remedy: "Look at the names with `pawl context list`, or add a server with pawl login SERVER.",
	})
	Exists = fault.Declare(fault.Kind{
		Code: "CONTEXT_EXISTS", Class: fault.Blocked,
		Title:  "another context has the name",
		Remedy: "Choose another name, or remove the other context with pawl context delete NAME.",
	})
	NameWrong = fault.Declare(fault.Kind{
		Code: "CONTEXT_NAME_WRONG", Class: fault.Invalid,
		Title:  "the name does not fit a context",
		Remedy: "Choose a name without spaces that does not begin with a dash.",
	})
	Unusable = fault.Declare(fault.Kind{
		Code: "CONTEXTS_UNUSABLE", Class: fault.Invalid,
		Title:  "the file of contexts, or a file that it names, cannot be used",
		Remedy: "Correct what the message names, or name another file in PAWL_CONTEXTS.",
	})
)

// Context is a named server and the way to it.
type Context struct {
	Name                 string `yaml:"name"`
	Server               string `yaml:"server"`                         // http://HOST:PORT or https://HOST:PORT
	Token                string `yaml:"token,omitempty"`                // bearer token; empty: TokenFile
	TokenFile            string `yaml:"tokenFile,omitempty"`            // its first line that is no comment is the token; empty: none
	CertificateAuthority string `yaml:"certificateAuthority,omitempty"` // file with PEM certificates; empty: those of the system
	Process              string `yaml:"process,omitempty"`              // id of the pawl dev that owns the entry; empty: the user owns it
}

// File is what the file holds. Current is empty if no context is.
type File struct {
	Current  string    `yaml:"current,omitempty"`
	Contexts []Context `yaml:"contexts"`
}

// Names are the names of all contexts, in the order of the file.
func (f *File) Names() []string {
	names := make([]string, len(f.Contexts))
	for i, c := range f.Contexts {
		names[i] = c.Name
	}
	return names
}

func (f *File) index(name string) int {
	return slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
}

// Find returns the context of a name: CONTEXT_NOT_FOUND.
func (f *File) Find(name string) (Context, error) {
	if i := f.index(name); i >= 0 {
		return f.Contexts[i], nil
	}
	return Context{}, NotFound.Errorf("no context is named %s%s", name, machine.DidYouMean(name, f.Names()))
}

// Put adds a context, or replaces the one of its name: CONTEXT_NAME_WRONG.
func (f *File) Put(c Context) error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if i := f.index(c.Name); i >= 0 {
		f.Contexts[i] = c
	} else {
		f.Contexts = append(f.Contexts, c)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return NameWrong.Errorf("%q names no context", name)
	}
	return nil
}

// Use makes a context the current one: CONTEXT_NOT_FOUND.
func (f *File) Use(name string) error {
	_, err := f.Find(name)
	if err == nil {
		f.Current = name
	}
	return err
}

// Rename gives a context another name; the current one stays current: CONTEXT_NOT_FOUND, CONTEXT_EXISTS, CONTEXT_NAME_WRONG.
func (f *File) Rename(name, to string) error {
	if _, err := f.Find(name); err != nil {
		return err
	}
	if err := checkName(to); err != nil {
		return err
	}
	if name != to && f.index(to) >= 0 {
		return Exists.Errorf("%s is another context", to)
	}
	f.Contexts[f.index(name)].Name = to
	if f.Current == name {
		f.Current = to
	}
	return nil
}

// Delete removes a context; if it was the current one, none is: CONTEXT_NOT_FOUND.
func (f *File) Delete(name string) error {
	if _, err := f.Find(name); err != nil {
		return err
	}
	f.remove(func(c Context) bool { return c.Name == name })
	return nil
}

func (f *File) remove(which func(Context) bool) {
	f.Contexts = slices.DeleteFunc(f.Contexts, which)
	if f.index(f.Current) < 0 {
		f.Current = ""
	}
}

// Enter adds the context of a process, in place of the one that another process left under the name, and makes it
// current if none is. It returns false, and changes nothing, if the name is that of a context of the user.
func (f *File) Enter(c Context) bool {
	if i := f.index(c.Name); i >= 0 && f.Contexts[i].Process == "" {
		return false
	}
	if err := f.Put(c); err != nil {
		return false
	}
	if f.index(f.Current) < 0 {
		f.Current = c.Name
	}
	return true
}

// Leave removes what a process entered, unless another has taken its place.
func (f *File) Leave(process string) {
	f.remove(func(c Context) bool { return c.Process == process })
}

// check refuses what only a person could have written.
func (f *File) check() error {
	seen := map[string]bool{}
	for _, c := range f.Contexts {
		if err := checkName(c.Name); err != nil {
			return err
		}
		if c.Server == "" {
			return NameWrong.Errorf("context %s names no server", c.Name)
		}
		if seen[c.Name] {
			return Exists.Errorf("two contexts are named %s", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}
