package program

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// OwnerVariable is the environment variable that says on behalf of which instance of the operator a tool runs: what
// it causes is judged as its doing.
const OwnerVariable = "FDBSIM_OWNER"

// cliTable are the options of fdbcli. Source: fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and 7.4.6, g_rgOptions.
func cliTable(v fdb.Version) []option {
	table := options(`-C|--cluster-file= -d= --log --log-dir= --log-group= --timeout= --exec= --no-status --no-hints -?|-h|--help
		--status-from-json= --version|-v --build-flags --trace-format= --knob-= --debug-tls --api-version= --memory=`, tlsOptions)
	if v.Short() != "7.1" {
		table = append(table, options("--use-future-protocol-version")...)
	}
	return table
}

// cliOptions are the arguments of an fdbcli.
type cliOptions struct {
	file, exec   string
	hasExec, tls bool
	noStatus     bool
	timeout      uint64
}

// fdbcli runs commands, or reads them from its standard input. Source: fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6, processArg and main.
func (p *Process) fdbcli(ctx context.Context) int {
	var o cliOptions
	a := arguments{table: cliTable(p.Version), rest: p.Args[1:]}
	for {
		g, wrong, more := a.next()
		if !more {
			break
		}
		if wrong != noMistake {
			p.help("fdbcli")
			return exitError
		}
		if exit := p.takeCLI(&o, g); exit >= 0 {
			return exit
		}
	}
	if o.timeout > 0 && !o.hasExec {
		p.errorf("ERROR: --timeout may only be specified with --exec\n")
		return exitError
	}
	f := p.lookUp(o.file)
	if problem, err := f.read(); err != nil {
		p.errorf("%s\n", problem)
		return exitError
	}
	if p.Version.Short() != "7.1" && !p.tlsConfigured(o) && allTLS(f.connection) {
		p.errorf("ERROR: fdbcli is not configured with TLS, but all of the coordinators have TLS addresses.\n")
		return exitError
	}
	if !o.hasExec {
		return p.interactive(ctx, o, &f)
	}
	argv := []string{"--exec", o.exec}
	if o.timeout > 0 {
		argv = append(argv, "--timeout", strconv.FormatUint(o.timeout, 10))
	}
	return p.run(ctx, sim.Run{Tool: fdb.ToolCLI, Argv: argv, Version: p.Version, Connection: f.connection}, &f)
}

// takeCLI takes one option; the program ends with that code, -1: it goes on.
func (p *Process) takeCLI(o *cliOptions, g given) int {
	switch g.id {
	case "-?":
		p.help("fdbcli")
		return exitSuccess
	case "--version":
		p.printf("%s", sim.VersionText("FoundationDB CLI", p.Version))
		return exitSuccess
	case "--build-flags", "--status-from-json", "--debug-tls":
		p.errorf("fdbsim does not play %s\n", g.id)
		return exitError
	case "-C":
		o.file = g.value
	case "--exec":
		o.exec, o.hasExec = g.value, true
	case "--no-status":
		o.noStatus = true
	case "--timeout":
		seconds, err := strconv.ParseUint(strings.TrimSpace(g.value), 10, 31)
		if err != nil {
			p.errorf("ERROR: invalid timeout %s\n", g.value)
			return exitError
		}
		o.timeout = seconds
	case "--trace-format":
		if g.value != "xml" && g.value != "json" {
			p.errorf("WARNING: Unrecognized trace format `%s'\n", g.value)
		}
	case "--api-version":
		version, err := strconv.Atoi(g.value)
		newest := p.Version.Major*100 + p.Version.Minor*10
		switch {
		case err != nil:
			p.errorf("ERROR: invalid client version %s\n", g.value)
			return exitError
		case version < 700 || version > newest:
			p.errorf("ERROR: api version %s is not supported. (Min: 700, Max: %d)\n", g.value, newest)
			return exitError
		}
	case "--tls-certificate-file", "--tls-key-file", "--tls-ca-file":
		o.tls = true
	}
	return -1
}

// tlsConfigured tells whether the program has a certificate, by its arguments or its environment.
func (p *Process) tlsConfigured(o cliOptions) bool {
	for _, name := range []string{"FDB_TLS_CERTIFICATE_FILE", "FDB_TLS_KEY_FILE", "FDB_TLS_CA_FILE"} {
		if p.env(name) != "" {
			return true
		}
	}
	return o.tls
}

func allTLS(c fdb.Connection) bool {
	for _, a := range c.Coordinators {
		if !a.TLS {
			return false
		}
	}
	return true
}

// run runs a tool in the world and prints what it prints.
func (p *Process) run(ctx context.Context, r sim.Run, f *clusterFile) int {
	peer, done := p.reach()
	defer done()
	stop := context.AfterFunc(ctx, func() { peer.Close() })
	defer stop()
	if peer.Ask(world.Request{Run: &r, Owner: p.env(OwnerVariable)}) != nil {
		return p.lost(ctx)
	}
	for {
		e, err := peer.Next()
		if err != nil {
			return p.lost(ctx)
		}
		_, _ = p.Stdout.Write(e.Stdout) // nobody reads it
		_, _ = p.Stderr.Write(e.Stderr)
		if e.Connection != "" && f != nil {
			f.write(e.Connection)
		}
		if e.Ended {
			return e.Exit
		}
	}
}

// lost ends a tool that was killed, or whose world has gone.
func (p *Process) lost(ctx context.Context) int {
	if ctx.Err() == nil {
		p.errorf("fdbsim: the world has gone\n")
	}
	return -1
}

// interactive reads lines. Without a terminal there is no prompt, and what is printed comes when the process ends;
// with one, stdout is complete at each prompt (linenoise.c at 7.1.67, 7.3.69 and 7.4.6).
func (p *Process) interactive(ctx context.Context, o cliOptions, f *clusterFile) int {
	peer, done := p.reach()
	defer done()
	stop := context.AfterFunc(ctx, func() { peer.Close() })
	defer stop()
	err := peer.Ask(world.Request{Owner: p.env(OwnerVariable), Session: &world.Session{
		Version: p.Version, Connection: f.connection, File: f.name, NoStatus: o.noStatus,
	}})
	out := bufio.NewWriterSize(p.Stdout, 4096)
	defer out.Flush()
	lines := bufio.NewScanner(p.Stdin)
	var history []string
	defer func() { p.saveHistory(history) }()
	for err == nil {
		var e world.Event
		if e, err = peer.Next(); err != nil {
			break
		}
		_, _ = out.Write(e.Stdout) // nobody reads it
		_, _ = p.Stderr.Write(e.Stderr)
		if e.Ended {
			return e.Exit
		}
		if !e.Prompt {
			continue
		}
		line, more := p.nextLine(out, lines)
		if !more {
			_, _ = out.WriteString("\n")
			return exitSuccess
		}
		if !strings.Contains(line, "writemode") && !strings.Contains(line, "unlock") {
			history = append(history, line)
		}
		err = peer.Type(line)
	}
	return p.lost(ctx)
}

// nextLine prompts and reads a line that is not empty.
func (p *Process) nextLine(out *bufio.Writer, lines *bufio.Scanner) (line string, more bool) {
	for {
		if p.Terminal {
			_, _ = out.WriteString(fdb.Prompt)
			_ = out.Flush() // nobody reads it
		}
		if !lines.Scan() {
			return "", false
		}
		if line = strings.TrimRight(lines.Text(), "\r\n"); line != "" {
			return line, true
		}
	}
}

// saveHistory keeps the lines in $HOME/.fdbcli_history.
func (p *Process) saveHistory(lines []string) {
	home := p.env("HOME")
	if home == "" || len(lines) == 0 {
		return
	}
	f, err := os.OpenFile(filepath.Join(home, ".fdbcli_history"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // fdbcli goes on without
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	_ = errors.Join(err, f.Close()) // as it does when the disk is full
}
