// Package manifest reads objects from files, and checks them before anything is stored.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// Manifest is an object as people write it, and its position.
//
//	kind: etcd
//	metadata: {name: c1, namespace: default, labels: {tier: gold}}
//	spec: {members: 3}
//
// What `pawl get -o yaml` prints is one, too: what the store sets is left out.
type Manifest struct {
	Object     control.Object
	APIVersion string // empty: it has none
	File       string
	Line       int
	Column     int
	free       bool // it names no namespace

	kind, spec *yaml.Node // their nodes; nil: absent
}

// The keys of manifests, and those that only the store sets.
var (
	manifestKeys = []string{"kind", "metadata", "spec", "apiVersion", "namespace", "name", "labels", "annotations", "finalizers", "owner", "data"}
	metadataKeys = []string{"name", "namespace", "labels", "annotations", "finalizers"}
	storeKeys    = []string{"status", "uid", "generation", "revision", "createdAt", "deletionMark"}
)

// ReadManifests reads files, folders and - for standard input. All findings are reported.
func ReadManifests(paths []string, in io.Reader) ([]Manifest, error) {
	var all []Manifest
	var problems flowfile.Problems
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return nil, cli.FileWrong.Errorf("%w", err)
		}
		for _, file := range files {
			data, err := cli.ReadInput(file, in)
			if err != nil {
				return nil, err
			}
			name := file
			if file == "-" {
				name = "stdin"
			}
			found, wrong := ParseManifests(name, data)
			all, problems = append(all, found...), append(problems, wrong...)
		}
	}
	if len(problems) > 0 {
		problems.Sort()
		return nil, problems
	}
	if len(all) == 0 {
		return nil, cli.FileWrong.Errorf("%s: there is no object in it", strings.Join(paths, ", "))
	}
	return all, nil
}

// InNamespace puts objects into a namespace, whatever they say; without one those
// that name none into that of the cluster's context.
func InNamespace(home string, manifests []Manifest, namespace string) {
	for i := range manifests {
		m := &manifests[i]
		switch {
		case namespace != "":
			m.Object.Namespace = namespace
		case m.free && home != "":
			m.Object.Namespace = home
		}
	}
}

func manifestFiles(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

// ParseManifests reads the documents of a file.
func ParseManifests(file string, data []byte) ([]Manifest, flowfile.Problems) {
	var all []Manifest
	var problems flowfile.Problems
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all, problems
		}
		if err != nil {
			return all, append(problems, syntaxProblem(file, err))
		}
		if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
			continue
		}
		for _, item := range itemsOf(doc.Content[0]) {
			m, wrong := parseManifest(file, item)
			problems = append(problems, wrong...)
			if len(wrong) == 0 {
				all = append(all, m)
			}
		}
	}
}

// itemsOf splits a list, as `pawl get KIND -o yaml` prints it.
func itemsOf(root *yaml.Node) []*yaml.Node {
	if root.Kind == yaml.MappingNode && len(root.Content) >= 2 && root.Content[0].Value == "items" && root.Content[1].Kind == yaml.SequenceNode {
		return root.Content[1].Content
	}
	return []*yaml.Node{root}
}

func syntaxProblem(file string, err error) flowfile.Problem {
	p := flowfile.Problem{File: file, Line: 1, Column: 1, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if rest, ok := strings.CutPrefix(p.Message, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(number); err == nil {
				p.Line, p.Message = line, text
			}
		}
	}
	return p
}

// manifestReader collects the errors of one object.
type manifestReader struct {
	file     string
	problems flowfile.Problems
}

func (r *manifestReader) wrong(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, flowfile.Problem{File: r.file, Line: max(n.Line, 1), Column: max(n.Column, 1), Message: fmt.Sprintf(format, args...)})
}

func parseManifest(file string, root *yaml.Node) (Manifest, flowfile.Problems) {
	r := &manifestReader{file: file}
	if root.Kind != yaml.MappingNode {
		r.wrong(root, "this is no object: it is {kind, metadata: {name}, spec}")
		return Manifest{}, r.problems
	}
	switch first := root.Content[0].Value; first {
	case "flowName", "groupName", "faults", "machine":
		r.wrong(root.Content[0], "this is a definition (%s), not an object: a server loads it with --flows or --machines", first)
		return Manifest{}, r.problems
	}
	m := Manifest{File: file, Line: root.Line, Column: root.Column}
	named := root
	var data *yaml.Node
	r.keys(root, manifestKeys, true, func(key, value *yaml.Node) {
		switch key.Value {
		case "kind":
			m.Object.Kind, m.kind = r.text(value), value
		case "spec":
			m.Object.Spec, m.spec = r.json(value), value
		case "metadata":
			named = value
			if value.Kind != yaml.MappingNode {
				r.wrong(value, "metadata is no mapping")
				return
			}
			r.keys(value, metadataKeys, true, func(key, value *yaml.Node) { r.meta(&m.Object, key, value) })
		case "apiVersion":
			m.APIVersion = value.Value
		case "data": // of a ConfigMap, which is stored as spec.data
			data = key
			m.Object.Spec = r.json(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: key.Line, Column: key.Column, Content: []*yaml.Node{key, value}})
		case "owner":
			r.into(value, &m.Object.Owner)
		default:
			r.meta(&m.Object, key, value)
		}
	})
	if data != nil && m.Object.Kind != "ConfigMap" {
		r.wrong(data, "unknown key \"data\": only a ConfigMap has it")
	}
	if m.Object.Kind == "" {
		r.wrong(root, "kind is missing")
	}
	if m.free = m.Object.Namespace == ""; m.free {
		m.Object.Namespace = "default"
	}
	if m.Object.Name == "" {
		r.wrong(named, "metadata.name is missing")
	}
	if len(r.problems) == 0 {
		if err := m.Object.Validate(); err != nil {
			r.wrong(root, "%s", strings.TrimPrefix(err.Error(), string(control.Invalid.Code)+": "))
		}
	}
	return m, r.problems
}

func (r *manifestReader) meta(o *control.Object, key, value *yaml.Node) {
	switch key.Value {
	case "name":
		o.Name = r.text(value)
	case "namespace":
		o.Namespace = r.text(value)
	case "labels":
		r.into(value, &o.Labels)
	case "annotations":
		r.into(value, &o.Annotations)
	case "finalizers":
		r.into(value, &o.Finalizers)
	}
}

func (r *manifestReader) keys(n *yaml.Node, known []string, store bool, each func(key, value *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case seen[key.Value]:
			r.wrong(key, "%q is there twice", key.Value)
		case slices.Contains(known, key.Value):
			each(key, n.Content[i+1])
		case store && slices.Contains(storeKeys, key.Value):
		default:
			r.wrong(key, "unknown key %q%s", key.Value, cli.Suggest(key.Value, known))
		}
		seen[key.Value] = true
	}
}

func (r *manifestReader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.wrong(n, "this is no text: put it in quotation marks")
		return ""
	}
	return n.Value
}

func (r *manifestReader) into(n *yaml.Node, v any) {
	if err := n.Decode(v); err != nil {
		r.wrong(n, "%s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))
	}
}

func (r *manifestReader) json(n *yaml.Node) json.RawMessage {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "spec is no mapping")
		return nil
	}
	var value any
	r.into(n, &value)
	data, err := json.Marshal(value)
	if err != nil {
		r.wrong(n, "spec cannot be written as JSON: %v", err)
	}
	return data
}
