package servers

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/serve"
)

// ofClients are flags that do not concern a server.
var ofClients = []string{"as", "color", "config", "help", "output", "server", "server-context", "timeout"}

// effective is the configuration that a server would run with.
type effective struct {
	Server   map[string]any  `json:"server"`
	Clusters *serve.Clusters `json:"containerClusters,omitempty"`
}

func (a verbs) serverConfig() *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use: "config", Short: "Print the configuration that pawl server would run with, without secrets",
		Long: `Prints every setting as flags, environment, the file of --config and the
defaults make it, and the file of --clusters with its defaults filled in.
Passwords and keys are stars. Nothing is started and no store is opened.`,
		Example: "  pawl server config --config /etc/pawl/pawl.yaml\n  pawl server config --clusters clusters.yaml -o json", Args: cobra.NoArgs,
	}
	o.flags(cmd)
	cmd.RunE = a.Verb(func(_ context.Context, cmd *cobra.Command, _ []string) error {
		clusters, err := a.clustersOf("server", o.clusters)
		if err != nil {
			return err
		}
		e := effective{Server: map[string]any{}}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(ofClients, f.Name) {
				e.Server[f.Name] = settingOf(f)
			}
		})
		if a.Flags.Store != "memory" {
			e.Server["dsn"] = withoutPassword(a.StoreOptions().Path())
		}
		if clusters != nil {
			rendered := clusters.Effective()
			e.Clusters = &rendered
		}
		return a.Emit(e, nil, func() string {
			data, err := json.Marshal(e)
			if err != nil {
				return err.Error()
			}
			text, err := cli.ToYAML(data)
			if err != nil {
				return err.Error()
			}
			return text
		})
	})
	return cmd
}

// settingOf is the value of a flag: a number, a boolean, a list or a text without secrets.
func settingOf(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	switch f.Value.Type() {
	case "int", "bool":
		return json.RawMessage(f.Value.String())
	}
	return withoutPassword(f.Value.String())
}

var (
	passwordOfURL = regexp.MustCompile(`(://[^\s/:@]*):\S*@`)
	passwordOfKey = regexp.MustCompile(`(?i)(pass(?:word|file)\s*=\s*)('[^']*'|[^\s&]+)`)
)

// withoutPassword is a text without the password of a URL or of a list of key=value.
func withoutPassword(text string) string {
	return passwordOfKey.ReplaceAllString(passwordOfURL.ReplaceAllString(text, "$1:***@"), "$1***")
}
