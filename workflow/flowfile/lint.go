package flowfile

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
)

// Lint checks files as [Load] does and returns every finding, ordered by position: errors, and
// warnings for doubtful but valid content, such as a wait without deadline. It registers nothing.
// It returns an error only if it cannot read the files.
func Lint(paths []string, options Options) (Problems, error) {
	named, siblings, err := gather(paths)
	if err == nil {
		err = distinct(options.Actions)
	}
	if err != nil {
		return nil, err
	}
	options.Check = true
	l, _ := parseAndCheck(named, siblings, options)
	return l.sorted(), nil
}

// lint adds the warnings about valid documents.
func (l *library) lint() {
	for _, f := range l.order {
		everyStep(slices.Concat(f.steps, f.finally), l.lintStep)
		if len(f.migrations) > 0 && f.onChange != "migrate" {
			l.warnf(f.at, "flow %s has migrations, but onChange is not migrate: they are used only by resume --on-definition new", f.name.value)
		}
	}
	used := map[string]bool{}
	note := func(s *stepDoc) { used[s.uses.value] = true }
	for _, f := range l.order {
		everyStep(slices.Concat(f.steps, f.finally), note)
	}
	for _, g := range l.groups {
		everyStep(g.steps, l.lintStep)
		everyStep(g.steps, note)
	}
	for _, name := range keysOf(l.groups) {
		if g := l.groups[name]; !used[name] && len(l.order) > 0 {
			l.warnf(g.name.at, "group %s is not used", name)
		}
	}
}

func (l *library) lintStep(s *stepDoc) {
	name := s.name.value
	if name == "" {
		name = s.uses.value
	}
	switch w := s.wait; {
	case w != nil && w.deadline == 0 && w.signal.set():
		l.warnf(w.at, "%s waits for signal %s without deadline: it may wait for ever", name, w.signal.value)
	case w != nil && w.deadline == 0 && w.condition.set():
		l.warnf(w.at, "%s waits for a condition without deadline: it may wait for ever", name)
	case w == nil || w.deadline == 0:
		if slices.Contains([]string{"signal", "approval"}, s.uses.value) && l.groups[s.uses.value] == nil && s.with != nil && !has(s.with, "deadline") {
			l.warnf(s.uses.at, "%s waits without deadline: it may wait for ever", name)
		}
	}
	if s.uses.value == "exec" {
		l.lintExec(s)
	}
	if s.uses.value == "exec" || s.uses.value == "http" {
		l.lintSecrets(s, s.withNode)
	}
}

// lintSecrets warns if the step does not declare the secret of {secret: name}.
func (l *library) lintSecrets(s *stepDoc, n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "secret" && n.Content[1].Kind == yaml.ScalarNode {
		if name := n.Content[1].Value; !strings.Contains(name, "${") {
			if _, ok := s.secrets[name]; !ok {
				l.warnf(position{s.at.file, n.Content[1].Line, n.Content[1].Column}, "the step declares no secret %q%s: add it to its secrets", name, hint(name, keysOf(s.secrets)))
			}
		}
	}
	for _, child := range n.Content {
		l.lintSecrets(s, child)
	}
}

// inScript finds ${input.x} and ${steps["A"].x}: expressions, since no variable of a shell has a dot in its name.
var inScript = regexp.MustCompile(`\$\{\s*(?:` + strings.Join(reservedNames, "|") + `)(?:\[[^\]]*\])?\.[^}]*\}`)

// lintExec reports exit codes whose fault nothing declares, and expressions in a script.
func (l *library) lintExec(s *stepDoc) {
	var with struct {
		Faults map[string]any `json:"faults"`
		Shell  string         `json:"shell"`
	}
	if json.Unmarshal(s.with, &with) != nil {
		return
	}
	if found := inScript.FindString(with.Shell); found != "" {
		at := s.uses.at
		if n := descend(s.withNode, "shell"); n != nil {
			at.line, at.column = n.Line, n.Column
		}
		l.errorf(at, "a shell script holds no expressions, and to the shell %s is a bad substitution: add env: {NAME: \"%s\"} to with, and write \"$NAME\" in the script", found, found)
	}
	for _, exit := range keysOf(with.Faults) {
		code, ok := with.Faults[exit].(string)
		if !ok || strings.Contains(code, "${") || l.knowsCode(fault.Code(code)) {
			continue
		}
		at := s.uses.at
		if n := descend(s.withNode, "faults"); n != nil {
			at.line, at.column = n.Line, n.Column
		}
		l.errorf(at, "exit code %s stands for %s, which is not declared here: declare it in a *_faults.yaml", exit, code)
	}
}

func has(with json.RawMessage, key string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(with, &object) == nil && object[key] != nil
}
