package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/help"
)

// manPages writes a page of section 1 for cmd and each command below it into folder, without
// a date, so that the same commit writes the same pages. cobra's generator would bring a
// Markdown renderer along.
func manPages(cmd *cobra.Command, version, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if !cmd.HasParent() {
		cmd.InitDefaultCompletionCmd() // cobra adds it to whichever command is asked
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(folder, name+".1"), []byte(manPage(cmd, name, version)), 0o644); err != nil {
		return err
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			if err := manPages(child, version, folder); err != nil {
				return err
			}
		}
	}
	return nil
}

func manPage(cmd *cobra.Command, name, version string) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"pawl %s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(version), roff(name), roff(cmd.Short))
	section("SYNOPSIS", help.Line(cmd))
	section("DESCRIPTION", cmd.Long)
	section("EXAMPLES", cmd.Example)
	flags := func(title string, set *pflag.FlagSet) { section(title, set.FlagUsagesWrapped(76)) }
	var also []string
	switch {
	case !cmd.HasParent():
		flags("OPTIONS", cmd.NonInheritedFlags())
	case cmd.Name() == "options" && cmd.Parent() == cmd.Root():
		flags("OPTIONS", cmd.InheritedFlags())
	default:
		flags("OPTIONS", help.Flags(cmd))
		also = append(also, "pawl-options(1)")
	}
	if cmd.HasParent() {
		also = append(also, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")+"(1)")
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			also = append(also, name+"-"+child.Name()+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(also, "\n"))
	return b.String()
}

// roff escapes text: a backslash, a hyphen that shall stay one, and dots and quotes that
// would begin a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
