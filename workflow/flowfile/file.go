// Package flowfile reads flows from YAML files.
//
//	flowName: ReplaceReaders
//	input: {type: object, properties: {readers: {type: array, default: []}}}
//	steps:
//	- className: PrepareAll                     # a step group of prepare_step_group.yaml
//	- stepName: Replace
//	  forEach: {list: input.readers, as: ro, key: ro.id, max: 2}
//	  steps:
//	  - {stepName: Create, className: CreateReader, with: {id: "${ro.id}"}, undo: {uses: RemoveReader}}
//	  - {stepName: Caught, wait: {signal: caught-up, deadline: 10m}}
//
// A load has these stages. Every finding has a position in a file:
//
//	files ─▶ decode ─▶ expand (groups become steps) ─▶ compile (CEL, schemas, reads of expressions) ─▶ Set
//
// The engine gets plain functions; only this package knows CEL, JSON Schema and YAML. A
// [workflow.Flow] of this package carries its expanded form as Source. [FromSource] compiles it
// again when the file does not exist any more.
package flowfile

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// FolderEmpty is the fault of a folder that was given to load and holds nothing.
var FolderEmpty = fault.Declare(fault.Kind{
	Code: "FOLDER_EMPTY", Class: fault.Invalid,
	Title:  "the folder holds no file to load",
	Remedy: "Put *.yaml or *.yml files into the folder, or name another one.",
})

// Limits of files.
const (
	maxFileSize   = 1 << 20
	maxSourceSize = 64 << 20
	maxSteps      = 10_000
	maxFlowDepth  = 8
)

// Options of a load.
type Options struct {
	Actions []workflow.Action // actions that className and uses may name, besides groups
	Flows   []string          // names of flows written in Go, which sub-flows may use

	// AnyAction allows actions that are not in Actions, with a warning. Use it to check files for
	// another program.
	AnyAction bool
	// AnyHealer allows faults whose healer is a flow that is not among the files.
	AnyHealer bool
	// Check does not register the faults of the files. Use it to check files that this process does
	// not execute.
	Check bool
}

// File is a file in memory. Its name decides its kind: *_step_group.yaml is a step group,
// *_faults.yaml declares faults, any other file is a flow.
type File struct {
	Name string
	Data []byte
}

// Set is the result of a load. A load returns all flows of the files, or an error.
type Set struct {
	flows    []workflow.Flow
	faults   []fault.Kind
	healers  map[fault.Code]workflow.Healer
	warnings Problems
	library  *library
}

// Flows returns the flows with expanded groups, ordered by name.
func (s *Set) Flows() []workflow.Flow { return slices.Clone(s.flows) }

// Flow returns a flow by its name.
func (s *Set) Flow(name string) (workflow.Flow, bool) {
	i := slices.IndexFunc(s.flows, func(f workflow.Flow) bool { return f.Name == name })
	if i < 0 {
		return workflow.Flow{}, false
	}
	return s.flows[i], true
}

// In returns the flows that one file defines. file is the name under which the file was loaded. (If
// a file is loaded by name, Set may contain flows of other files that it refers to.)
func (s *Set) In(file string) []workflow.Flow {
	return slices.DeleteFunc(s.Flows(), func(f workflow.Flow) bool { return s.library.flows[f.Name].at.file != file })
}

// Faults returns the faults that the files declare, ordered by code.
func (s *Set) Faults() []fault.Kind { return slices.Clone(s.faults) }

// Healers returns the healers that the files declare, for workflow.Options.
func (s *Set) Healers() map[fault.Code]workflow.Healer { return maps.Clone(s.healers) }

// Warnings returns the findings that are not errors.
func (s *Set) Warnings() Problems { return slices.Clone(s.warnings) }

// Load reads flow files. In a folder it reads every *.yaml and *.yml except machine files and tests,
// without subfolders. With a file it also loads the faults of its folder, and the groups and flows of the
// folder that the file refers to. If the content of a file is invalid, the error is a [Problems].
func Load(paths []string, options Options) (*Set, error) {
	named, siblings, err := gather(paths)
	if err != nil {
		return nil, err
	}
	return load(named, siblings, options)
}

// Parse is Load for files in memory.
func Parse(files []File, options Options) (*Set, error) { return load(files, nil, options) }

func load(named, siblings []File, options Options) (*Set, error) {
	if err := distinct(options.Actions); err != nil {
		return nil, err
	}
	l, set := parseAndCheck(named, siblings, options)
	if err := l.err(); err != nil {
		return nil, err
	}
	if !options.Check {
		for _, kind := range set.faults {
			if _, err := fault.Register(kind); err != nil {
				return nil, err // the faults are valid: this happens only in a race with another load
			}
		}
	}
	return set, nil
}

// distinct refuses two actions with the same name.
func distinct(actions []workflow.Action) error {
	seen := map[string]bool{}
	for _, action := range actions {
		if seen[action.Name] {
			return workflow.FlowInvalid.Errorf("two actions are named %q: name them after their packages, as in workflow_shared.InitMeta", action.Name)
		}
		seen[action.Name] = true
	}
	return nil
}

// gather reads the files of folders, the named files, and the other files in their folders.
func gather(paths []string) (named, siblings []File, err error) {
	seen := map[string]bool{}
	add := func(to *[]File, path string, whole bool) error {
		clean := filepath.Clean(path)
		if seen[clean] {
			return nil
		}
		data, err := readFile(path)
		if err != nil {
			return err
		}
		seen[clean] = true
		if !whole || !isMachine(data) {
			*to = append(*to, File{path, data})
		}
		return nil
	}
	var folders []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			if err := add(&named, path, false); err != nil {
				return nil, nil, err
			}
			folders = append(folders, filepath.Dir(path))
			continue
		}
		inside, err := yamlFiles(path)
		if err != nil {
			return nil, nil, err
		}
		if len(inside) == 0 {
			return nil, nil, FolderEmpty.Errorf("%s holds no *.yaml or *.yml file", path)
		}
		for _, file := range inside {
			if err := add(&named, file, true); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, folder := range folders {
		inside, err := yamlFiles(folder)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range inside {
			_ = add(&siblings, file, true) // an unreadable file matters only if another file refers to it
		}
	}
	return named, siblings, nil
}

func yamlFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && !e.IsDir() && !IsTest(e.Name()) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files, nil
}

// readFile reads at most one byte more than the limit. Its error for a larger file contains the
// name.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, workflow.FlowInvalid.Errorf("%s is no regular file", path)
	}
	if info.Size() > maxFileSize {
		return make([]byte, maxFileSize+1), nil
	}
	return os.ReadFile(path)
}

// isMachine recognises a machine file by its first key, as machinefile does.
func isMachine(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line == "---" {
			continue
		}
		return strings.HasPrefix(line, "machine:")
	}
	return false
}

type fileKind int

const (
	flowFile fileKind = iota
	groupFile
	faultFile
)

func kindOfFile(name string) fileKind {
	switch base := strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".yml"); {
	case strings.HasSuffix(base, "_step_group"):
		return groupFile
	case strings.HasSuffix(base, "_faults"):
		return faultFile
	}
	return flowFile
}

// parseAndCheck performs a load without registering faults. It returns the documents with their
// findings, and the set.
func parseAndCheck(named, siblings []File, options Options) (*library, *Set) {
	l := newLibrary(options)
	for _, file := range named {
		l.read(file)
	}
	l.complete(siblings)
	l.check()
	set := &Set{library: l, flows: l.build(), faults: l.kinds(), healers: l.healers(), warnings: l.sorted().Warnings()}
	slices.SortFunc(set.flows, func(a, b workflow.Flow) int { return cmp.Compare(a.Name, b.Name) })
	return l, set
}

// library holds the documents of a load and finds them by name.
type library struct {
	*report
	options     Options
	actions     map[string]workflow.Action
	groups      map[string]*groupDoc
	flows       map[string]*flowDoc
	order       []*flowDoc
	faults      []*faultDoc
	expressions *expressions
	expanded    bool // reads a Source: actions and flows may be missing
	onKeys      func(string, map[string]read)

	reached    map[*groupDoc]bool
	cyclic     map[*groupDoc]bool
	usedParams map[*groupDoc]map[string]bool
	calls      map[string][]text // by flow: the flows that its steps start
	schemas    map[*schemaDoc]*schema
	unknown    map[string][]position // by name: positions of steps that use it as an action, but no action or group has it
}

func newLibrary(options Options) *library {
	l := &library{
		report: &report{}, options: options, actions: map[string]workflow.Action{}, groups: map[string]*groupDoc{},
		flows: map[string]*flowDoc{}, expressions: newExpressions(), reached: map[*groupDoc]bool{}, cyclic: map[*groupDoc]bool{},
		usedParams: map[*groupDoc]map[string]bool{}, calls: map[string][]text{}, schemas: map[*schemaDoc]*schema{},
		unknown: map[string][]position{},
	}
	for _, action := range options.Actions {
		l.actions[action.Name] = action
	}
	return l
}

// root parses a file up to its root node.
func (l *library) root(file File) (*reader, *yaml.Node) {
	r := &reader{report: l.report, file: file.Name, onKeys: l.onKeys}
	if len(file.Data) > maxFileSize {
		l.errorf(position{file.Name, 1, 1}, "the file is larger than 1 MiB: split it")
		return r, nil
	}
	root := r.parse(file.Data)
	return r, root
}

func (l *library) read(file File) {
	r, root := l.root(file)
	if root == nil {
		return
	}
	if IsTest(file.Name) {
		l.errorf(r.position(root), "this is a file of tests: execute it with pawl test %s", file.Name)
		return
	}
	switch kindOfFile(file.Name) {
	case groupFile:
		l.addGroup(r.group(root))
	case faultFile:
		l.faults = append(l.faults, r.faults(root)...)
	default:
		for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
			key := root.Content[i]
			if why, ok := elsewhere[key.Value]; ok {
				l.errorf(r.position(key), "%s does not belong into a flow file: %s", key.Value, why)
				return
			}
		}
		l.addFlow(r.flow(root))
	}
}

// elsewhere lists keys of other kinds of files.
var elsewhere = map[string]string{
	"groupName":  "a step group is read from *_step_group.yaml",
	"faults":     "faults are read from *_faults.yaml",
	"machine":    "a machine file begins with the key machine",
	"apiVersion": "this is a manifest of Kubernetes",
}

func (l *library) addGroup(g *groupDoc) {
	if g.name.value == "" {
		return
	}
	if other := l.groups[g.name.value]; other != nil {
		l.errorf(g.name.at, "group %s is defined twice (first in %s:%d)", g.name.value, other.name.at.file, other.name.at.line)
		return
	}
	if _, ok := l.actions[g.name.value]; ok {
		l.errorf(g.name.at, "group %s has the name of an action", g.name.value)
	}
	l.groups[g.name.value] = g
}

func (l *library) addFlow(f *flowDoc) {
	if f.name.value == "" {
		return
	}
	if other := l.flows[f.name.value]; other != nil {
		l.errorf(f.name.at, "flow %s is defined twice (first in %s:%d)", f.name.value, other.name.at.file, other.name.at.line)
		return
	}
	l.flows[f.name.value] = f
	l.order = append(l.order, f)
}

// complete adds the groups and flows that the named files refer to, and the faults in their
// folders.
func (l *library) complete(siblings []File) {
	groups, flows := map[string]File{}, map[string]File{}
	for _, file := range siblings {
		if kindOfFile(file.Name) == faultFile {
			l.read(file)
			continue
		}
		quiet := &library{report: &report{}}
		r, root := quiet.root(file)
		if root == nil || root.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(root.Content); i += 2 {
			switch name := root.Content[i+1].Value; root.Content[i].Value {
			case "groupName":
				groups[name] = File{r.file, file.Data}
			case "flowName":
				flows[name] = File{r.file, file.Data}
			}
		}
	}
	for more := true; more; {
		more = false
		wantGroups, wantFlows := l.referenced()
		for name := range wantGroups {
			if file, ok := groups[name]; ok && l.groups[name] == nil {
				delete(groups, name)
				l.read(file)
				more = true
			}
		}
		for name := range wantFlows {
			if file, ok := flows[name]; ok && l.flows[name] == nil {
				delete(flows, name)
				l.read(file)
				more = true
			}
		}
	}
}

// referenced returns the names of the groups and flows that the documents use.
func (l *library) referenced() (groups, flows map[string]bool) {
	groups, flows = map[string]bool{}, map[string]bool{}
	note := func(s *stepDoc) {
		groups[s.uses.value] = true
		if s.flow != nil {
			flows[s.flow.name.value] = true
		}
	}
	for _, f := range l.order {
		everyStep(slices.Concat(f.steps, f.finally), note)
	}
	for _, g := range l.groups {
		everyStep(g.steps, note)
	}
	for _, f := range l.faults {
		flows[f.flow.value] = true
	}
	return groups, flows
}

// everyStep visits steps and the steps written within them. It does not enter groups.
func everyStep(steps []*stepDoc, visit func(*stepDoc)) {
	for _, s := range steps {
		if s == nil {
			continue
		}
		visit(s)
		everyStep(s.body, visit)
		if s.parallel != nil {
			for _, b := range s.parallel.branches {
				everyStep(b.steps, visit)
			}
		}
		if s.bracket != nil {
			everyStep([]*stepDoc{s.bracket.open, s.bracket.close}, visit)
		}
	}
}
