package program

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
)

// The options of fdbbackup, by action, of fdbrestore and of backup_agent. Source: fdbbackup/backup.actor.cpp at
// 7.1.67, 7.3.69 and 7.4.6, g_rgBackup…Options, g_rgRestoreOptions, g_rgAgentOptions.
const (
	backupCommon = "-C|--cluster-file= --log --logdir= --loggroup= --trace-format= -q|--quiet --crash -m|--memory= --memory-vsize= -?|-h|--help --dev-help --knob-= "
	alone        = "-v|--version --build-flags -?|-h|--help"
)

var backupActions = map[string]string{
	"start": `-w|--waitfordone -z|--no-stop-when-done -d|--destcontainer= --proxy= --partitioned-log-experimental -s|--snapshot-interval=
		--initial-snapshot-interval= -t|--tagname= -k|--keys= --keys-file= -n|--dryrun --blob-credentials= --incremental `,
	"modify": `--blob-credentials= -t|--tagname= --verify-uid= -d|--destcontainer= --proxy= -s|--snapshot-interval=
		--active-snapshot-interval= `,
	"status":      "-e|--errorlimit= -t|--tagname= --json ",
	"abort":       "-t|--tagname= ",
	"discontinue": "-t|--tagname= -w|--waitfordone ",
	"pause":       "",
	"resume":      "",
	"delete":      "-d|--destcontainer= --proxy= --blob-credentials= ",
}

const restoreOptions = `--dest-cluster-file= --orig-cluster-file= --timestamp= --knob-= -r= --proxy= --add-prefix= --remove-prefix= -t|--tagname=
	-k|--keys= --keys-file= -w|--waitfordone --version|-v= --log --logdir= --trace-format= --loggroup= -q|--quiet -n|--dryrun -f
	--crash -m|--memory= --memory-vsize= -?|-h|--help --dev-help --blob-credentials= --incremental --begin-version=
	--inconsistent-snapshot-only `

const agentOptions = `-C|--cluster-file= --knob-= --version|-v --build-flags -q|--quiet --log --logdir= --trace-format= --loggroup= --crash
	--locality-= -m|--memory= --memory-vsize= -?|-h|--help --dev-help --blob-credentials= --proxy= `

// backupTable are the options of an action in a version.
func backupTable(action string, v fdb.Version) []option {
	table := backupCommon + backupActions[action]
	switch action {
	case "delete", "modify":
		if action == "delete" {
			table = strings.Replace(table, "-C|--cluster-file= ", "", 1)
		} else {
			table = strings.Replace(table, "--trace-format= ", "", 1)
		}
	case "start":
		if v.Short() != "7.1" {
			table += "--encrypt-files= "
		}
		if v.Short() >= "7.4" {
			table += "--blob-manifest-url= "
		}
		if v.Has(fdb.FeatureMutationLogType) {
			table += "--mutation-log-type= "
		}
	}
	if action == "start" || action == "modify" && v.Has(fdb.FeatureBackupEncryption) {
		table += "--encryption-key-file= "
	}
	return options(table, tlsOptions)
}

func restoreTable(v fdb.Version) []option {
	table := restoreOptions + "--encryption-key-file= "
	if v.Short() != "7.1" {
		table += "--user-data --system-metadata "
	}
	if v.Short() >= "7.4" {
		table += "--blob-manifest-url= "
	}
	return options(table, tlsOptions)
}

// backupMistakes are what these programs say of an argument.
var backupMistakes = map[mistake]string{
	argumentOption:  mistakes[argumentOption],
	argumentGiven:   mistakes[argumentGiven],
	argumentMissing: mistakes[argumentMissing],
	unknownOption:   "ERROR: unknown option `%s'\n",
}

// backupOptions are the arguments that are read here; the model reads the others.
type backupOptions struct {
	file, destination string
	credentials       []string
	seen              map[string]bool
}

// backupArguments reads arguments; the program ends with that code, -1: it goes on.
func (p *Process) backupArguments(name string, table []option, rest []string) (o backupOptions, exit int) {
	o.seen = map[string]bool{}
	a := arguments{table: table, exact: true, rest: rest}
	for {
		g, wrong, more := a.next()
		if !more {
			return o, -1
		}
		if wrong != noMistake {
			return o, p.teaser(backupMistakes[wrong], g.text)
		}
		o.seen[g.id] = true
		switch g.id {
		case "-?", "--dev-help":
			p.help(name)
			return o, exitSuccess
		case "-v", "--version":
			if name == "fdbrestore" && g.value != "" {
				if _, err := strconv.ParseInt(g.value, 10, 64); err != nil {
					return o, p.teaser("ERROR: Could not parse database version `%s'\n", g.value)
				}
				continue
			}
			p.printf("%s", sim.VersionText("FoundationDB", p.Version))
			return o, exitSuccess
		case "-C":
			o.file = g.value
		case "--dest-cluster-file":
			o.destination = g.value
		case "--blob-credentials":
			o.credentials = append(o.credentials, g.value)
		case "-s", "--initial-snapshot-interval", "--active-snapshot-interval":
			if _, err := strconv.Atoi(g.value); err != nil {
				return o, p.teaser("ERROR: Could not parse snapshot interval `%s'\n", g.value)
			}
		case "-m":
			if !isSize(g.value, false) {
				return o, p.teaser("ERROR: Could not parse memory limit from `%s'\n", g.value)
			}
		case "--trace-format":
			if g.value != "xml" && g.value != "json" {
				p.errorf("WARNING: Unrecognized trace format `%s'\n", g.value)
			}
		}
	}
}

// secrets are the contents of the files of blob credentials, those of FDB_BLOB_CREDENTIALS last.
func (p *Process) secrets(files []string) string {
	if more := p.env("FDB_BLOB_CREDENTIALS"); more != "" {
		files = append(files, strings.Split(more, ":")...)
	}
	var all strings.Builder
	for _, name := range files {
		if content, err := os.ReadFile(p.path(name)); err == nil { // one that cannot be read is skipped
			all.Write(content)
		}
	}
	return all.String()
}

// fdbbackup runs one action of a backup.
func (p *Process) fdbbackup(ctx context.Context) int {
	if len(p.Args) < 2 {
		p.help("fdbbackup")
		return exitError
	}
	action := strings.ToLower(p.Args[1])
	if _, known := backupActions[action]; !known {
		if slices.Contains([]string{"wait", "expire", "describe", "list", "query", "cleanup", "tags", "dump"}, action) {
			p.errorf("fdbsim does not play fdbbackup %s\n", action)
			return exitError
		}
		if _, exit := p.backupArguments("fdbbackup", options(alone), p.Args[1:]); exit >= 0 {
			return exit
		}
		return exitError
	}
	o, exit := p.backupArguments("fdbbackup", backupTable(action, p.Version), p.Args[2:])
	if exit >= 0 {
		return exit
	}
	r := sim.Run{Tool: fdb.ToolBackup, Argv: append([]string{action}, p.Args[2:]...), Version: p.Version, Secrets: p.secrets(o.credentials)}
	if action == "delete" {
		return p.run(ctx, r, nil)
	}
	f := p.lookUp(o.file)
	if problem, err := f.read(); err != nil {
		p.errorf("%s\n", problem)
		return exitError
	}
	r.Connection = f.connection
	return p.run(ctx, r, &f)
}

// fdbrestore runs one action of a restore.
func (p *Process) fdbrestore(ctx context.Context) int {
	if len(p.Args) < 2 {
		p.help("fdbrestore")
		return exitError
	}
	action := p.Args[1]
	if action == "wait" {
		p.errorf("fdbsim does not play fdbrestore wait\n")
		return exitError
	}
	if action != "start" && action != "status" && action != "abort" {
		if _, exit := p.backupArguments("fdbrestore", options(alone), p.Args[1:]); exit >= 0 {
			return exit
		}
		return exitError
	}
	o, exit := p.backupArguments("fdbrestore", restoreTable(p.Version), p.Args[2:])
	if exit >= 0 {
		return exit
	}
	f := clusterFile{name: o.destination, path: p.path(o.destination)}
	switch {
	case o.destination == "":
		p.errorf("Restore destination cluster file must be specified explicitly.\n")
		return exitError
	case !exists(f.path):
		p.errorf("Restore destination cluster file '%s' does not exist.\n", o.destination)
		return exitError
	}
	if _, err := f.read(); err != nil {
		p.errorf("Restore destination cluster file '%s' invalid: %s\n", o.destination, err.text)
		return exitError
	}
	return p.run(ctx, sim.Run{
		Tool: fdb.ToolRestore, Argv: p.Args[1:], Version: p.Version, Connection: f.connection, Secrets: p.secrets(o.credentials),
	}, &f)
}

// backupAgent works on backups and restores until it is ended.
func (p *Process) backupAgent(ctx context.Context) int {
	if len(p.Args) == 1 {
		p.help("backup_agent")
		return exitError
	}
	o, exit := p.backupArguments("backup_agent", options(agentOptions, tlsOptions), p.Args[1:])
	if exit >= 0 {
		return exit
	}
	f := p.lookUp(o.file)
	if problem, err := f.read(); err != nil {
		p.errorf("%s\n", problem)
		return exitError
	}
	for ctx.Err() == nil {
		if peer := p.dial(); peer != nil {
			stop := context.AfterFunc(ctx, func() { peer.Close() })
			if peer.Ask(world.Request{Agent: &world.Agent{Connection: f.connection}}) == nil {
				_, _ = peer.Next() // until the world has gone
			}
			stop()
			peer.Close()
		}
		pause(ctx, redial)
	}
	return exitSuccess
}
