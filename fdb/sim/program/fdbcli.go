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

// cli is an fdbcli with its arguments.
type cli struct {
	*Process

	file, exec   string
	hasExec, tls bool
	noStatus     bool
	timeout      uint64
}

// fdbcli runs commands, or reads them from its standard input. Source: fdbcli/fdbcli.actor.cpp at 7.1.67, 7.3.69 and
// 7.4.6, processArg and main.
func (p *Process) fdbcli(ctx context.Context) int {
	c := &cli{Process: p}
	return c.main(ctx)
}

func (c *cli) main(ctx context.Context) int {
	a := arguments{table: cliTable(c.Version), rest: c.Args[1:]}
	for {
		g, wrong, more := a.next()
		if !more {
			break
		}
		if wrong != noMistake {
			c.help("fdbcli")
			return exitError
		}
		if exit := c.take(g); exit >= 0 {
			return exit
		}
	}
	if c.timeout > 0 && !c.hasExec {
		c.errorf("ERROR: --timeout may only be specified with --exec\n")
		return exitError
	}
	f := c.lookUp(c.file)
	if problem, err := f.read(); err != nil {
		c.errorf("%s\n", problem)
		return exitError
	}
	if c.Version.Short() != "7.1" && !c.tlsConfigured() && allTLS(f.connection) {
		c.errorf("ERROR: fdbcli is not configured with TLS, but all of the coordinators have TLS addresses.\n")
		return exitError
	}
	if !c.hasExec {
		return c.interactive(ctx, &f)
	}
	argv := []string{"--exec", c.exec}
	if c.timeout > 0 {
		argv = append(argv, "--timeout", strconv.FormatUint(c.timeout, 10))
	}
	return c.run(ctx, sim.Run{Tool: fdb.ToolCLI, Argv: argv, Version: c.Version, Connection: f.connection}, &f)
}

// take takes one option; the program ends with that code, -1: it goes on.
func (c *cli) take(g given) int {
	switch g.id {
	case "-?":
		c.help("fdbcli")
		return exitSuccess
	case "--version":
		c.printf("%s", sim.VersionText("FoundationDB CLI", c.Version))
		return exitSuccess
	case "--build-flags", "--status-from-json", "--debug-tls":
		c.errorf("fdbsim does not play %s\n", g.id)
		return exitError
	case "-C":
		c.file = g.value
	case "--exec":
		c.exec, c.hasExec = g.value, true
	case "--no-status":
		c.noStatus = true
	case "--timeout":
		seconds, err := strconv.ParseUint(strings.TrimSpace(g.value), 10, 31)
		if err != nil {
			c.errorf("ERROR: invalid timeout %s\n", g.value)
			return exitError
		}
		c.timeout = seconds
	case "--trace-format":
		if g.value != "xml" && g.value != "json" {
			c.errorf("WARNING: Unrecognized trace format `%s'\n", g.value)
		}
	case "--api-version":
		version, err := strconv.Atoi(g.value)
		newest := c.Version.Major*100 + c.Version.Minor*10
		switch {
		case err != nil:
			c.errorf("ERROR: invalid client version %s\n", g.value)
			return exitError
		case version < 700 || version > newest:
			c.errorf("ERROR: api version %s is not supported. (Min: 700, Max: %d)\n", g.value, newest)
			return exitError
		}
	case "--tls-certificate-file", "--tls-key-file", "--tls-ca-file":
		c.tls = true
	}
	return -1
}

// tlsConfigured tells whether the program has a certificate, by its arguments or its environment.
func (c *cli) tlsConfigured() bool {
	for _, name := range []string{"FDB_TLS_CERTIFICATE_FILE", "FDB_TLS_KEY_FILE", "FDB_TLS_CA_FILE"} {
		if c.env(name) != "" {
			return true
		}
	}
	return c.tls
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
func (c *cli) interactive(ctx context.Context, f *clusterFile) int {
	peer, done := c.reach()
	defer done()
	stop := context.AfterFunc(ctx, func() { peer.Close() })
	defer stop()
	err := peer.Ask(world.Request{Owner: c.env(OwnerVariable), Session: &world.Session{
		Version: c.Version, Connection: f.connection, File: f.name, NoStatus: c.noStatus,
	}})
	out := bufio.NewWriterSize(c.Stdout, 4096)
	defer out.Flush()
	lines := bufio.NewScanner(c.Stdin)
	var history []string
	defer func() { c.saveHistory(history) }()
	for err == nil {
		var e world.Event
		if e, err = peer.Next(); err != nil {
			break
		}
		_, _ = out.Write(e.Stdout) // nobody reads it
		_, _ = c.Stderr.Write(e.Stderr)
		if e.Ended {
			return e.Exit
		}
		if !e.Prompt {
			continue
		}
		line, more := c.nextLine(out, lines)
		if !more {
			_, _ = out.WriteString("\n")
			return exitSuccess
		}
		if !strings.Contains(line, "writemode") && !strings.Contains(line, "unlock") {
			history = append(history, line)
		}
		err = peer.Type(line)
	}
	return c.lost(ctx)
}

// nextLine prompts and reads a line that is not empty.
func (c *cli) nextLine(out *bufio.Writer, lines *bufio.Scanner) (line string, more bool) {
	for {
		if c.Terminal {
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
func (c *cli) saveHistory(lines []string) {
	home := c.env("HOME")
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
