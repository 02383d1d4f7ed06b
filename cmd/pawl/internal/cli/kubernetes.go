package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
)

// Target says where the verbs of one call find runs and objects.
type Target struct {
	Kubernetes    bool   // a cluster, not a store or a server
	Namespace     string // of the cluster's context; empty: standalone
	allNamespaces bool   // --all-namespaces
	NamespaceFlag string // the namespace that --namespace names
}

// How a flag was given, from the strongest. A call as kubectl pawl selects
// Kubernetes more strongly than the environment does.
const (
	rankLine    = 4
	rankPlugin  = 3
	rankEnviron = 2
	rankFile    = 1
)

// The flags that name a target.
var (
	clusterFlags = []string{"kubernetes", "context", "kubeconfig"}
	otherFlags   = []string{"server", "server-context", "dsn", "store"}
)

// runKinds maps values of --store to the kind that a cluster stores runs as.
var runsKept = map[string]kuberuns.Kind{
	"run": kuberuns.Run, "runs": kuberuns.Run, "configmap": kuberuns.ConfigMap, "configmaps": kuberuns.ConfigMap,
}

// Plugin reports a call as kubectl pawl, and one by which kubectl completes it.
func Plugin(program string) (calls, completes bool) {
	name, _, _ := strings.Cut(filepath.Base(program), ".") // .exe
	return name == "kubectl-pawl", name == "kubectl_complete-pawl"
}

// configured fills in the flags that were not given, and determines the target.
func (a *App) configured(cmd *cobra.Command) error {
	line := map[string]bool{}
	for _, name := range slices.Concat(clusterFlags, otherFlags, localFlags) {
		line[name] = cmd.Flags().Changed(name)
	}
	if err := configure(cmd, os.LookupEnv); err != nil {
		return err
	}
	if err := a.useCluster(cmd, line); err != nil || a.Target.Kubernetes {
		return err
	}
	return a.useContext(cmd, line)
}

// strongest returns how the strongest of some flags was given: rank 0 if none was.
func strongest(cmd *cobra.Command, names []string, line map[string]bool) (rank int, flag string) {
	for _, name := range names {
		if by := rankOf(cmd, name, line[name]); by > rank {
			rank, flag = by, name
		}
	}
	return rank, flag
}

// useCluster determines whether the call is for Kubernetes.
func (a *App) useCluster(cmd *cobra.Command, line map[string]bool) error {
	cluster, clusterFlag := strongest(cmd, clusterFlags, line)
	other, otherFlag := strongest(cmd, otherFlags, line)
	if cmd.Flags().Changed("kubernetes") && !a.Flags.Kubernetes {
		cluster = 0
	} else if a.Plugin {
		cluster = max(cluster, rankPlugin)
	}
	a.Target = Target{}
	usesBackend, why := targets(cmd)
	if f := cmd.Flags().Lookup("objects"); f != nil && f.Changed { // files in place of a cluster
		return nil
	}
	if other < rankLine && onlyOnKubernetes(cmd, a.completes) { // a store that the environment names is for other verbs
		return a.setTarget(cmd)
	}
	switch {
	case ownFlag(cmd, "context"), ownFlag(cmd, "kubernetes"), cluster < other, cluster == 0:
		return nil
	case !usesBackend && why != "" && cluster >= rankPlugin && cluster > other:
		return backend.NotOnKubernetes.Errorf("%s", why)
	case !usesBackend:
		return nil
	case cluster == other:
		return Usage.Errorf("%s and %s name two places: give one of them", flagText(clusterFlag, cluster), flagText(otherFlag, other))
	}
	return a.setTarget(cmd)
}

// flagText names a flag as it was given.
func flagText(flag string, rank int) string {
	switch rank {
	case rankEnviron:
		return variable(flag)
	case rankFile:
		return flag + " of --config"
	}
	return "--" + flag
}

// rankOf says how a flag was given: 0 if it was not, or is empty.
func rankOf(cmd *cobra.Command, name string, line bool) int {
	f := cmd.Flags().Lookup(name)
	if f == nil || !f.Changed || slices.Contains([]string{"", "false", "[]"}, f.Value.String()) {
		return 0
	}
	if _, ofCluster := runsKept[strings.ToLower(f.Value.String())]; name == "store" && ofCluster {
		return 0
	}
	if line {
		return rankLine
	}
	if _, has := os.LookupEnv(variable(name)); has {
		return rankEnviron
	}
	return rankFile
}

// ownFlag reports a command for which a flag of this name means something else.
func ownFlag(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name) != cmd.Root().PersistentFlags().Lookup(name)
}

// topOf is the command right below pawl.
func topOf(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd
}

// targets reports a command that works on runs or objects of any backend; for
// other commands, why says where they work.
func targets(cmd *cobra.Command) (usesBackend bool, why string) {
	top := topOf(cmd)
	if top.Name() == consoleVerb || top.Name() == devVerb && cmd != top {
		return true, ""
	}
	switch top.GroupID {
	case "runs", "look", "objects", "rollouts", "fdb", "pg":
		return true, ""
	case "files":
		return top.Name() == "plan" || top.Name() == "diff", ""
	case "clusters":
		return false, "container clusters are kept by a pawl server: name it with --server"
	case "accounts":
		return false, "accounts are those of a pawl server (--server); on Kubernetes rights are given by roles: kubectl auth can-i --list"
	case "servers":
		return false, "pawl " + top.Name() + " works on a store; on Kubernetes pawl operator works"
	}
	switch top.Name() {
	case "store", "import", "bench":
		return false, "pawl " + top.Name() + " is for a store (--dsn); runs of a cluster are backed up with the cluster"
	}
	return false, ""
}

// onlyOnKubernetes reports a verb whose objects are in a cluster: it needs no flag that says so. Those
// are the verbs of pawl rollout and pawl fdb, and the others with the arguments rollout NAME or fdb NAME; get
// lists them without a name, and a completion looks for one.
func onlyOnKubernetes(cmd *cobra.Command, completes bool) bool {
	if cmd.Name() == consoleVerb || cmd.HasParent() && cmd.Parent().GroupID == "rollouts" || databases(cmd) {
		return true
	}
	args := cmd.Flags().Args()
	if len(args) == 0 || !slices.Contains([]string{"describe", "get", "history", "plan", "wait", "watch"}, cmd.Name()) {
		return false
	}
	kind, _, named := strings.Cut(args[0], "/")
	return (backend.IsRollout(kind) || report.KindOf(kind) != "") && (named || len(args) > 1 || completes || cmd.Name() == "get")
}

// databases reports a verb of pawl fdb.
func databases(cmd *cobra.Command) bool {
	for ; cmd != nil; cmd = cmd.Parent() {
		if cmd.GroupID == "fdb" {
			return true
		}
	}
	return false
}

// consoleVerb is a server that is a face of a cluster; verbs below devVerb are for the cluster that it plays.
const (
	consoleVerb = "console"
	devVerb     = "dev"
)

// setTarget determines the namespaces of the call.
func (a *App) setTarget(cmd *cobra.Command) error {
	home, _, err := clientConfig(a.Flags.Kubeconfig, a.Flags.Context).Namespace()
	if err != nil {
		return noConnection(err)
	}
	a.Target = Target{Kubernetes: true, Namespace: home}
	if f := cmd.Flags().Lookup("namespace"); f != nil {
		a.Target.NamespaceFlag = f.Value.String()
	}
	if f := cmd.Flags().Lookup("all-namespaces"); f != nil {
		a.Target.allNamespaces = f.Value.String() == "true"
	}
	return nil
}

// clientConfig returns the connection to an API server: from a file, the pod's account, or the user's own file.
func clientConfig(file, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// ContextName is the context that the call uses; empty: there is none, as in a pod.
func (a *App) ContextName() string {
	if a.Flags.Context != "" {
		return "context " + a.Flags.Context
	}
	raw, err := clientConfig(a.Flags.Kubeconfig, "").RawConfig()
	if err != nil || raw.CurrentContext == "" {
		return ""
	}
	return "context " + raw.CurrentContext
}

// CompleteNamespaces completes --namespace of a command.
func (a *App) CompleteNamespaces(cmd *cobra.Command) {
	SetCompletions(cmd, map[string]Completion{"namespace": a.completeNamespaces})
}

func noConnection(err error) error {
	return Usage.Errorf("there is no way to a Kubernetes cluster; name a file with --kubeconfig: %w", err)
}

// KubeConfig returns that connection for a client.
func KubeConfig(file, context string) (*rest.Config, error) {
	config, err := clientConfig(file, context).ClientConfig()
	if err != nil {
		return nil, noConnection(err)
	}
	return config, nil
}

// openCluster returns the backend of a cluster.
func (a *App) openCluster(ctx context.Context, files []string) (*backend.Kube, error) {
	if len(files) > 0 {
		return nil, backend.NotOnKubernetes.Errorf("a file is not executed on Kubernetes: an operator has the flow; start it by its name")
	}
	config, err := KubeConfig(a.Flags.Kubeconfig, a.Flags.Context)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.WarningHandler = "pawl/"+a.VersionText(), rest.NoWarnings{}
	klog.SetLogger(logr.Discard()) // the verb reports a failure once
	o := backend.KubeOptions{Config: config, Namespace: cmp.Or(a.Target.NamespaceFlag, a.Target.Namespace), Flows: a.Flags.Flows, Machines: a.Flags.Machines, Logger: a.Logger()}
	if a.Target.allNamespaces {
		o.Namespace = ""
	}
	o.Runs = runsKept[strings.ToLower(a.Flags.Store)]
	return backend.OpenKube(ctx, o)
}

// NamespaceFlags adds the namespace flags to verbs that work on Kubernetes.
func (a *App) NamespaceFlags(group string, cmd *cobra.Command) {
	f := cmd.Flags()
	switch group {
	case "runs":
		f.StringP("namespace", "n", "", "`namespace` of the run, on Kubernetes (default: that of the context)")
	case "look":
		if cmd.Name() == "explain" {
			return
		}
	case "objects":
		SetCompletions(cmd, map[string]Completion{"namespace": a.completeNamespaces})
		return
	case "files":
		if f.Lookup("namespace") != nil {
			SetCompletions(cmd, map[string]Completion{"namespace": a.completeNamespaces})
		}
		return
	default:
		return
	}
	f.BoolP("all-namespaces", "A", false, "look in all namespaces, on Kubernetes")
	SetCompletions(cmd, map[string]Completion{"namespace": a.completeNamespaces})
}
