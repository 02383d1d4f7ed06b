// Package accounts has the verbs of pawl that manage accounts, domains, keys and tokens, and read the audit trail.
package accounts

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	return verbs{a}.accountVerbs()
}

type verbs struct{ *cli.App }
