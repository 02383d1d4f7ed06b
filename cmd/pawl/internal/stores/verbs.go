// Package stores has the verbs of pawl that back up, check, export, rotate and import stores.
package stores

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.storeCommand(),
		v.importCommand(),
	}
}

type verbs struct{ *cli.App }
