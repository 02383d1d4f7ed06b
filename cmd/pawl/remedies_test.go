package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
)

// quoted finds the command lines of a remedy, bare those that stand in it without quotes.
var (
	quoted = regexp.MustCompile("`pawl ([^`]+)`")
	bare   = regexp.MustCompile(`\bpawl ([a-z][^.,;:()` + "`" + `]*)`)
)

// A remedy that names a command names one that there is, with flags that it has. A reader types it as it stands: in
// quotes it also has the arguments that the command needs.
func TestRemediesNameCommands(t *testing.T) {
	n := 0
	for _, k := range fault.All() {
		for _, line := range quoted.FindAllStringSubmatch(k.Remedy, -1) {
			n++
			if err := parses(strings.Fields(line[1]), true); err != "" {
				t.Errorf("%s: `pawl %s`: %s", k.Code, line[1], err)
			}
		}
		for _, line := range bare.FindAllStringSubmatch(quoted.ReplaceAllString(k.Remedy, ""), -1) {
			n++
			if err := parses(strings.Fields(line[1]), false); err != "" {
				t.Errorf("%s: pawl %s: %s", k.Code, line[1], err)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d commands were found in remedies: the patterns find too little", n)
	}
}

// parses says what is wrong with a command line; whole demands its arguments.
func parses(words []string, whole bool) string {
	top := root(&cli.App{})
	cmd, args, err := top.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd == top {
		return "there is no such command"
	}
	if !whole {
		if cmd.HasSubCommands() && cmd.RunE == nil && len(args) > 0 && !slices.Contains([]string{"and", "or"}, args[0]) {
			return "there is no such command below " + cmd.CommandPath()
		}
		return ""
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err.Error()
	}
	return arguments(cmd)
}

func arguments(cmd *cobra.Command) string {
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}
