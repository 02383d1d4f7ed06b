package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// kubectl returns a kubectl command in a namespace.
func kubectl(ctx context.Context, p *controlplane.Plane, ns string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.Binaries.Kubectl, append([]string{"--kubeconfig", p.Kubeconfig(), "-n", ns}, args...)...)
}

// kubectl logs shows the log of the current and of the previous run, by lines and bytes, and
// says why there is none.
func TestKubectlShowsLogs(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	k := programs(t, p, "logging", kubelet.Options{Backoff: time.Hour})
	create(t, p, ns, on("logging", shell("s", `test -e $CONTAINER_ROOT/again || { touch $CONTAINER_ROOT/again; echo first; exit 3; }; for i in 1 2 3; do echo line $i; done; exec sleep 1000`, func(s *corev1.PodSpec, c *corev1.Container) {
		s.RestartPolicy, s.TerminationGracePeriodSeconds = corev1.RestartPolicyAlways, ptr[int64](1)
	})))
	create(t, p, ns, on("logging", shell("never", "true", func(_ *corev1.PodSpec, c *corev1.Container) { c.Image = "unknown:1" })))
	create(t, p, ns, on("logging", shell("falls", "echo falling; exit 1", func(s *corev1.PodSpec, _ *corev1.Container) { s.RestartPolicy = corev1.RestartPolicyAlways })))
	awaitPod(t, p, ns, "s", "runs again", restarted(1))
	awaitPod(t, p, ns, "never", "says why", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull"
	})
	awaitPod(t, p, ns, "falls", "backs off", func(pod *corev1.Pod) bool {
		c := pod.Status.ContainerStatuses
		return len(c) > 0 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	eventually(t, "the log", func(ctx context.Context) error {
		if out, err := kubectl(ctx, p, ns, "logs", "s").CombinedOutput(); err != nil || string(out) != "line 1\nline 2\nline 3\n" {
			return fmt.Errorf("it is %q (%v)", out, err)
		}
		return nil
	})
	for _, c := range []struct{ args, want, fails string }{
		{"logs s --previous", "first\n", ""},
		{"logs s --tail=2", "line 2\nline 3\n", ""},
		{"logs s --limit-bytes=4", "line", ""},
		{"logs falls", "falling\n", ""},
		{"logs falls --previous", "falling\n", ""},
		{"logs never", "", "waiting to start: ErrImagePull"},
		{"logs never --previous", "", "previous terminated container \"main\" in pod \"never\" not found"},
		{"logs s --since=1m", "", "timestamps and since do not work"},
	} {
		out, err := kubectl(t.Context(), p, ns, strings.Fields(c.args)...).CombinedOutput()
		if (err != nil) != (c.fails != "") || c.fails == "" && string(out) != c.want || !strings.Contains(string(out), c.fails) {
			t.Errorf("kubectl %s: %v\n%s", c.args, err, out)
		}
	}
	if err := k.CutNode("logging-1"); err != nil {
		t.Fatal(err)
	}
	if out, err := kubectl(t.Context(), p, ns, "logs", "s").CombinedOutput(); err == nil {
		t.Errorf("a node that is cut off answers %q", out)
	}
	if err := k.StartNode(t.Context(), "logging-1"); err != nil {
		t.Fatal(err)
	}
}

// kubectl logs -f shows lines as they are written, and ends with the container.
func TestKubectlFollowsALog(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	k := programs(t, p, "following", kubelet.Options{})
	create(t, p, ns, on("following", shell("s", "echo ready; while ! test -e $CONTAINER_ROOT/go; do sleep 0.05; done; echo steady; while ! test -e $CONTAINER_ROOT/end; do sleep 0.05; done; echo gone", nil)))
	awaitPod(t, p, ns, "s", "runs", phase(corev1.PodRunning))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := kubectl(ctx, p, ns, "logs", "-f", "s")
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i, want := range []string{"ready", "steady", "gone"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("line %d is %q, not %q (%v)", i, lines.Text(), want, lines.Err())
		}
		if i < 2 {
			must(k.Exec(ctx, ns, "s", "", "touch", k.Root(ns, "s", "main")+"/"+[]string{"go", "end"}[i]))(t)
		}
	}
	if lines.Scan() {
		t.Errorf("behind the end is %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// kubectl exec runs in the container's environment and returns output, errors and exit code;
// with a terminal too.
func TestKubectlExecutes(t *testing.T) {
	p := suite.Plane(t)
	ns := p.Namespace(t)
	programs(t, p, "executing", kubelet.Options{})
	create(t, p, ns, on("executing", shell("s", "exec sleep 1000", func(s *corev1.PodSpec, c *corev1.Container) {
		s.TerminationGracePeriodSeconds = ptr[int64](1)
		c.Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}}
	})))
	awaitPod(t, p, ns, "s", "runs", phase(corev1.PodRunning))
	var out, errs bytes.Buffer
	cmd := kubectl(t.Context(), p, ns, "exec", "-i", "s", "--", "sh", "-c", "echo $COLOUR; cat; echo oops >&2; exit 5")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("from the client\n"), &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 {
		t.Errorf("it ended with %v", err)
	}
	if out.String() != "blue\nfrom the client\n" || !strings.HasPrefix(errs.String(), "oops\n") {
		t.Errorf("it said %q and %q", out.String(), errs.String())
	}
	for _, c := range []struct {
		args []string
		fail bool
		want string
	}{
		{[]string{"exec", "s", "-c", "main", "--", "sh", "-c", "sleep 1000 & echo done"}, false, "done\n"},
		{[]string{"exec", "s", "--", "no-such-program"}, true, "no-such-program"},
	} {
		out, err := kubectl(t.Context(), p, ns, c.args...).CombinedOutput()
		if (err != nil) != c.fail || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
	request := p.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(ns).Name("s").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"sh", "-c", "test -t 0 && read line && echo got $line $TERM && stty size"}, Stdin: true, Stdout: true, TTY: true}, scheme.ParameterCodec)
	terminal := must(remotecommand.NewWebSocketExecutor(p.Config(), "GET", request.URL().String()))(t)
	sizes := make(sizes, 1)
	sizes <- remotecommand.TerminalSize{Width: 81, Height: 23}
	defer close(sizes)
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		time.Sleep(time.Second) // the size arrives meanwhile
		_, _ = typed.Write([]byte("hello\n"))
	}()
	var screen bytes.Buffer
	err = terminal.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &screen, Tty: true, TerminalSizeQueue: sizes})
	if err != nil || !strings.Contains(screen.String(), "got hello xterm\r\n23 81") {
		t.Errorf("the terminal: %v\n%q", err, screen.String())
	}
}

// sizes are the sizes of a terminal, until it is closed.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}
