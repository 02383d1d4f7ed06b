package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/testfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// loaded holds the definitions of files, for inspection and not for execution.
type loaded struct{ library.Library }

// LoadFiles reads flows and machines whose actions need not be known here. A file that is named by itself is read with the
// faults that are declared beside it.
func LoadFiles(paths []string) (loaded, error) {
	if err := exist(paths); err != nil {
		return loaded{}, err
	}
	all := withFaults(paths)
	lib, err := library.Load(all, nil, flowfile.Options{Actions: knownActions(), AnyAction: true, AnyHealer: len(all) > len(paths), Check: true})
	return loaded{lib}, err
}

// withFaults adds the files of faults that stand beside files. Flows that heal them may be missing then.
func withFaults(paths []string) []string {
	all, known := slices.Clone(paths), map[string]bool{}
	for _, path := range paths {
		known[absolute(path)] = true
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.IsDir() || known[absolute(filepath.Dir(path))] {
			continue
		}
		beside, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*_faults.yaml"))
		if err != nil {
			continue // of a folder whose name is a bad pattern
		}
		for _, one := range beside {
			if !known[absolute(one)] {
				known[absolute(one)] = true
				all = append(all, one)
			}
		}
	}
	return all
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return filepath.Clean(path)
}

func exist(paths []string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return cli.FileWrong.Errorf("%w", err)
		}
	}
	return nil
}

// knownActions are all ready-made actions, so that their parameters are checked.
func knownActions() []workflow.Action {
	actions, err := action.Standard(action.Options{Only: action.Names(), Status: noStatus{}})
	if err != nil {
		panic(err) // the options are constant
	}
	return actions
}

type noStatus struct{ action.StatusWriter }

func (l loaded) Flow(name string) (workflow.Flow, bool) {
	for _, f := range l.Flows {
		if f.Name == name {
			return f, true
		}
	}
	return workflow.Flow{}, false
}

func (a verbs) lintCommand() *cobra.Command {
	var anyAction, strict bool
	cmd := &cobra.Command{
		Use: "lint PATH...", Short: "Check files of flows, groups, faults, machines and tests",
		Long: `Reports everything that is wrong as file:line:column: message, and warns of what
loads and is still worth a look. An action that nobody knows is one finding, at
the first step that uses it. A folder without files of its own is read as
DIR/TYPE/*.yaml: each folder below it by itself. Exit code 1 if there is an error.`,
		Example: "  pawl lint flows/\n  pawl lint create.yaml --strict\n  pawl lint legacy/ --any-action",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.Verb(func(_ context.Context, _ *cobra.Command, args []string) error {
			found, err := lint(args, anyAction)
			if err != nil {
				return err
			}
			if found == nil {
				found = flowfile.Problems{}
			}
			for _, folder := range unread(args) {
				a.Hint("not looked at: %s, whose files are deeper; name it as well if they are flows", folder)
			}
			if err := a.Emit(cli.ListOf(found), nil, func() string {
				var b strings.Builder
				for _, p := range found {
					b.WriteString(lintLine(p) + "\n")
				}
				return b.String()
			}); err != nil {
				return err
			}
			if len(found.Errors()) > 0 || strict && len(found) > 0 {
				return cli.End(view.ExitFailed)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&anyAction, "any-action", false, "allow actions that another program registers")
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings are errors")
	return cmd
}

func lintLine(p flowfile.Problem) string {
	line := p.String()
	if p.Warning && !strings.Contains(line, "warning") {
		head := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
		return head + "warning: " + strings.TrimPrefix(line, head)
	}
	return line
}

// lint returns every finding in flows and machines.
func lint(paths []string, anyAction bool) (flowfile.Problems, error) {
	if err := exist(paths); err != nil {
		return nil, err
	}
	together, apart, err := lintSets(paths)
	if err != nil {
		return nil, err
	}
	var found flowfile.Problems
	if len(together) > 0 {
		if found, err = lintTogether(together, anyAction); err != nil {
			return nil, err
		}
	}
	for _, folder := range apart {
		more, err := lintTogether([]string{folder}, anyAction)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// lintSets groups the paths that are checked together: a folder
// without files of its own is one of folders, <dir>/<type>/*.yaml, where each
// type of resource has flows of its own and the same names may come again.
func lintSets(paths []string) (together, apart []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, cli.FileWrong.Errorf("%w", err)
		}
		var below []string
		if info.IsDir() {
			files, _ := fs.Glob(os.DirFS(path), "*/*.y*ml") // the pattern is valid
			for _, file := range files {
				below = append(below, filepath.Join(path, filepath.Dir(file)))
			}
			if own, _ := fs.Glob(os.DirFS(path), "*.y*ml"); len(own) > 0 {
				below = nil
			}
		}
		if len(below) == 0 {
			together = append(together, path)
			continue
		}
		apart = append(apart, slices.Compact(below)...)
	}
	return together, apart, nil
}

// unread returns folders below the named ones that hold YAML files but are too deep
// to be read.
func unread(paths []string) []string {
	together, apart, err := lintSets(paths)
	if err != nil {
		return nil
	}
	read := slices.Concat(paths, together, apart)
	var folders []string
	for _, root := range paths {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // unreadable folders are not reported
			case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
				return fs.SkipDir
			case entry.IsDir():
				return nil
			}
			folder, ext := filepath.Dir(path), filepath.Ext(path)
			known := path == root || slices.ContainsFunc(read, func(p string) bool { return filepath.Clean(p) == filepath.Clean(folder) }) || slices.Contains(folders, folder)
			if !known && (ext == ".yaml" || ext == ".yml") {
				folders = append(folders, folder)
			}
			return nil
		})
	}
	return folders
}

// lintTogether returns every finding in files that refer to each other.
func lintTogether(paths []string, anyAction bool) (flowfile.Problems, error) {
	tests, err := testFiles(paths, false)
	if err != nil {
		return nil, err
	}
	var flowPaths, machinePaths []string
	for _, path := range paths {
		if flowfile.IsTest(path) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.FileWrong.Errorf("%w", err)
		}
		isMachine := false
		if !info.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, cli.FileWrong.Errorf("%w", err)
			}
			isMachine = machinefile.IsMachine(data)
		}
		if !isMachine {
			flowPaths = append(flowPaths, path)
		}
		if isMachine || info.IsDir() {
			machinePaths = append(machinePaths, path)
		}
	}
	var found flowfile.Problems
	options := flowfile.Options{Actions: knownActions(), AnyAction: anyAction, Check: true}
	var flows []string
	if len(flowPaths) > 0 {
		var err error
		if found, err = flowfile.Lint(flowPaths, options); err != nil {
			return nil, err
		}
		if lib, err := library.Load(flowPaths, nil, flowfile.Options{Actions: options.Actions, AnyAction: true, Check: true}); err == nil {
			for _, f := range lib.Flows {
				flows = append(flows, f.Name)
			}
		}
	}
	if len(machinePaths) > 0 {
		// A machine that is checked alone names flows of other files.
		_, err := machinefile.Load(machinePaths, machinefile.Options{Actions: options.Actions, AnyAction: anyAction, Flows: flows, AnyFlow: len(flows) == 0,
			Warn: func(p flowfile.Problem) { found = append(found, p) }})
		var wrong flowfile.Problems
		if err != nil && !errors.As(err, &wrong) {
			return nil, err
		}
		found = append(found, wrong...)
	}
	for _, path := range tests {
		wrong, err := testfile.Lint(path, options.Actions)
		if err != nil {
			return nil, err
		}
		found = append(found, wrong...)
	}
	return found, nil
}

func (a verbs) graphCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "graph FILE", Short: "Draw a flow or a machine in Mermaid",
		Example: "  pawl graph create.yaml > create.mmd\n  pawl graph flows/ --flow CreateCluster",
		Args:    cobra.ExactArgs(1),
		RunE: a.Verb(func(_ context.Context, _ *cobra.Command, args []string) error {
			text, err := graph(args[0], name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, strings.TrimSpace(text))
			return err
		}),
	}
	cmd.Flags().StringVar(&name, "flow", "", "`name` of the flow or machine, if the file or folder holds several")
	return cmd
}

func graph(path, name string) (string, error) {
	if data, err := os.ReadFile(path); err == nil && machinefile.IsMachine(data) {
		machines, err := machinefile.Load([]string{path}, machinefile.Options{Actions: knownActions(), AnyAction: true, AnyFlow: true})
		if err != nil {
			return "", err
		}
		return machines[0].Table.Mermaid(), nil
	}
	lib, err := LoadFiles([]string{path})
	if err != nil {
		return "", err
	}
	if name == "" {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			if name, err = FlowName(path); err != nil {
				return "", err
			}
		}
	}
	var names []string
	for _, f := range lib.Flows {
		if f.Name == name || name == "" && len(lib.Flows) == 1 {
			return flowfile.Graph(f), nil
		}
		names = append(names, f.Name)
	}
	for _, m := range lib.Machines {
		if m.Table.Name == name {
			return m.Table.Mermaid(), nil
		}
		names = append(names, m.Table.Name)
	}
	if name != "" {
		return "", cli.Usage.Errorf("%s holds no %s%s", path, name, cli.Suggest(name, names))
	}
	return "", cli.Usage.Errorf("%s holds %s: choose one with --flow", path, strings.Join(names, ", "))
}

func (a verbs) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff OLD NEW", Short: "Compare two definitions, and name the active runs concerned",
		Example: "  pawl diff v1/create.yaml v2/create.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if err := exist(args); err != nil {
				return err
			}
			options := flowfile.Options{Actions: knownActions(), AnyAction: true, Check: true}
			before, err := flowfile.Load(args[:1], options)
			if err != nil {
				return err
			}
			after, err := flowfile.Load(args[1:], options)
			if err != nil {
				return err
			}
			diffs, err := flowfile.DiffSets(before, after)
			if err != nil {
				return err
			}
			return a.countConcerned(ctx, diffs, after)
		}),
	}
}

// affectedRuns is a difference and the runs it concerns.
type affectedRuns struct {
	flowfile.FlowDiff
	ActiveRuns []string        `json:"activeRuns"`
	OnChange   workflow.Change `json:"onChange,omitempty"`
}

func (a verbs) countConcerned(ctx context.Context, diffs []flowfile.FlowDiff, after *flowfile.Set) error {
	b, err := a.openForCount(ctx)
	if err != nil {
		return err
	}
	if b != nil {
		defer b.Close()
	}
	concerns := []affectedRuns{}
	var text strings.Builder
	for _, d := range diffs {
		c := affectedRuns{FlowDiff: d, ActiveRuns: []string{}}
		if f, ok := after.Flow(d.Flow); ok {
			c.OnChange = f.OnChange
			if c.OnChange == "" {
				c.OnChange = workflow.ChangeFinish
			}
		}
		if b != nil && d.HashDiffers() && d.OldHash != "" {
			page, err := b.List(ctx, runstore.Query{Hash: d.OldHash, Active: true, Limit: 500})
			if err != nil {
				return err
			}
			for _, r := range page.Items {
				c.ActiveRuns = append(c.ActiveRuns, r.ID)
			}
		}
		concerns = append(concerns, c)
		if len(d.Changes) == 0 {
			continue
		}
		if len(diffs) > 1 {
			text.WriteString(d.Flow + "\n")
		}
		lines := strings.Split(strings.TrimSpace(d.String()), "\n")
		lines[0] += "     " + c.consequence()
		text.WriteString(strings.Join(lines, "\n") + "\n")
	}
	if text.Len() == 0 {
		text.WriteString("no difference\n")
	}
	return a.Emit(cli.ListOf(concerns), nil, text.String)
}

func (c affectedRuns) consequence() string {
	if !c.HashDiffers() {
		return "same hash: takes effect at the next attempt"
	}
	text := "hash differs     "
	switch n := len(c.ActiveRuns); n {
	case 0:
		return text + "no active runs"
	case 1:
		text += "1 active run: "
	default:
		text += fmt.Sprintf("%d active runs: ", n)
	}
	switch c.OnChange {
	case workflow.ChangeMigrate:
		return text + "migrate"
	case workflow.ChangePause:
		return text + "pause"
	}
	return text + "finish old"
}

// openForCount opens the backend that may hold runs; nil if there is no store yet.
func (a verbs) openForCount(ctx context.Context) (backend.Backend, error) {
	if a.Target.Kubernetes {
		return a.Open(ctx, cli.Reads)
	}
	if a.Flags.Server == "" && (a.Flags.Store == "" || a.Flags.Store == "sqlite") && !strings.HasPrefix(a.Flags.DSN, "postgres") {
		if _, err := os.Stat(a.StoreOptions().Path()); err != nil {
			return nil, nil //nolint:nilerr // there is no store yet: nothing to count
		}
	}
	if a.Flags.Store == "memory" {
		return nil, nil
	}
	return a.Open(ctx, cli.Reads)
}

// IsFile reports whether a name is that of a file: by its extension, or because it exists.
func IsFile(name string) bool {
	ext := filepath.Ext(name)
	if ext == ".yaml" || ext == ".yml" {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// FlowName reads the name of a file's flow; the load finds what else is wrong with it.
func FlowName(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", cli.FileWrong.Errorf("%w", unwrapPath(err))
	}
	if machinefile.IsMachine(data) {
		return "", cli.FileWrong.Errorf("%s holds a machine: pawl apply an object of its kind on a server that loads it with --machines", path)
	}
	var doc struct {
		FlowName  string `yaml:"flowName"`
		GroupName string `yaml:"groupName"`
	}
	err = yaml.Unmarshal(data, &doc)
	switch {
	case doc.FlowName != "":
		return doc.FlowName, nil
	case err == nil && doc.GroupName != "":
		return "", cli.FileWrong.Errorf("%s holds a step group: run a flow that uses it", path)
	}
	if _, err := LoadFiles([]string{path}); err != nil {
		return "", err
	}
	return "", cli.FileWrong.Errorf("%s holds no flow: it has no flowName", path)
}

// unwrapPath keeps "open x: no such file or directory" as it is.
func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p
	}
	return err
}
