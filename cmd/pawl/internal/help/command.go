package help

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

// helpVerb is the name of the command.
const helpVerb = "help"

// listed is the word that lists the topics.
const listed = "topics"

// Command returns the help of commands and topics.
func Command(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: helpVerb + " [COMMAND... | TOPIC]", Short: "Tell about a command or a topic; help topics lists the topics",
		Long: `Tells about a command, or about a topic that many commands share: pawl help topics
lists the topics.`,
		Example:           "  pawl help describe\n  pawl help topics\n  pawl help exit-codes",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			style := a.Style(a.Out)
			if len(args) == 1 && args[0] == listed {
				_, err := io.WriteString(a.Out, list())
				return err
			}
			target, rest, err := cmd.Root().Find(args)
			if err == nil && target != nil && len(rest) == 0 {
				target.InitDefaultHelpFlag()
				return target.Help()
			}
			if len(args) == 1 {
				if t, ok := find(args[0]); ok {
					_, err := io.WriteString(a.Out, t.render(style))
					return err
				}
			}
			return cli.Usage.Errorf("there is no command or topic %s%s", strings.Join(args, " "), cli.Suggest(args[0], words(cmd.Root())))
		},
	}
}

// words are the commands and topics that help knows.
func words(root *cobra.Command) []string {
	all := []string{listed}
	for _, t := range Topics() {
		all = append(all, t.Name)
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

// complete suggests commands and topics, then the commands below a command.
func complete(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	at, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, c := range at.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name()+"\t"+c.Short)
		}
	}
	if !at.HasParent() {
		all = append(all, listed+"\tList the topics")
		for _, t := range Topics() {
			all = append(all, t.Name+"\t"+t.Title)
		}
	}
	return slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, start) }), cobra.ShellCompDirectiveNoFileComp
}

func list() string {
	t := view.TableOf(Topics(), []view.Column[Topic]{
		{Head: "TOPIC", Cell: func(t Topic) string { return t.Name }},
		{Head: "TELLS", Cell: func(t Topic) string { return t.Title }},
	})
	return t.Text(view.Style{}) + "\nRead one with: pawl help TOPIC\n"
}

// render is a topic for a terminal.
func (t Topic) render(style view.Style) string {
	return style.Bold(t.Title) + "\n\n" + t.Text
}

// Options returns the command that lists the flags of all commands.
func Options(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the flags of all commands", Example: "  pawl options", Args: cobra.NoArgs,
		Long: "The flags that every command takes. Each is also an environment variable and a key of\nthe file of --config: see pawl help environment.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(a.Out, "These flags may be given to every command:\n\n%s", cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}
