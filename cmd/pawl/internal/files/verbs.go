// Package files has the verbs of pawl that check and show files of flows, machines and manifests.
package files

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.lintCommand(),
		v.testCommand(),
		v.planCommand(),
		v.graphCommand(),
		v.diffCommand(),
		v.schemaCommand(),
	}
}

type verbs struct{ *cli.App }
