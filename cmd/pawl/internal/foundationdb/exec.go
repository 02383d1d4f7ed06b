package foundationdb

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

func (a verbs) execCommand() *cobra.Command {
	var w where
	var cluster, container string
	cmd := a.verb("exec [GROUP] [-- COMMAND…]", "Open a shell in a pod of a cluster, or run a program there",
		"  pawl fdb exec storage-4 -c orders\n  pawl fdb exec -c orders -- ls /var/fdb/data", cobra.ArbitraryArgs, func(context.Context, []string) error { return nil })
	cmd.Long = "Without GROUP the pod is one that is ready. The exit code is that of the program."
	cmd.RunE = a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		groups, command := args, []string(nil)
		if at := cmd.ArgsLenAtDash(); at >= 0 {
			groups, command = args[:at], args[at:]
		}
		if len(groups) > 1 {
			return cli.Usage.Errorf("give one group, and what is to run behind --")
		}
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		c, err := s.clusterOf(ctx, cluster, groups)
		if err != nil {
			return err
		}
		pods := s.facts(ctx, c, false).Pods
		pod := talker(pods)
		if len(groups) == 1 {
			pod = pods[v1beta2.ProcessGroupID(groups[0])]
		}
		if pod == nil {
			return Unreachable.Errorf("%s has no pod to run it in", cmp.Or(optional(groups), nameOf(c)))
		}
		return a.inPod(ctx, s, pod, container, command)
	})
	cmd.ValidArgsFunction = a.completeGroups
	w.namespaceFlag(cmd)
	a.clusterFlag(cmd, &cluster)
	cmd.Flags().StringVar(&container, "container", foundationdb.MainContainer, "`name` of the container")
	cli.SetCompletions(cmd, map[string]cli.Completion{"container": cli.FixedCompletion(foundationdb.MainContainer, foundationdb.SidecarContainer)})
	return cmd
}

// inPod runs a program, or a shell on a terminal.
func (a verbs) inPod(ctx context.Context, s *source, pod *corev1.Pod, container string, command []string) error {
	e := backend.Exec{Namespace: pod.Namespace, Pod: pod.Name, Container: container, Command: command, In: a.In, Out: a.Out, Err: a.Err}
	in, isFile := a.In.(*os.File)
	if len(command) == 0 {
		e.Command = []string{"/bin/bash"}
		if isFile && term.IsTerminal(int(in.Fd())) { //nolint:gosec // a file descriptor
			e.TTY = true
			before, err := term.MakeRaw(int(in.Fd())) //nolint:gosec // a file descriptor
			if err != nil {
				return err
			}
			defer func() { _ = term.Restore(int(in.Fd()), before) }() //nolint:gosec // a file descriptor
		}
	}
	code, err := s.exec(ctx, e)
	if err != nil {
		return err
	}
	return cli.End(code)
}

// harmless are the commands of fdbcli that change nothing of what the operator owns: with any arguments, or with
// none, which shows. Source: foundationdb 7.3.69, fdbcli/*Command*.actor.cpp.
var harmless = map[string]bool{
	"status": true, "get": true, "getrange": true, "getrangekeys": true, "getversion": true, "getlocation": true, "getall": true, "help": true,
	"profile": true, "throttle": true, "hotrange": true, "triggerddteaminfolog": true, "option": true, "sleep": true, "waitconnected": true, "waitopen": true,
	"configure": false, "coordinators": false, "exclude": false, "include": false, "kill": false, "maintenance": false, "consistencycheck": false, "setclass": false,
}

// owned is the first command of a text that may change what the operator owns; "": none.
func owned(text string) (string, error) {
	if strings.ContainsAny(text, "\n\r\x00") {
		return "", cli.Usage.Errorf("%q: a command is one line", text)
	}
	commands, err := fdb.ParseCommands(text)
	if err != nil {
		return "", cli.Usage.Errorf("%s: %w", text, err)
	}
	for _, words := range commands {
		if len(words) == 0 {
			continue
		}
		if always, known := harmless[strings.ToLower(words[0])]; !known || !always && (len(words) > 1 || words[0] == "configure" || words[0] == "include") {
			return words[0], nil
		}
	}
	return "", nil
}

func (a verbs) cliCommand() *cobra.Command {
	var w where
	var mine bool
	cmd := a.verb("cli [CLUSTER] -- COMMAND…", "Run one command of fdbcli in a pod of a cluster",
		"  pawl fdb cli orders -- status details\n  pawl fdb cli orders -- throttle list\n  pawl fdb cli orders --yes-i-own-this -- setclass 10.1.0.4:4501 storage", cobra.MinimumNArgs(1), func(context.Context, []string) error { return nil })
	cmd.Long = `Runs fdbcli --exec in a pod that is ready. A command that could change what the operator
owns, or that pawl does not know, is refused unless --yes-i-own-this is given. The exit code
is that of fdbcli.`
	cmd.RunE = a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		at := cmd.ArgsLenAtDash()
		if at < 0 || at > 1 || at == len(args) {
			return cli.Usage.Errorf("give the command behind --: pawl fdb cli CLUSTER -- status details")
		}
		text := strings.Join(args[at:], " ")
		word, err := owned(text)
		if err != nil {
			return err
		}
		if word != "" && !mine {
			return cli.Usage.Errorf("%s may change what the operator owns: use the verb of pawl fdb for it, or give --yes-i-own-this", word)
		}
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		c, err := s.cluster(ctx, optional(args[:at]))
		if err != nil {
			return err
		}
		pod := talker(s.facts(ctx, c, false).Pods)
		if pod == nil {
			return Unreachable.Errorf("no pod of %s runs", nameOf(c))
		}
		code, err := s.exec(ctx, backend.Exec{
			Namespace: pod.Namespace, Pod: pod.Name, Container: foundationdb.MainContainer, Out: a.Out, Err: a.Err,
			Command: []string{"fdbcli", "--exec", text, "--timeout", "40"},
		})
		if err != nil {
			return err
		}
		return cli.End(code)
	})
	w.namespaceFlag(cmd)
	cmd.Flags().BoolVar(&mine, "yes-i-own-this", false, "also a command that may change what the operator owns")
	return cmd
}
