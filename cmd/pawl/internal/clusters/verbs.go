// Package clusters has the verbs of pawl that create, change and read container clusters.
package clusters

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{verbs{a}.clusterCommand()}
}

type verbs struct{ *cli.App }
