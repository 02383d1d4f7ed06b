package program

import "strings"

// help prints the heading and the usage of a program as the real one does, and then the options that it takes here,
// by name. The real ones explain each; what they say there stands in their sources, and nobody reads it by program.
func (p *Process) help(name string) {
	v := p.Version
	heading := "FoundationDB"
	usage := "Usage: " + name + " [OPTIONS]"
	table := options(agentOptions, tlsOptions)
	switch name {
	case "fdbserver":
		usage, table = "Usage: "+p.Args[0]+" -p ADDRESS [OPTIONS]", serverTable(v)
	case "fdbcli":
		heading, usage, table = "FoundationDB CLI", "usage: "+p.Args[0]+" [OPTIONS]", cliTable(v)
	case "fdbmonitor":
		heading, usage, table = "FoundationDB Process Monitor", "Usage: "+p.Args[0]+" [OPTIONS]", options(monitorOptions)
	case "fdbbackup":
		usage = "Usage: fdbbackup [TOP_LEVEL_OPTIONS] (start | status | abort | wait | discontinue | pause | resume | expire | " +
			"delete | describe | list | query | cleanup | tags) [ACTION_OPTIONS]"
		table = options(alone)
	case "fdbrestore":
		usage = "Usage: fdbrestore [TOP_LEVEL_OPTIONS] (start | status | abort | wait) [OPTIONS]"
		table = options(alone)
	}
	p.printf("%s %s (v%s)\n%s\n\n", heading, v.Short(), v, usage)
	for _, o := range table {
		p.printf("  %s", strings.Join(o.names, ", "))
		if o.value {
			p.printf(" VALUE")
		}
		p.printf("\n")
	}
	switch name {
	case "fdbbackup":
		for _, action := range []string{"start", "modify", "status", "abort", "discontinue", "pause", "resume", "delete"} {
			p.printf("  %s\n", action)
		}
	case "fdbrestore":
		for _, action := range []string{"start", "status", "abort"} {
			p.printf("  %s\n", action)
		}
	}
	p.printf("\nPlayed by fdbsim.\n")
}
