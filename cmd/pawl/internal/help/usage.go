package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Text is what a command's help says behind its description: usage, examples, commands and its own flags. The flags
// of all commands are in pawl options.
func Text(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n "); text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, text)
		}
	}
	b.WriteString("Usage:\n  " + Line(cmd) + "\n")
	if len(cmd.Aliases) > 0 {
		section("Aliases", "  "+cmd.NameAndAliases())
	}
	section("Examples", cmd.Example)
	for _, g := range cmd.Groups() {
		section(strings.TrimSuffix(g.Title, ":"), commands(cmd, g.ID))
	}
	title := "Commands"
	if len(cmd.Groups()) > 0 {
		title = "Others"
	}
	section(title, commands(cmd, ""))
	flags := Flags(cmd)
	section("Flags", flags.FlagUsages())
	b.WriteString("\n")
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "More about a command: %s COMMAND --help", cmd.CommandPath())
		if !cmd.HasParent() {
			b.WriteString("; about exit codes, contexts and more: pawl help topics")
		}
		b.WriteString("\n")
	}
	b.WriteString("Flags of all commands, such as --output, --server and --context: pawl options\n")
	return b.String()
}

// Flags are the flags of a command without those of all commands.
func Flags(cmd *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	own.SortFlags = cmd.Flags().SortFlags
	everywhere := cmd.Root().PersistentFlags()
	for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if everywhere.Lookup(f.Name) != f && own.Lookup(f.Name) == nil {
				own.AddFlag(f)
			}
		})
	}
	return own
}

// commands are the lines of the commands in a group; empty: of those in none.
func commands(cmd *cobra.Command, group string) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == helpVerb) { // cobra counts help as not available
			fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// Line is the usage of a command on one line, with the flags that it requires.
func Line(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	if _, args, ok := strings.Cut(cmd.Use, " "); ok {
		line += " " + args
	} else if cmd.HasAvailableSubCommands() {
		line += " COMMAND"
	}
	more := false
	Flags(cmd).VisitAll(func(f *pflag.Flag) {
		switch required := f.Annotations[cobra.BashCompOneRequiredFlag]; {
		case f.Hidden || f.Name == "help":
		case len(required) == 0 || required[0] != "true":
			more = true
		case !strings.Contains(line, "--"+f.Name+" "):
			name, _ := pflag.UnquoteUsage(f)
			line += " --" + f.Name + " " + strings.ToUpper(name)
		}
	})
	if more {
		line += " [flags]"
	}
	return line
}
