package machinefile

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/plain"
)

// document is a file as it was read: what is written, and where.
type document struct {
	*report
	file                string
	name, kind, initial string
	ignore              []string
	spec                *yaml.Node
	any                 []transition
	observe             []observation
	states              []state
	marks               map[string]mark // by path: states/Running/on/0/when
}

type transition struct {
	path                 string
	event, to, why, ends string
	when                 *yaml.Node
	params               *yaml.Node
}

type state struct {
	path, name               string
	description              string
	on                       []transition
	rests                    bool
	flow, then, other, abort string
	withdrawn                string
	work                     call
	retry, timeout           *yaml.Node
}

type call struct {
	uses          string
	with, secrets *yaml.Node
}

type observation struct {
	path, name     string
	every, timeout time.Duration
	in             []string
	work           call
}

type keys map[string]func(*yaml.Node)

// read gives nil when the file is no mapping at all.
func read(file flowfile.File, found *report) *document {
	d := &document{report: found, file: file.Name, marks: map[string]mark{}}
	root := d.parse(file.Data)
	if root == nil {
		return nil
	}
	d.object(root, "", "a machine file", keys{
		"machine": d.text("machine", &d.name), "kind": d.text("kind", &d.kind), "initial": d.text("initial", &d.initial),
		"description": d.text("description", new(string)),
		"spec":        func(n *yaml.Node) { d.spec = n },
		"ignore":      d.texts("ignore", "ignore", &d.ignore),
		"any":         func(n *yaml.Node) { d.any = d.transitions(n, "any") },
		"observe": func(n *yaml.Node) {
			d.each(n, "observe", func(item *yaml.Node, path string) { d.observe = append(d.observe, d.observation(item, path)) })
		},
		"states": d.parseStates,
	})
	for _, key := range []string{"machine", "kind", "states"} {
		if _, ok := d.marks[key]; !ok {
			d.add(d.mark(root), "%s is missing", key)
		}
	}
	return d
}

func (d *document) parseStates(n *yaml.Node) {
	d.entries(n, "states", func(key, value *yaml.Node) {
		s := state{path: "states/" + key.Value, name: key.Value}
		if plain.IsNull(value) {
			d.states = append(d.states, s) // a final state
			return
		}
		at := func(field string) string { return s.path + "/" + field }
		d.object(value, s.path, "a state", keys{
			"description": d.text("description", &s.description),
			"on": func(n *yaml.Node) {
				s.on = d.transitions(n, at("on"))
				if len(s.on) == 0 {
					d.add(d.mark(n), "on is empty: remove it, or write rests: true for a state that only any may leave")
				}
			},
			"rests": d.flag("rests", &s.rests),
			"flow":  d.text("flow", &s.flow), "action": d.text("action", &s.work.uses),
			"with": func(n *yaml.Node) { s.work.with = n }, "secrets": func(n *yaml.Node) { s.work.secrets = n },
			"retry": func(n *yaml.Node) { s.retry = n }, "timeout": func(n *yaml.Node) { s.timeout = n },
			"then": d.text("then", &s.then), "else": d.text("else", &s.other), "abort": d.text("abort", &s.abort),
			"withdrawn": d.text("withdrawn", &s.withdrawn),
		})
		for field, node := range map[string]*yaml.Node{"with": s.work.with, "secrets": s.work.secrets, "retry": s.retry, "timeout": s.timeout} {
			if node != nil && s.work.uses == "" {
				d.add(d.marks[at(field)], "%s belongs to an action, and the state has none", field)
			}
		}
		if s.work.uses != "" && s.flow != "" {
			d.add(d.marks[at("action")], "a state has an action or a flow, not both")
		}
		d.states = append(d.states, s)
	})
}

func (d *document) transitions(n *yaml.Node, path string) []transition {
	var out []transition
	d.each(n, path, func(item *yaml.Node, path string) {
		t := transition{path: path}
		d.object(item, path, "a transition", keys{
			"event": d.text("event", &t.event), "to": d.text("to", &t.to), "why": d.text("why", &t.why), "ends": d.text("ends", &t.ends),
			"when": func(n *yaml.Node) { t.when = n }, "params": func(n *yaml.Node) { t.params = n },
		})
		out = append(out, t)
	})
	return out
}

func (d *document) observation(n *yaml.Node, path string) observation {
	o := observation{path: path, every: machine.DefaultEvery, timeout: machine.DefaultTimeout}
	d.object(n, path, "an observation", keys{
		"name": d.text("name", &o.name), "uses": d.text("uses", &o.work.uses),
		"every": d.duration("every", &o.every), "timeout": d.duration("timeout", &o.timeout),
		"in":   d.texts("in", path+"/in", &o.in),
		"with": func(n *yaml.Node) { o.work.with = n }, "secrets": func(n *yaml.Node) { o.work.secrets = n },
	})
	for field, value := range map[string]string{"name": o.name, "uses": o.work.uses} {
		if _, written := d.marks[path+"/"+field]; value == "" && !written {
			d.add(d.mark(n), "%s is missing", field)
		}
	}
	return o
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?line (\d+): (.*)$`)

func (d *document) parse(data []byte) *yaml.Node {
	start := mark{d.file, 1, 1}
	if len(data) > largestFile {
		d.add(start, "the file has more than %d bytes", largestFile)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			d.add(d.mark(&more), "a second document: put each machine into its own file")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	} else if errors.Is(err, io.EOF) {
		d.add(start, "the file is empty")
		return nil
	}
	if err != nil {
		text := err.Error()
		if m := yamlLine.FindStringSubmatch(strings.SplitN(text, "\n", 2)[0]); m != nil {
			start.line, _ = strconv.Atoi(m[1])
			text = m[2]
		}
		if strings.Contains(text, "expected ',' or '}'") {
			text += ": within {…}, quote an expression that holds any of ? , : [ ] { }"
		}
		d.add(start, "not valid YAML: %s", strings.TrimPrefix(text, "yaml: "))
		return nil
	}
	if len(doc.Content) != 1 {
		d.add(start, "the file is empty")
		return nil
	}
	if !d.plain(doc.Content[0], 0) {
		return nil
	}
	return doc.Content[0]
}

// plain refuses depth, and what makes a value another one than a reader sees:
// aliases, which let a small file grow without bound, merge keys and tags.
func (d *document) plain(n *yaml.Node, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.add(d.mark(n), "YAML aliases are refused: write the value out")
		return false
	case depth > 64:
		d.add(d.mark(n), "nested more than 64 deep")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		d.add(d.mark(n), "the YAML tag %s is refused: write the value plainly, text in quotes", n.Tag)
		return false
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		d.add(d.mark(n), "YAML merge keys are refused: write the values out")
		return false
	}
	ok := true
	for _, c := range n.Content {
		ok = d.plain(c, depth+1) && ok
	}
	return ok
}

func (d *document) mark(n *yaml.Node) mark { return mark{d.file, n.Line, n.Column} }

// at is the place of a path, or of what it stands in.
func (d *document) at(path []string) mark {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if m, ok := d.marks[strings.Join(path, "/")]; ok {
			return m
		}
	}
	return mark{d.file, 1, 1}
}

// object reads a mapping strictly: each key once, and only known ones.
func (d *document) object(n *yaml.Node, path, what string, known keys) {
	if n.Kind != yaml.MappingNode {
		d.add(d.mark(n), "%s must be a mapping, not %s", what, plain.Kind(n))
		return
	}
	d.entries(n, what, func(key, value *yaml.Node) {
		reads, ok := known[key.Value]
		if !ok {
			d.add(d.mark(key), "unknown key %q%s", key.Value, machine.DidYouMean(key.Value, slices.Sorted(maps.Keys(known))))
			return
		}
		d.marks[strings.TrimPrefix(path+"/"+key.Value, "/")] = d.mark(value)
		if plain.IsNull(value) {
			d.add(d.mark(value), "%s is empty", key.Value)
			return
		}
		reads(value)
	})
}

// entries reads a mapping with names of the author's choice.
func (d *document) entries(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.add(d.mark(n), "%s must be a mapping, not %s", what, plain.Kind(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.Value == "":
			d.add(d.mark(key), "a key of %s must be a name", what)
		case seen[key.Value] > 0 && what == "states":
			d.add(d.mark(key), "duplicate state %q (first in line %d)", key.Value, seen[key.Value])
		case seen[key.Value] > 0:
			d.add(d.mark(key), "key %q is repeated (first in line %d)", key.Value, seen[key.Value])
		default:
			seen[key.Value] = key.Line
			if what == "states" {
				d.marks["states/"+key.Value] = d.mark(key)
			}
			each(key, value)
		}
	}
}

func (d *document) each(n *yaml.Node, path string, read func(item *yaml.Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		d.add(d.mark(n), "%s must be a list, not %s", path[strings.LastIndexByte(path, '/')+1:], plain.Kind(n))
		return
	}
	for i, item := range n.Content {
		p := path + "/" + strconv.Itoa(i)
		d.marks[p] = d.mark(item)
		read(item, p)
	}
}

func (d *document) text(what string, to *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch {
		case n.Kind != yaml.ScalarNode:
			d.add(d.mark(n), "%s must be a string, not %s", what, plain.Kind(n))
		case n.Value == "":
			d.add(d.mark(n), "%s is empty", what)
		default:
			*to = n.Value
		}
	}
}

func (d *document) texts(what, path string, to *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.each(n, path, func(item *yaml.Node, _ string) {
			var s string
			d.text("an entry of "+what, &s)(item)
			*to = append(*to, s)
		})
	}
}

func (d *document) flag(what string, to *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.add(d.mark(n), "%s must be true or false, not %s", what, plain.Kind(n))
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	}
}

func (d *document) duration(what string, to *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := time.ParseDuration(n.Value)
		switch {
		case n.Kind != yaml.ScalarNode || err != nil:
			d.add(d.mark(n), "%s must be a duration such as 30s or 5m, not %s", what, plain.Kind(n))
		case v < machine.ShortestEvery:
			d.add(d.mark(n), "%s must be at least %s, not %s", what, machine.ShortestEvery, n.Value)
		default:
			*to = v
		}
	}
}
