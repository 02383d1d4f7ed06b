// Package cli is what the verbs of pawl share: one call with its streams, flags and target, the backend that
// these name, and how results, errors and completions are printed.
//
//	flags > PAWL_… > --config > current context ─▶ App ─▶ Open ─▶ backend
//	                              └──▶ Emit, Fail ─▶ text, JSON or YAML, exit code
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// App is one call of pawl.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Plugin   bool   // called as kubectl pawl
	Version  string // that the linker set
	Flags    Flags
	Target   Target // cluster and namespaces of this call

	UsageLine string // of the command, told by Fail; empty: the error is not about usage

	completes bool // a shell asks for words
	asked     asked
}

// Flags are the flags of all verbs.
type Flags struct {
	Config, Server, Store, DSN, Output, As, LogLevel, SecretsDir string
	Kubeconfig, Context, ServerContext                           string
	Kubernetes                                                   bool
	Flows, Machines, Actions, HTTPAllow                          []string
	Color                                                        string // always, never, or auto, which is the default
	Timeout                                                      time.Duration
}

// Ended is the exit code of a verb that has printed everything itself.
type Ended int

func (e Ended) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// ExitCode returns the code; view.ExitOf reads it.
func (e Ended) ExitCode() int { return int(e) }

// End returns nil for 0.
func End(code int) error {
	if code == view.ExitDone {
		return nil
	}
	return Ended(code)
}

// Fail prints an error and returns its exit code.
func (a *App) Fail(ctx context.Context, err error) int {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		fmt.Fprintln(a.Err, "pawl: ended before it was done")
		a.noteContext()
		return view.ExitActive
	}
	problem := problemOf(err)
	code := view.ExitOf(problem)
	switch a.Flags.Output {
	case "json", "yaml":
		if text, err := a.encode(a.detailed(problem)); err == nil {
			fmt.Fprint(a.Err, text)
			return code
		}
	}
	var found flowfile.Problems
	if errors.As(err, &found) {
		fmt.Fprintln(a.Err, found.Error())
		return code
	}
	lines := problem.Lines(a.Style(a.Err))
	if a.UsageLine != "" {
		lines = slices.Insert(lines, 1, "  usage: "+a.UsageLine)
	}
	fmt.Fprintln(a.Err, "pawl: "+strings.Join(lines, "\n"))
	a.noteContext()
	return code
}

// problemOf lists the findings in files one by one. It names no path of the HTTP API: a
// store, a server and a Kubernetes cluster report the same.
func problemOf(err error) *view.Problem {
	var found flowfile.Problems
	if !errors.As(err, &found) {
		p := *view.ProblemOf(err)
		p.Instance = ""
		return &p
	}
	p := *view.ProblemOf(workflow.FlowInvalid.Errorf("%d problems in files", len(found.Errors())))
	for _, f := range found {
		p.Errors = append(p.Errors, view.ProblemError{Message: f.Message, Location: fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)})
	}
	return &p
}

// Style is how text is drawn on a writer.
func (a *App) Style(w io.Writer) view.Style {
	s := view.Style{Wide: a.Flags.Output == wideForm}
	width, height, terminal := Terminal(w)
	if terminal {
		s.Width, s.Height, s.Zone = width, height, time.Local
	}
	switch a.Flags.Color {
	case colorAlways:
		s.Color = true
	case "", colorAuto:
		s.Color = terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return s
}

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// Colors are the values of --color.
var Colors = []string{colorAuto, colorAlways, colorNever}

// Terminal returns the size of a terminal; height 0: not known.
func Terminal(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80, 0, true
	}
	return width, height, true
}

// IsLive reports whether results are drawn over themselves: people read them on a terminal that can move its cursor.
func (a *App) IsLive() bool {
	_, _, terminal := Terminal(a.Out)
	return terminal && a.IsText() && os.Getenv("TERM") != "dumb"
}

// Emit prints a result in the form of --output. name is the output of -o name.
func (a *App) Emit(v any, names []string, text func() string) error {
	if done, err := a.emitPaths(v); done {
		return err
	}
	switch a.Flags.Output {
	case "json", "yaml":
		encoded, err := a.encode(v)
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.Out, encoded)
		return err
	case "name":
		for _, name := range names {
			fmt.Fprintln(a.Out, name)
		}
		return nil
	}
	_, err := io.WriteString(a.Out, text())
	return err
}

// IsText reports that people read the output.
func (a *App) IsText() bool { return slices.Contains([]string{"", textForm, wideForm}, a.Flags.Output) }

func (a *App) encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if a.Flags.Output != "yaml" {
		return b.String(), nil
	}
	return ToYAML(b.Bytes())
}

// ToYAML keeps the order of keys and the types of JSON.
func ToYAML(data []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return "", err
	}
	var plain func(*yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = 0
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		}
		for _, child := range n.Content {
			plain(child)
		}
	}
	plain(&doc)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return "", err
	}
	return b.String(), e.Close()
}

// Say prints a line for people.
func (a *App) Say(format string, args ...any) {
	if a.IsText() {
		fmt.Fprintf(a.Out, format+"\n", args...)
	}
}

// Hint prints a line beside the result.
func (a *App) Hint(format string, args ...any) {
	if a.IsText() {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// Actor is the person on whose behalf requests are sent.
func (a *App) Actor() string {
	if a.Flags.As != "" {
		return a.Flags.As
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// Logger writes to standard error.
func (a *App) Logger() *slog.Logger {
	level := slog.LevelWarn
	if a.Flags.LogLevel != "" {
		_ = level.UnmarshalText([]byte(a.Flags.LogLevel)) // checked with the flags
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
}

// Access says what a verb does with a store.
type Access int

const (
	Reads Access = iota // a client of the store, even if nobody owns it
	Sends               // owns the store if nobody else does
	Looks               // as Reads; a SQLite store that does not exist is empty, and is not created
)

// Open returns the backend that the flags name. files are flow files to execute.
func (a *App) Open(ctx context.Context, how Access, files ...string) (backend.Backend, error) {
	if a.Target.Kubernetes {
		return a.openCluster(ctx, files)
	}
	if a.Flags.Server != "" {
		return a.Server()
	}
	return a.openLocal(ctx, how, files...)
}

func (a *App) openLocal(ctx context.Context, how Access, files ...string) (*backend.Local, error) {
	store := a.StoreOptions()
	if how == Looks && store.Absent() {
		store = backend.StoreOptions{Kind: "memory"}
	}
	return backend.OpenLocal(ctx, backend.LocalOptions{
		Store: store, Client: how != Sends, Flows: append(files, a.Flags.Flows...), Machines: a.Flags.Machines,
		Actions: a.Flags.Actions, HTTPAllow: a.Flags.HTTPAllow, Secrets: a.Secrets(), Logger: a.Logger(),
	})
}

// StoreOptions name the store of --store and --dsn.
func (a *App) StoreOptions() backend.StoreOptions {
	return backend.StoreOptions{Kind: a.Flags.Store, DSN: a.Flags.DSN}
}

// StoreAbsent reports a call that works on a SQLite store that does not exist.
func (a *App) StoreAbsent() bool {
	return !a.Target.Kubernetes && a.Flags.Server == "" && a.StoreOptions().Absent()
}

// Secrets come from PAWL_SECRET_… and from the files of --secrets-dir.
func (a *App) Secrets() workflow.Secrets {
	sources := action.AnySecrets{action.EnvSecrets{Prefix: "PAWL_SECRET_"}}
	if a.Flags.SecretsDir != "" {
		sources = append(sources, action.FileSecrets{Dir: a.Flags.SecretsDir})
	}
	return sources
}

// bounded ends a verb after --timeout.
func (a *App) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Flags.Timeout > 0 {
		return context.WithTimeout(ctx, a.Flags.Timeout)
	}
	return context.WithCancel(ctx)
}

// Verb wraps the action of a command: it reads the configuration and applies --timeout.
func (a *App) Verb(do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.configured(cmd); err != nil {
			return err
		}
		if err := a.CheckFlags(); err != nil {
			return err
		}
		ctx, cancel := a.bounded(cmd.Context())
		defer cancel()
		return do(ctx, cmd, args)
	}
}

// CheckFlags refuses values of global flags: USAGE_WRONG.
func (a *App) CheckFlags() error {
	if err := checkOutput(a.Flags.Output); err != nil {
		a.Flags.Output = ""
		return err
	}
	if a.Flags.Color != "" && !slices.Contains(Colors, a.Flags.Color) {
		return Usage.Errorf("--color %s: it is %s", a.Flags.Color, strings.Join(Colors, ", "))
	}
	if a.Flags.Timeout < 0 {
		return Usage.Errorf("--timeout %s: it is a time such as 30s, or 0 for none", a.Flags.Timeout)
	}
	var level slog.Level
	if a.Flags.LogLevel != "" && level.UnmarshalText([]byte(a.Flags.LogLevel)) != nil {
		return Usage.Errorf("--log-level %s: it is debug, info, warn or error", a.Flags.LogLevel)
	}
	return nil
}
