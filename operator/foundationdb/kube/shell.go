package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Shell runs commands in pods. The operator has it only with --fdb-fix-coordinator-ips; it needs ShellRules.
type Shell struct {
	config  *rest.Config
	timeout time.Duration
}

// NewShell makes a shell. Its commands end after the timeout.
func NewShell(config *rest.Config, timeout time.Duration) *Shell {
	return &Shell{config: config, timeout: timeout}
}

// clusterFile is the cluster file of the servers of a pod, which they read when they start.
const clusterFile = "/var/fdb/data/fdb.cluster"

// rewrite writes $1 into the file $2, unless it has that line, and ends the servers then: the launcher, or fdbmonitor,
// starts them again. One that has ended already is no error.
const rewrite = `grep -qxF -e "$1" "$2" 2>/dev/null && exit 0
printf '%s\n' "$1" > "$2.new" && mv "$2.new" "$2" || exit 1
pkill -x fdbserver || true`

// ClusterFileCommand is the command that writes a connection string into the cluster file of a pod's servers and ends
// them, unless they have it.
func ClusterFileCommand(c fdb.Connection) []string { return rewriteCommand(c.String(), clusterFile) }

// rewriteCommand is the command that writes a connection string into a file.
func rewriteCommand(connection, file string) []string {
	return []string{"sh", "-c", rewrite, "sh", connection, file}
}

// WriteClusterFile writes a connection string into the cluster file of a pod's servers and ends them, unless they have
// it.
func (s *Shell) WriteClusterFile(ctx context.Context, pod *corev1.Pod, c fdb.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	config := rest.CopyConfig(s.config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	core, err := rest.RESTClientFor(config)
	if err != nil {
		return err
	}
	request := core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: foundationdb.MainContainer, Command: ClusterFileCommand(c), Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	stream, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	var said strings.Builder
	if err := stream.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &said, Stderr: &said}); err != nil {
		return fmt.Errorf("the cluster file in pod %s could not be written: %w: %.256s", pod.Name, err, strings.TrimSpace(said.String()))
	}
	return nil
}
