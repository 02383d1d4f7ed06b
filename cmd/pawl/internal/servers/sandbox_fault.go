package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/foundationdb/sandbox"
	"github.com/pawl-dev/pawl/view"
)

// NoSandbox says that a cluster is none that may be broken.
var NoSandbox = fault.Declare(fault.Kind{
	Code: "NO_SANDBOX", Class: fault.Invalid,
	Title:  "the cluster is not that of pawl dev --fdb",
	Remedy: "Start pawl dev --fdb, and export the KUBECONFIG that it prints.",
})

func (a verbs) faultCommand() *cobra.Command {
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "fault [NAME [TARGET]]", Short: "Break something in the world of pawl dev --fdb, or list what can be broken",
		Long: `Injects a fault into the world of pawl dev --fdb that KUBECONFIG leads to; another cluster is
refused. Without NAME it lists the faults. TARGET is a process group, its pod, a class (its
first group), or a node. The fault clear ends all that last.`,
		Example: "  pawl dev fault\n  pawl dev fault kill-pod storage\n  pawl dev fault hang storage-17 --for 5m\n  pawl dev fault lose-node node-3\n  pawl dev fault clear",
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := []string{sandbox.Clear + "\tend all faults that last"}
			for _, f := range sandbox.Faults() {
				words = append(words, f.Name+"\t"+f.Does)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listFaults()
			}
			ask := sandbox.Asked{Name: args[0]}
			if len(args) > 1 {
				ask.Target = args[1]
			}
			if lasts != 0 {
				ask.For = lasts.String()
			}
			if err := a.askSandbox(ctx, "faults", ask, nil); err != nil {
				return err
			}
			a.Say("%s", strings.TrimSpace("fault "+ask.Name+" "+ask.Target))
			return nil
		}),
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long it lasts, by the clock of the world (default: until pawl dev fault clear)")
	return cmd
}

func (a verbs) listFaults() error {
	return cli.EmitList(a.App, sandbox.Faults(), func(f sandbox.Fault) string { return f.Name }, "", []view.Column[sandbox.Fault]{
		{Head: "FAULT", Cell: func(f sandbox.Fault) string { return f.Name }},
		{Head: "TARGET", Cell: func(f sandbox.Fault) string { return f.Target }},
		{Head: "LASTS", Cell: func(f sandbox.Fault) string { return map[bool]string{true: "yes", false: "no"}[f.Lasts] }},
		{Head: "DOES", Cell: func(f sandbox.Fault) string { return f.Does }},
	})
}

func (a verbs) skipCommand() *cobra.Command {
	return &cobra.Command{
		Use: "skip TIME", Short: "Let time pass at once in the world of pawl dev --fdb",
		Long:    "The operator and the database work meanwhile as in any other time. An hour takes a second or so.",
		Example: "  pawl dev skip 10m\n  pawl dev skip 2h",
		Args:    cobra.ExactArgs(1),
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			var now struct {
				Now time.Time `json:"now"`
			}
			if err := a.askSandbox(ctx, "skip", sandbox.Asked{For: args[0]}, &now); err != nil {
				return err
			}
			a.Say("it is %s there", now.Now.UTC().Format(time.RFC3339))
			return nil
		}),
	}
}

// askSandbox posts a request to the sandbox that the kubeconfig leads to.
func (a verbs) askSandbox(ctx context.Context, what string, ask sandbox.Asked, into any) error {
	config, err := cli.KubeConfig(a.Flags.Kubeconfig, a.Flags.Context)
	if err != nil {
		return NoSandbox.Errorf("%s", fault.Message(err))
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return NoSandbox.Errorf("%w", err)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(config.Host, "/")+"/sandbox/"+what, bytes.NewReader(body))
	if err != nil {
		return NoSandbox.Errorf("%w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answered, err := client.Do(r)
	if err != nil {
		return fault.APIUnavailable.Errorf("%w", err)
	}
	defer answered.Body.Close()
	if answered.StatusCode == http.StatusOK {
		if into == nil {
			return nil
		}
		return json.NewDecoder(answered.Body).Decode(into)
	}
	var refused metav1.Status
	if json.NewDecoder(answered.Body).Decode(&refused) != nil || answered.StatusCode == http.StatusNotFound && refused.Details == nil || answered.StatusCode == http.StatusForbidden || answered.StatusCode == http.StatusUnauthorized {
		return NoSandbox.Errorf("%s is another cluster: it answers %s", config.Host, answered.Status)
	}
	return cli.Usage.Errorf("%s", refused.Message)
}
