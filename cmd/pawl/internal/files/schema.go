package files

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/flowfile/testfile"
)

// SchemaNames are the kinds of files that have a schema.
var SchemaNames = []string{"flow", "machine", "object", "test"}

// Schema returns the JSON Schema of a kind of files, with the parameters of all ready-made actions.
func Schema(name string) ([]byte, error) {
	switch name {
	case "machine":
		return machinefile.Schema(knownActions()...)
	case "object":
		return manifest.Schema()
	case "test":
		return append(bytes.TrimSpace(testfile.Schema()), '\n'), nil
	case "flow":
		return flowfile.Schema(knownActions()...)
	}
	return nil, cli.Usage.Errorf("there is no schema %q%s", name, cli.Suggest(name, SchemaNames))
}

func (a verbs) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema [" + strings.Join(SchemaNames, "|") + "]", Short: "Print the JSON Schema of files, for editors",
		Long: `Prints the JSON Schema of flow files (also groups and faults), machines, objects
such as schedules, or files of tests. Each ready-made action has a schema for its
parameters. An editor with the YAML language server uses it after a line

  # yaml-language-server: $schema=flow.schema.json

at the head of a file; the path is relative to that file.`,
		Example:   "  pawl schema > flow.schema.json\n  pawl schema machine > machine.schema.json",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: slices.Clone(SchemaNames),
		RunE: a.Verb(func(_ context.Context, _ *cobra.Command, args []string) error {
			data, err := Schema(append(args, "flow")[0])
			if err == nil {
				_, err = a.Out.Write(data)
			}
			return err
		}),
	}
}
