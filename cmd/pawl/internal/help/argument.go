package help

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
)

// Install gives a tree of commands its form of help, and makes every command say which argument is missing, is one
// too many or is not known.
func Install(root *cobra.Command) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := cmd.OutOrStderr().Write([]byte(Text(cmd)))
		return err
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); isGroup(cmd) && len(args) > 0 { // the flag is one of a command that is mistyped
			return unknown(cmd, args[0])
		}
		text := err.Error()
		if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			text += cli.Suggest(name, names)
		}
		return cli.Usage.Errorf("%s: %s", cmd.CommandPath(), text)
	})
	check(root)
}

func check(cmd *cobra.Command) {
	before := cmd.Args
	if isGroup(cmd) {
		if before == nil {
			before = cobra.NoArgs
		}
		if !cmd.Runnable() { // cobra checks the arguments only of what can be run
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if before != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := before(cmd, args); err != nil {
				return wrong(cmd, args, before, err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		check(c)
	}
}

// isGroup reports a command whose first argument is a command below it.
func isGroup(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ")
}

// wrong says what is wrong with the arguments: USAGE_WRONG.
func wrong(cmd *cobra.Command, args []string, fits cobra.PositionalArgs, err error) error {
	path := cmd.CommandPath()
	if fault.Of(err) != fault.Unknown { // the command says it itself
		return err
	}
	if isGroup(cmd) && len(args) > 0 {
		return unknown(cmd, args[0])
	}
	if len(cmd.ValidArgs) > 0 && len(args) > 0 && !slices.Contains(cmd.ValidArgs, args[0]) {
		return cli.Usage.Errorf("%s: %q is not known: it is %s%s", path, args[0], alternatives(cmd.ValidArgs), cli.Suggest(args[0], cmd.ValidArgs))
	}
	for n := len(args) - 1; n >= 0; n-- {
		if fits(cmd, args[:n]) == nil {
			if _, named, ok := strings.Cut(cmd.Use, " "); ok {
				return cli.Usage.Errorf("%s: %q is one too many: it takes %s", path, args[n], named)
			}
			return cli.Usage.Errorf("%s: %q is one too many: it takes no argument", path, args[n])
		}
	}
	if missing := Missing(cmd.Use, len(args)); missing != "" {
		return cli.Usage.Errorf("%s: %s", path, missing)
	}
	return cli.Usage.Errorf("%s: %w", path, err)
}

// unknown is the fault of a word that is none of the commands below cmd.
func unknown(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == helpVerb {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return cli.Usage.Errorf("unknown command %q for %s%s", word, cmd.CommandPath(), cli.Suggest(word, names))
}

// Missing says which arguments of a usage line are missing behind the first given ones; empty: the line does not say.
func Missing(use string, given int) string {
	_, line, ok := strings.Cut(use, " ")
	if !ok {
		return ""
	}
	if strings.Contains(line, " | ") {
		return "name " + strings.ReplaceAll(strings.TrimSpace(strings.Split(line, " [-")[0]), " | ", ", or ")
	}
	var names []string
	for word := range strings.FieldsSeq(line) {
		if !strings.HasPrefix(word, "[") && !strings.HasPrefix(word, "-") {
			names = append(names, strings.TrimRight(word, ".…"))
		}
	}
	if given >= len(names) {
		return ""
	}
	if names = names[given:]; len(names) == 1 {
		return names[0] + " is missing"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " are missing"
}

// alternatives joins words: a, b or c.
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
