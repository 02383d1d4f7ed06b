package main

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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// app is one call of pawl.
type app struct {
	in       io.Reader
	out, err io.Writer
	plugin   bool // called as kubectl pawl
	flags    globals
	target   kubeTarget // cluster and namespaces of this call
}

// globals are the flags of all verbs.
type globals struct {
	config, server, store, dsn, output, as, logLevel, secretsDir string
	kubeconfig, context                                          string
	kubernetes                                                   bool
	flows, machines, actions, httpAllow                          []string
	noColor                                                      bool
	timeout                                                      time.Duration
}

// ended is the exit code of a verb that has printed everything itself.
type ended int

func (e ended) Error() string { return fmt.Sprintf("ended with %d", int(e)) }

// ExitCode returns the code; view.ExitOf reads it.
func (e ended) ExitCode() int { return int(e) }

// end returns nil for 0.
func end(code int) error {
	if code == view.ExitDone {
		return nil
	}
	return ended(code)
}

// run executes one command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(joinWaits(args))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	var own ended
	switch {
	case err == nil:
		return view.ExitDone
	case errors.As(err, &own):
		return int(own)
	}
	return a.fail(ctx, usage(err))
}

// usage turns cobra's own errors into Usage faults.
func usage(err error) error {
	if fault.Of(err) != fault.Unknown {
		return err
	}
	text := err.Error()
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires at least", "required flag", "invalid argument", "flag needs an argument", "if any flags in the group", "at least one of the flags", "bad flag syntax"} {
		if strings.HasPrefix(text, start) {
			return Usage.Errorf("%s", didYouMean(text))
		}
	}
	return err
}

// didYouMean puts cobra's suggestions into the line of the error.
func didYouMean(text string) string {
	line, rest, found := strings.Cut(text, "\n\nDid you mean this?\n")
	if !found {
		return strings.TrimSpace(text)
	}
	return line + " (did you mean " + strings.Join(strings.Fields(rest), " or ") + "?)"
}

// fail prints an error and returns its exit code.
func (a *app) fail(ctx context.Context, err error) int {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		fmt.Fprintln(a.err, "pawl: ended before it was done")
		return view.ExitActive
	}
	problem := problemOf(err)
	code := view.ExitOf(problem)
	switch a.flags.output {
	case "json", "yaml":
		if text, err := a.encode(problem); err == nil {
			fmt.Fprint(a.err, text)
			return code
		}
	}
	var found flowfile.Problems
	if errors.As(err, &found) {
		fmt.Fprintln(a.err, found.Error())
		return code
	}
	fmt.Fprintln(a.err, "pawl: "+strings.Join(problem.Lines(a.style(a.err)), "\n"))
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

// style is how text is drawn on a writer.
func (a *app) style(w io.Writer) view.Style {
	s := view.Style{}
	if width, height, ok := terminal(w); ok {
		s.Width, s.Height, s.Zone = width, height, time.Local
		_, no := os.LookupEnv("NO_COLOR")
		s.Color = !no && !a.flags.noColor && os.Getenv("TERM") != "dumb"
	}
	return s
}

// terminal returns the size of a terminal; height 0: not known.
func terminal(w io.Writer) (width, height int, ok bool) {
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

// emit prints a result in the form of --output. name is the output of -o name.
func (a *app) emit(v any, names []string, text func() string) error {
	switch a.flags.output {
	case "json", "yaml":
		encoded, err := a.encode(v)
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.out, encoded)
		return err
	case "name":
		for _, name := range names {
			fmt.Fprintln(a.out, name)
		}
		return nil
	}
	_, err := io.WriteString(a.out, text())
	return err
}

// isText reports that people read the output.
func (a *app) isText() bool { return a.flags.output == "" || a.flags.output == "text" }

func (a *app) encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if a.flags.output != "yaml" {
		return b.String(), nil
	}
	return toYAML(b.Bytes())
}

// toYAML keeps the order of keys and the types of JSON.
func toYAML(data []byte) (string, error) {
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

// say prints a line for people.
func (a *app) say(format string, args ...any) {
	if a.isText() {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// hint prints a line beside the result.
func (a *app) hint(format string, args ...any) {
	if a.isText() {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// actor is the person on whose behalf requests are sent.
func (a *app) actor() string {
	if a.flags.as != "" {
		return a.flags.as
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// logger writes to standard error.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.flags.logLevel != "" {
		_ = level.UnmarshalText([]byte(a.flags.logLevel)) // checked with the flags
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}

// access says what a verb does with a store.
type access int

const (
	reads access = iota // a client of the store, even if nobody owns it
	sends               // owns the store if nobody else does
)

// open returns the backend that the flags name. files are flow files to execute.
func (a *app) open(ctx context.Context, how access, files ...string) (backend.Backend, error) {
	if a.target.kubernetes {
		return a.openCluster(ctx, files)
	}
	if a.flags.server != "" {
		return a.server()
	}
	return a.openLocal(ctx, how, files...)
}

func (a *app) openLocal(ctx context.Context, how access, files ...string) (*backend.Local, error) {
	return backend.OpenLocal(ctx, backend.LocalOptions{
		Store: a.storeOptions(), Client: how == reads, Flows: append(files, a.flags.flows...), Machines: a.flags.machines,
		Actions: a.flags.actions, HTTPAllow: a.flags.httpAllow, Secrets: a.secrets(), Logger: a.logger(),
	})
}

func (a *app) storeOptions() backend.StoreOptions {
	return backend.StoreOptions{Kind: a.flags.store, DSN: a.flags.dsn}
}

// secrets come from PAWL_SECRET_… and from the files of --secrets-dir.
func (a *app) secrets() workflow.Secrets {
	sources := action.AnySecrets{action.EnvSecrets{Prefix: "PAWL_SECRET_"}}
	if a.flags.secretsDir != "" {
		sources = append(sources, action.FileSecrets{Dir: a.flags.secretsDir})
	}
	return sources
}

// bounded ends a verb after --timeout.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.flags.timeout > 0 {
		return context.WithTimeout(ctx, a.flags.timeout)
	}
	return context.WithCancel(ctx)
}

// verb wraps the action of a command: it reads the configuration and applies --timeout.
func (a *app) verb(do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.configured(cmd); err != nil {
			return err
		}
		if err := a.checkFlags(); err != nil {
			return err
		}
		ctx, cancel := a.bounded(cmd.Context())
		defer cancel()
		return do(ctx, cmd, args)
	}
}

func (a *app) checkFlags() error {
	switch a.flags.output {
	case "", "text", "json", "yaml", "name":
	default:
		output := a.flags.output
		a.flags.output = ""
		return Usage.Errorf("-o %s: it is text, json, yaml or name", output)
	}
	if a.flags.timeout < 0 {
		return Usage.Errorf("--timeout %s: it is a time such as 30s, or 0 for none", a.flags.timeout)
	}
	var level slog.Level
	if a.flags.logLevel != "" && level.UnmarshalText([]byte(a.flags.logLevel)) != nil {
		return Usage.Errorf("--log-level %s: it is debug, info, warn or error", a.flags.logLevel)
	}
	return nil
}
