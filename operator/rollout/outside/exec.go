package outside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/pawl-dev/pawl/rollout"
)

// exec runs a command in a pod and returns what it wrote. Its error is that of a command that failed,
// with the end of what it wrote.
func (c *Client) exec(ctx context.Context, pod Pod, e rollout.ExecProbe) (string, error) {
	container := e.Container
	if container == "" {
		container = pod.Container
	}
	config := rest.CopyConfig(c.Config)
	core, err := rest.RESTClientFor(coreConfig(config))
	if err != nil {
		return "", err
	}
	request := core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: e.Command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	stream, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, request.URL().String())
	if err != nil {
		return "", err
	}
	out, errs := &limited{}, &limited{}
	err = stream.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errs})
	var exit utilexec.CodeExitError
	switch {
	case ctx.Err() != nil:
		return "", errors.New("the command took too long")
	case errors.As(err, &exit):
		return "", fmt.Errorf("exit code %d: %.256s", exit.Code, strings.TrimSpace(errs.String()+out.String()))
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

func coreConfig(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

// limited keeps the first bytes of what is written, and takes all.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if room := outputKept - l.Len(); room > 0 {
		l.Builder.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
