// Package benchmark has the verbs of pawl that measure a store.
package benchmark

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{verbs{a}.benchCommand()}
}

type verbs struct{ *cli.App }
