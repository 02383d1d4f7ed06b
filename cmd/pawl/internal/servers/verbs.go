// Package servers has the verbs of pawl that run servers, operators and the processes that those start.
package servers

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.serverCommand(),
		v.devCommand(),
		v.operatorCommand(),
		v.consoleCommand(),
	}
}

// Processes returns the commands that servers, operators and providers start, not people.
func Processes(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{v.nodeCommand(), v.instanceCommand(), v.managerCommand(), v.poolerCommand()}
}

type verbs struct{ *cli.App }
