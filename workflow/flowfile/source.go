package flowfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
)

// FromSource compiles the Source of a flow that was loaded earlier, so that a run continues with
// its stored definition after the file was changed or removed. It is a value for
// workflow.Options.Compile. Missing actions and sub-flows are not an error here: the engine fails
// with ACTION_MISSING when the run reaches them.
func FromSource(source []byte, options Options) (workflow.Flow, error) {
	l := newLibrary(options)
	l.expanded = true
	const name = "definition"
	if len(source) > maxSourceSize {
		return workflow.Flow{}, fmt.Errorf("the stored definition is larger than %d MiB", maxSourceSize>>20)
	}
	root, err := jsonNode(source)
	if err != nil {
		return workflow.Flow{}, fmt.Errorf("the stored definition: %w", err)
	}
	r := &reader{report: l.report, file: name, expanded: true}
	f := r.flow(root)
	flow, _ := l.flow(f)
	if err := l.err(); err != nil {
		return workflow.Flow{}, fmt.Errorf("the stored definition: %w", err)
	}
	return flow, nil
}

// nodeOf converts JSON that this package has encoded to a node.
func nodeOf(data json.RawMessage) *yaml.Node {
	n, err := jsonNode(data)
	if err != nil {
		panic(err) // canonical JSON only
	}
	return n
}

// jsonNode converts JSON to YAML nodes. The YAML parser refuses some characters that JSON may
// contain.
func jsonNode(data []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	n, err := readNode(d, 0)
	if err == nil && d.More() {
		err = fmt.Errorf("there is more behind the value")
	}
	return n, err
}

// maxJSONDepth limits the nesting of a stored definition. Expanded groups nest their parameters
// more deeply than the files.
const maxJSONDepth = 10_000

func readNode(d *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxJSONDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	plain := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Line: 1, Column: 1}, nil
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: 1, Column: 1}
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for d.More() {
			child, err := readNode(d, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := d.Token()
		return n, err
	case string:
		n := scalar(t)
		n.Line, n.Column = 1, 1
		return n, nil
	case json.Number:
		if _, err := t.Int64(); err == nil {
			return plain("!!int", t.String())
		}
		return plain("!!float", t.String())
	case bool:
		return plain("!!bool", fmt.Sprint(t))
	}
	return plain("!!null", "null")
}

// object is a mapping of the canonical form. It omits empty values.
type object map[string]any

func (o object) set(key string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case bool:
		if !v {
			return
		}
	case int:
		if v == 0 {
			return
		}
	case float64:
		if v == 0 {
			return
		}
	case time.Duration:
		if v == 0 {
			return
		}
		value = v.String()
	case json.RawMessage:
		if v == nil {
			return
		}
	case object:
		if len(v) == 0 {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	}
	o[key] = value
}

// encodeFlow encodes the expanded flow as canonical JSON. The keys are those of flow files, sorted.
// Groups are resolved, and each step contains its defaults.
func encodeFlow(f *flowDoc, steps, finally []*node) []byte {
	o := object{"flowName": f.name.value, "steps": encodeSteps(steps)}
	o.set("version", f.version)
	o.set("description", f.description)
	o.set("recoverFromFirstStep", f.fromFirst)
	o.set("deadline", f.deadline)
	o.set("onDeadline", string(f.onDeadline))
	o.set("onChange", string(f.onChange))
	o.set("result", f.result.value)
	o.set("finally", encodeSteps(finally))
	if f.input != nil {
		o.set("input", f.input.raw)
	}
	limits := object{}
	limits.set("attempts", f.attempts)
	limits.set("output", f.maxOutput)
	limits.set("runs", encodeLimits(f.runs))
	o.set("limits", limits)
	if r := f.retention; r != nil {
		kept := object{}
		kept.set("age", r.Age)
		kept.set("keep", r.Keep)
		kept.set("most", r.Max)
		o.set("retention", kept)
	}
	var migrations []any
	for _, m := range f.migrations {
		one := object{"from": m.From}
		if m.Rename != nil {
			one["rename"] = m.Rename
		}
		if m.Drop != nil {
			one["drop"] = m.Drop
		}
		if m.Insert != nil {
			one["insert"] = m.Insert
		}
		migrations = append(migrations, one)
	}
	o.set("migrations", migrations)
	return canonical(o)
}

func encodeSteps(nodes []*node) []any {
	steps := make([]any, 0, len(nodes))
	for _, n := range nodes {
		steps = append(steps, encodeStep(n))
	}
	return steps
}

func encodeStep(n *node) object {
	s := n.doc
	o := object{"stepName": n.name}
	o.set("description", s.description)
	o.set("when", s.when.value)
	if l := s.forEach; l != nil {
		loop := object{"list": l.list.value, "as": l.as.value}
		loop.set("key", l.key.value)
		loop.set("max", l.max)
		o["forEach"] = loop
	}
	if n.children != nil {
		encodeStructure(o, n)
		return o
	}
	o.set("uses", s.uses.value)
	o.set("with", s.with)
	if s.flow != nil {
		child := object{"name": s.flow.name.value}
		child.set("subject", s.flow.subject.value)
		o["flow"] = child
	}
	if s.undo != nil {
		undo := object{"uses": s.undo.uses.value}
		undo.set("with", s.undo.with)
		o["undo"] = undo
	}
	o.set("noReturn", s.noReturn)
	o.set("maxOutput", s.maxOutput)
	if s.output != nil {
		o.set("output", s.output.raw)
	}
	secrets := object{}
	for name, ref := range s.secrets {
		secrets[name] = object{"secretRef": ref}
	}
	o.set("secrets", secrets)
	o.set("limits", encodeLimits(s.limits))
	if s.wait != nil {
		o["wait"] = encodeWait(s.wait)
	}
	encodePolicy(o, n.policy)
	return o
}

func encodeLimits(limits []limitDoc) (list []any) {
	for _, l := range limits {
		o := object{"key": l.key.value}
		o.set("atOnce", l.atOnce)
		o.set("rate", l.rate.String())
		list = append(list, o)
	}
	return list
}

func encodeStructure(o object, n *node) {
	if n.groupName != "" {
		o["group"] = n.groupName
		if n.params != nil {
			quiet := &reader{report: &report{}}
			o["with"] = quiet.json(n.params)
			if len(n.types) > 0 {
				o["types"] = n.types
			}
		}
	}
	if n.open != nil && n.close != nil {
		o["bracket"] = object{"open": encodeStep(n.open), "close": encodeStep(n.close)}
	}
	p := n.doc.parallel
	if p == nil {
		o["steps"] = encodeSteps(n.children)
		return
	}
	branches := make([]any, 0, len(n.children))
	for _, child := range n.children {
		b := object{"name": child.name, "steps": encodeSteps(child.children)}
		b.set("description", child.branch.description)
		b.set("when", child.branch.when.value)
		branches = append(branches, b)
	}
	parallel := object{"branches": branches}
	parallel.set("max", p.max)
	o["parallel"] = parallel
}

func encodeWait(w *waitDoc) object {
	o := object{}
	o.set("for", w.duration)
	o.set("until", w.until.value)
	o.set("signal", w.signal.value)
	o.set("condition", w.condition.value)
	o.set("every", w.every)
	o.set("deadline", w.deadline)
	o.set("onTimeout", string(w.onTimeout))
	if w.schema != nil {
		o.set("schema", w.schema.raw)
	}
	return o
}

func encodePolicy(o object, p policy) {
	retry := object{}
	retry.set("attempts", p.retry.Attempts)
	retry.set("first", p.retry.First)
	retry.set("factor", p.retry.Factor)
	retry.set("longest", p.retry.Longest)
	if p.jitter != nil {
		retry["jitter"] = *p.jitter
	}
	if p.retry.Not != nil {
		retry["not"] = p.retry.Not
	}
	o.set("retry", retry)
	o.set("timeout", p.timeout)
	o.set("heartbeat", p.heartbeat)
	o.set("grace", p.grace)
	if p.skippable != nil {
		o["skippable"] = *p.skippable
	}
}
