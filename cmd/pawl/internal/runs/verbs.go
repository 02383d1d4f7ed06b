// Package runs has the verbs of pawl that start runs and send them requests.
package runs

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.runCommand(),
		v.pauseCommand(),
		v.resumeCommand(),
		v.cancelCommand(),
		v.skipCommand(),
		v.signalCommand(),
		v.progressCommand(),
		v.bulkCommand(),
		v.limitsCommand(),
	}
}

type verbs struct{ *cli.App }
