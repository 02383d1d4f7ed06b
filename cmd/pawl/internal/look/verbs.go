// Package look has the verbs of pawl that read runs, objects and definitions.
package look

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.getCommand(),
		v.describeCommand(),
		v.watchCommand(),
		v.waitCommand(),
		v.historyCommand(),
		v.logsCommand(),
		v.explainCommand(),
	}
}

type verbs struct{ *cli.App }
