package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/testfile"
)

func (a verbs) testCommand() *cobra.Command {
	var pattern string
	cmd := &cobra.Command{
		Use: "test PATH...", Short: "Execute the tests of flows in *_test.yaml",
		Long: `Executes the cases of *_test.yaml files, or of those in folders and the folders
below them, against the flows beside each file. Time is virtual: timers and retries
cost none. Actions are replaced by the case; what it does not replace is not executed,
unless it is allowed with real: [exec]. A case with crash: everywhere is repeated
with a crash before and after each save, and has to end in the same way.
Exit code 1 if a case fails, 2 if a file is wrong.`,
		Example: "  pawl test flows/\n  pawl test flows/create_test.yaml --run 'disk|full'",
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			chosen, err := regexp.Compile(pattern)
			if err != nil {
				return cli.Usage.Errorf("--run: %w", err)
			}
			results, err := a.test(ctx, args, chosen)
			if err != nil {
				return err
			}
			if err := a.Emit(cli.ListOf(results), nil, func() string { return summary(results) }); err != nil {
				return err
			}
			if slices.ContainsFunc(results, func(r testfile.Result) bool { return !r.OK }) {
				return cli.End(view.ExitFailed)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&pattern, "run", "", "execute only cases whose name matches this regular `expression`")
	return cmd
}

// test executes the cases of files.
func (a verbs) test(ctx context.Context, paths []string, chosen *regexp.Regexp) ([]testfile.Result, error) {
	files, err := testFiles(paths, true)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, cli.FileWrong.Errorf("%s: there is no *_test.yaml", strings.Join(paths, ", "))
	}
	state, err := os.MkdirTemp("", "pawl-test-") // of the lock files of exec
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(state)
	actions, err := action.Standard(action.Options{Only: action.Names(), Status: noStatus{}, StateDir: state})
	if err != nil {
		return nil, err
	}
	var wrong flowfile.Problems
	var suites []*testfile.Suite
	for _, file := range files {
		suite, err := testfile.Load(file, testfile.Options{Actions: actions})
		var found flowfile.Problems
		switch {
		case errors.As(err, &found):
			wrong = append(wrong, found...)
		case err != nil:
			return nil, err
		default:
			suites = append(suites, suite)
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	results := []testfile.Result{}
	for _, suite := range suites {
		for _, c := range suite.Cases {
			if !chosen.MatchString(c.Name) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			results = append(results, suite.Run(c))
		}
	}
	if len(results) == 0 {
		return nil, cli.Usage.Errorf("--run %s: no case has such a name", chosen)
	}
	return results, nil
}

// summary prints a line for each case, and below it what is not as expected.
func summary(results []testfile.Result) string {
	var b strings.Builder
	failed := 0
	for _, r := range results {
		word, plays := "ok  ", ""
		if !r.OK {
			word = "FAIL"
			failed++
		}
		if r.Crashes > 0 {
			plays = fmt.Sprintf(", %d crashes", r.Crashes)
		}
		fmt.Fprintf(&b, "%s  %s:%d  %s (%.2fs%s)\n", word, r.File, r.Line, r.Case, r.Seconds, plays)
		for _, p := range r.Problems {
			fmt.Fprintf(&b, "      %s\n", p)
		}
	}
	fmt.Fprintf(&b, "%d cases, %d failed\n", len(results), failed)
	return b.String()
}

// testFiles returns the files of tests among paths and in their folders, with those below if deep.
func testFiles(paths []string, deep bool) ([]string, error) {
	var files []string
	add := func(path string) {
		if path = filepath.Clean(path); !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.FileWrong.Errorf("%w", err)
		}
		if !info.IsDir() {
			if flowfile.IsTest(path) {
				add(path)
			} else if deep {
				return nil, cli.FileWrong.Errorf("%s is no file of tests: its name does not end in _test.yaml", path)
			}
			continue
		}
		err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return cli.FileWrong.Errorf("%w", err)
			case entry.IsDir() && at != path && (!deep || strings.HasPrefix(entry.Name(), ".")):
				return fs.SkipDir
			case !entry.IsDir() && flowfile.IsTest(at):
				add(at)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
