package flowfile

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// IsTest reports whether a file has the name of a file of tests: *_test.yaml. A load of a folder
// skips it; package testfile reads it.
func IsTest(name string) bool {
	ext := filepath.Ext(name)
	return (ext == ".yaml" || ext == ".yml") && strings.HasSuffix(strings.TrimSuffix(name, ext), "_test")
}

// Reader reads other YAML files as strictly as flow files: unknown, repeated and empty keys, aliases
// and tags are problems, with their position.
type Reader struct{ r *reader }

// NewReader parses a file. The node is nil after a problem.
func NewReader(file File) (Reader, *yaml.Node) {
	l := &library{report: &report{}}
	r, root := l.root(file)
	return Reader{r}, root
}

// Problem reports a problem at a node.
func (r Reader) Problem(n *yaml.Node, format string, args ...any) { r.r.problem(n, format, args...) }

// Problems returns what was found, ordered by position.
func (r Reader) Problems() Problems { return r.r.sorted() }

// Object decodes a mapping with these keys, and returns the nodes of those that were found.
func (r Reader) Object(n *yaml.Node, what string, keys map[string]func(*yaml.Node)) map[string]*yaml.Node {
	return r.r.object(n, what, keys)
}

// Entries decodes a mapping whose keys the author chooses.
func (r Reader) Entries(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	r.r.entries(n, what, each)
}

// List decodes a list.
func (r Reader) List(what string, each func(*yaml.Node)) func(*yaml.Node) {
	return r.r.list(what, each)
}

// Text decodes a string that is not empty.
func (r Reader) Text(what string, to *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var t text
		r.r.text(what, &t)(n)
		*to = t.value
	}
}

// Choice decodes one of these strings.
func (r Reader) Choice(what string, to *string, choices ...string) func(*yaml.Node) {
	return choice(r.r, what, to, choices...)
}

// Flag decodes true or false.
func (r Reader) Flag(what string, to *bool) func(*yaml.Node) { return r.r.flag(what, to) }

// Whole decodes a whole number.
func (r Reader) Whole(what string, low int, to *int) func(*yaml.Node) {
	return r.r.whole(what, low, to)
}

// Duration decodes a duration such as 30s or 1d12h.
func (r Reader) Duration(what string, to *time.Duration) func(*yaml.Node) {
	return r.r.duration(what, to)
}

// JSON decodes any value.
func (r Reader) JSON(n *yaml.Node) json.RawMessage { return r.r.json(n) }

// Hint returns ` (did you mean x?)` for the candidate that is most similar to a name; "" if none is.
func Hint(name string, candidates []string) string { return hint(name, candidates) }
