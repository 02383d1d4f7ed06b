package machinefile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

const largestFile = 1 << 20 // bytes

// Options of a load.
type Options struct {
	Actions []workflow.Action // what action and observe may name
	Flows   []string          // what flow may name
	// AnyAction and AnyFlow allow what is not among them: for looking at files
	// whose actions and flows are part of another program.
	AnyAction, AnyFlow bool
	// Warn is told what is worth a look in files that load. nil: nobody.
	Warn func(flowfile.Problem)
}

// Load reads machine files. Of a folder it takes every *.yaml and *.yml that
// begins with the key machine, without descending. It gives all machines,
// ordered by name, or none. An error about the content of files is
// [flowfile.Problems], the type that flow files have, too.
func Load(paths []string, options Options) ([]machine.Standalone, error) {
	var files []flowfile.File
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			data, err := readFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, flowfile.File{Name: path, Data: data})
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			ext := filepath.Ext(e.Name())
			if e.IsDir() || ext != ".yaml" && ext != ".yml" {
				continue
			}
			name := filepath.Join(path, e.Name())
			data, err := readFile(name)
			if err != nil {
				return nil, err
			}
			if IsMachine(data) {
				files = append(files, flowfile.File{Name: name, Data: data})
			}
		}
	}
	return Parse(files, options)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > largestFile {
		return nil, fmt.Errorf("%s has %d bytes; a machine file has at most %d", path, info.Size(), largestFile)
	}
	return os.ReadFile(path)
}

// IsMachine tells whether a YAML file is a machine: its first key is machine.
func IsMachine(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line == "---" {
			continue
		}
		return strings.HasPrefix(line, "machine:")
	}
	return false
}

// Parse is Load for files in memory.
func Parse(files []flowfile.File, options Options) ([]machine.Standalone, error) {
	var out []machine.Standalone
	found := &report{}
	names, kinds := map[string]string{}, map[string]string{}
	for _, file := range files {
		d := read(file, found)
		if d == nil {
			continue
		}
		for key, seen := range map[string]map[string]string{"machine": names, "kind": kinds} {
			value := map[string]string{"machine": d.name, "kind": d.kind}[key]
			if first, twice := seen[value]; twice && value != "" {
				found.add(d.marks[key], "%s %q is also that of %s", key, value, first)
			}
			seen[value] = file.Name
		}
		out = append(out, compile(d, options))
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	for _, warning := range found.problems {
		if options.Warn != nil {
			options.Warn(warning)
		}
	}
	slices.SortFunc(out, func(a, b machine.Standalone) int { return cmp.Compare(a.Table.Name, b.Table.Name) })
	return out, nil
}

// report collects problems; the same finding at the same place counts once.
type report struct{ problems flowfile.Problems }

type mark struct {
	file         string
	line, column int
}

func (r *report) add(at mark, format string, args ...any) {
	p := flowfile.Problem{File: at.file, Line: max(at.line, 1), Column: max(at.column, 1),
		Message: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")}
	if !slices.Contains(r.problems, p) {
		r.problems = append(r.problems, p)
	}
}

// warn adds what is worth a look. The file loads.
func (r *report) warn(at mark, format string, args ...any) {
	n := len(r.problems)
	r.add(at, format, args...)
	if len(r.problems) > n {
		r.problems[n].Warning = true
	}
}

func (r *report) err() error {
	r.problems.Sort()
	if len(r.problems.Errors()) > 0 {
		return r.problems
	}
	return nil
}

// problemsOf gives the findings of a load by flowfile.
func problemsOf(err error) flowfile.Problems {
	var found flowfile.Problems
	if errors.As(err, &found) {
		return found.Errors()
	}
	if err != nil {
		return flowfile.Problems{{Message: err.Error()}}
	}
	return nil
}
