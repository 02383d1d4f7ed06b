package flowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// reader decodes YAML nodes and reports invalid content.
type reader struct {
	*report
	file     string
	expanded bool                                    // the canonical form: groups are resolved
	onKeys   func(what string, keys map[string]read) // for tests: the keys of each kind of mapping
}

type read = func(*yaml.Node)

func (r *reader) position(n *yaml.Node) position { return position{r.file, n.Line, n.Column} }

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	r.errorf(r.position(n), format, args...)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// parse returns the root node of the only document in data; nil after an error.
func (r *reader) parse(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			r.errorf(position{r.file, 1, 1}, "the file is empty")
			return nil
		}
		r.syntax(err)
		return nil
	}
	if err := decoder.Decode(&more); err == nil {
		r.problem(&more, "a second document: put each flow into its own file")
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	if len(document.Content) != 1 {
		r.errorf(position{r.file, 1, 1}, "the file is empty")
		return nil
	}
	root := document.Content[0]
	if !r.plain(root, 0) {
		return nil
	}
	return root
}

func (r *reader) syntax(err error) {
	at, text := position{r.file, 1, 1}, err.Error()
	if m := yamlLine.FindStringSubmatch(strings.SplitN(text, "\n", 2)[0]); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	r.errorf(at, "not valid YAML: %s", strings.TrimPrefix(text, "yaml: "))
}

// maxYAMLDepth exceeds the depth of any valid flow.
const maxYAMLDepth = 200

// plain reports YAML features that make a value differ from its text: aliases, which let a small
// file grow without bound, merge keys and tags. It also reports nesting beyond maxYAMLDepth.
func (r *reader) plain(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxYAMLDepth:
		r.problem(n, "nested more than %d deep", maxYAMLDepth)
		return false
	case n.Kind == yaml.AliasNode:
		r.problem(n, "YAML aliases are refused: write the value out")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.problem(n, "the YAML tag %s is refused: write the value plainly, text in quotes", n.Tag)
		return false
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		r.problem(n, "YAML merge keys are refused: write the values out")
		return false
	}
	ok := true
	for _, c := range n.Content {
		ok = r.plain(c, depth+1) && ok
	}
	return ok
}

// object decodes a mapping strictly: each key once, and only known keys.
func (r *reader) object(n *yaml.Node, what string, keys map[string]read) map[string]*yaml.Node {
	if r.onKeys != nil {
		r.onKeys(what, keys)
	}
	found := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		r.problem(n, "%s must be a mapping, not %s", what, plain.Kind(n))
		return found
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		reads, known := keys[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.problem(key, "a key must be a name")
		case !known:
			r.problem(key, "unknown key %q%s", name, hint(name, keysOf(keys)))
		case found[name] != nil:
			r.problem(key, "key %q is repeated (first in line %d)", name, found[name].Line)
		default:
			found[name] = key
			if plain.IsNull(value) {
				r.problem(value, "%s is empty", name)
			} else {
				reads(value)
			}
		}
	}
	return found
}

// entries decodes a mapping whose keys the author chooses.
func (r *reader) entries(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "%s must be a mapping, not %s", what, plain.Kind(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.problem(key, "a key must be a name")
		case key.Value == "":
			r.problem(key, "a key of %s is empty", what)
		case seen[key.Value]:
			r.problem(key, "key %q is repeated", key.Value)
		default:
			seen[key.Value] = true
			each(key, value)
		}
	}
}

func (r *reader) list(what string, each read) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.problem(n, "%s must be a list, not %s", what, plain.Kind(n))
			return
		}
		for _, item := range n.Content {
			each(item)
		}
	}
}

// text is a string with its position.
type text struct {
	value string
	at    position
	shift int // columns between the mark and the first character; -1: not on one line
}

func (t text) set() bool { return t.at.line != 0 || t.value != "" }

// inside returns the position of a byte within the text, as exactly as it is known.
func (t text) inside(offset int) position {
	at := t.at
	if t.shift >= 0 && offset <= len(t.value) {
		at.column += t.shift + len([]rune(t.value[:offset]))
	}
	return at
}

func (r *reader) textOf(n *yaml.Node) text {
	shift := -1
	switch n.Style &^ yaml.TaggedStyle {
	case 0:
		shift = 0
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		shift = 1
	}
	if strings.Contains(n.Value, "\n") {
		shift = -1
	}
	return text{n.Value, r.position(n), shift}
}

func (r *reader) text(what string, to *text) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || plain.IsNull(n) {
			r.problem(n, "%s must be a string, not %s", what, plain.Kind(n))
			return
		}
		if n.Value == "" {
			r.problem(n, "%s is empty", what)
			return
		}
		*to = r.textOf(n)
	}
}

func (r *reader) prose(what string, to *string) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			r.problem(n, "%s must be a string, not %s", what, plain.Kind(n))
			return
		}
		*to = n.Value
	}
}

var namePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

func (r *reader) name(what string, to *text) read {
	return func(n *yaml.Node) {
		var t text
		if r.text(what, &t)(n); !t.set() {
			return
		}
		*to = t
		if !namePattern.MatchString(t.value) && !(r.expanded && instancePattern.MatchString(t.value)) {
			r.problem(n, "%s %q is not a name: a letter, then at most 62 letters, digits, '_', '.' or '-'", what, t.value)
		}
	}
}

// instancePattern also matches the generated names of steps.
var instancePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}#[0-9]+$`)

func (r *reader) whole(what string, low int, to *int) read {
	return func(n *yaml.Node) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || err != nil {
			r.problem(n, "%s must be a whole number, not %s", what, plain.Kind(n))
			return
		}
		if v < low || v > math.MaxInt32 {
			r.problem(n, "%s must be at least %d, not %s", what, low, n.Value)
			return
		}
		*to = v
	}
}

func (r *reader) number(what string, low, high float64, to **float64) read {
	return func(n *yaml.Node) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < low || v > high {
			r.problem(n, "%s must be a number from %v to %v, not %s", what, low, high, plain.Kind(n))
			return
		}
		*to = &v
	}
}

func (r *reader) flag(what string, to *bool) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			r.problem(n, "%s must be true or false, not %s", what, plain.Kind(n))
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	}
}

func choice[T ~string](r *reader, what string, to *T, choices ...T) read {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && slices.Contains(choices, T(n.Value)) {
			*to = T(n.Value)
			return
		}
		words := make([]string, len(choices))
		for i, c := range choices {
			words[i] = string(c)
		}
		r.problem(n, "%s must be one of %s, not %s%s", what, strings.Join(words, ", "), plain.Kind(n), hint(n.Value, words))
	}
}

var days = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// duration decodes the format of time.ParseDuration, with days in front: 30d, 1d12h.
func (r *reader) duration(what string, to *time.Duration) read {
	return func(n *yaml.Node) {
		d, err := parseDuration(n.Value)
		switch {
		case n.Kind != yaml.ScalarNode || err != nil:
			r.problem(n, "%s must be a duration such as 30s, 5m or 1h30m, not %s", what, plain.Kind(n))
		case d <= 0:
			r.problem(n, "%s must be longer than 0, not %q", what, n.Value)
		default:
			*to = d
		}
	}
}

func parseDuration(s string) (time.Duration, error) {
	var total time.Duration
	if m := days.FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[1])
		if total = time.Duration(n) * 24 * time.Hour; m[2] == "" {
			return total, nil
		}
		s = m[2]
	}
	d, err := time.ParseDuration(s)
	if err == nil && (d < 0 || total > math.MaxInt64-d) {
		err = fmt.Errorf("out of range")
	}
	return total + d, err
}

var sizes = regexp.MustCompile(`^([0-9]{1,9}) ?(KiB|MiB|)$`)

// size decodes a number of bytes: 65536, 64KiB, 1MiB.
func (r *reader) size(what string, most int, to *int) read {
	return func(n *yaml.Node) {
		m := sizes.FindStringSubmatch(n.Value)
		if n.Kind != yaml.ScalarNode || m == nil {
			r.problem(n, "%s must be a size such as 128KiB, not %s", what, plain.Kind(n))
			return
		}
		v, _ := strconv.Atoi(m[1])
		v *= map[string]int{"": 1, "KiB": 1 << 10, "MiB": 1 << 20}[m[2]]
		if v < 1 || v > most {
			r.problem(n, "%s must be between 1 and %d bytes, not %s", what, most, n.Value)
			return
		}
		*to = v
	}
}

// value converts a node to a value for json.Marshal. Whole numbers are int64.
func (r *reader) value(n *yaml.Node) any {
	return plain.Reader{Wrong: r.problem, Entries: func(n *yaml.Node, each func(key, value *yaml.Node)) { r.entries(n, "a mapping", each) }}.Value(n)
}

// json returns the value of a node in canonical encoding.
func (r *reader) json(n *yaml.Node) json.RawMessage { return canonical(r.value(n)) }

// canonical encodes a value with sorted keys and without escapes of <, > and &.
func canonical(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("flowfile: %T cannot be encoded: %v", v, err)) // all values come from JSON or YAML
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
