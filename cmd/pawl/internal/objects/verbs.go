// Package objects has the verbs of pawl that apply, edit, annotate and delete objects.
package objects

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{
		v.applyCommand(),
		v.editCommand(),
		v.annotateCommand(),
		v.deleteCommand(),
	}
}

type verbs struct{ *cli.App }
