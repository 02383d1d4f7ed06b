package backend

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
)

// Databases reads the objects of FoundationDB clusters, and runs programs in their pods. Only a Kubernetes cluster
// has them.
type Databases interface {
	// DatabaseClient reads and writes clusters, backups and restores, their children and nodes, with the caller's rights.
	DatabaseClient() (client.Client, error)
	// Exec runs a program in a container, and returns its exit code. An error says that it is not known whether it
	// ran, or with controller.Forbidden that it did not.
	Exec(ctx context.Context, e Exec) (code int, err error)
	// Now is the time by the clock of the API server.
	Now() time.Time
	// DatabaseChanges tells of changes of a cluster, its backups and its restores until ctx ends; without a name, of all
	// clusters. nil: the Kubernetes cluster does not have the kinds.
	DatabaseChanges() func(ctx context.Context, namespace, name string) <-chan struct{}
}

// Exec is a program in a container.
type Exec struct {
	Namespace, Pod, Container string

	Command  []string
	In       io.Reader // nil: none
	Out, Err io.Writer // with TTY all goes to Out
	TTY      bool
}

var _ Databases = (*Kube)(nil)

// DatabaseClient implements Databases.
func (k *Kube) DatabaseClient() (client.Client, error) {
	s := runtime.NewScheme()
	if err := fdbkube.AddToScheme(s); err != nil {
		return nil, err
	}
	c, err := client.New(k.config, client.Options{Scheme: s, Mapper: k.mapper})
	if err != nil {
		return nil, controller.Fault(err)
	}
	return controller.FaultClient(c), nil
}

// DatabaseChanges implements Databases.
func (k *Kube) DatabaseChanges() func(ctx context.Context, namespace, name string) <-chan struct{} {
	kinds := make([]kubeKind, 3)
	for i, word := range []string{"foundationdbclusters", "foundationdbbackups", "foundationdbrestores"} {
		var err error
		if kinds[i], err = k.kind(word + "." + v1beta2.GroupVersion.Group); err != nil {
			return nil
		}
	}
	return func(ctx context.Context, namespace, name string) <-chan struct{} {
		return k.watchAll(ctx, func(context.Context) []listening {
			of := cmp.Or(namespace, k.options.Namespace)
			watched := []listening{{kind: kinds[0], namespace: of, options: optionsFor(name)}}
			if name != "" {
				watched = append(watched, listening{kind: kinds[1], namespace: of}, listening{kind: kinds[2], namespace: of})
			}
			return watched
		})
	}
}

// Exec implements Databases.
func (k *Kube) Exec(ctx context.Context, e Exec) (int, error) {
	config := rest.CopyConfig(k.config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return 0, controller.Fault(err)
	}
	url := c.Post().Resource("pods").Namespace(e.Namespace).Name(e.Pod).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: e.Container, Command: e.Command, Stdin: e.In != nil, Stdout: true, Stderr: !e.TTY, TTY: e.TTY,
	}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return 0, controller.Fault(err)
	}
	older, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return 0, controller.Fault(err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return 0, controller.Fault(err)
	}
	o := remotecommand.StreamOptions{Stdin: e.In, Stdout: e.Out, Tty: e.TTY}
	if !e.TTY {
		o.Stderr = e.Err
	}
	err = executor.StreamWithContext(ctx, o)
	var ended clientexec.CodeExitError
	if errors.As(err, &ended) {
		return ended.Code, nil
	}
	return 0, controller.Fault(err)
}
