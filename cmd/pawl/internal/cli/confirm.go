package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/fault"
)

// Unconfirmed says that a verb changes something, and nobody could be asked.
var Unconfirmed = fault.Declare(fault.Kind{
	Code: "UNCONFIRMED", Class: fault.Invalid,
	Title:  "the verb changes a cluster, or many runs, and nobody has confirmed it",
	Remedy: "Look at what it would do with --dry-run, then call it on a terminal, or with -y.",
	Guide:  "kubernetes-cli.md",
})

// Confirmation is how a verb that disturbs something is confirmed: --yes and --dry-run.
type Confirmation struct{ Yes, Dry bool }

// AddFlags adds its flags to a verb.
func (c *Confirmation) AddFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.Dry, "dry-run", false, "say what would be done, and do nothing")
}

// Confirm asks on a terminal. Without one only --yes lets a change pass.
func (a *App) Confirm(c Confirmation) error {
	if c.Yes {
		return nil
	}
	in, isFile := a.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) || !a.IsText() { //nolint:gosec // a file descriptor
		return Unconfirmed.Errorf("nothing was changed: there is no terminal to ask on")
	}
	fmt.Fprint(a.Err, "go on? [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return Unconfirmed.Errorf("nothing was changed: the answer was no")
}
