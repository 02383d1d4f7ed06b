package realcluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// clientPod is the pod that the traffic comes from; the image of the database has a shell.
const clientPod = `apiVersion: v1
kind: Pod
metadata: {name: client, namespace: %s}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 999, runAsGroup: 999}
  containers:
    - name: client
      image: postgres:15
      command: [sleep, infinity]
      env:
        - name: PGPASSWORD
          valueFrom: {secretKeyRef: {name: orders-auth, key: password}}
      volumeMounts: [{name: programs, mountPath: /programs}]
  volumes: [{name: programs, emptyDir: {}}]
`

// traffic commits rows from a pod, through the Service of the writer.
type traffic struct {
	f      *fixture
	cmd    *exec.Cmd
	ask    io.WriteCloser
	answer *bufio.Scanner
}

// build builds the client's program for the processor of a node.
func build(arch string) (string, error) {
	program := filepath.Join(programs, "traffic-"+arch)
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./traffic")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

// write begins to write to the sample, and returns once a row is committed.
func (f *fixture) write() *traffic {
	f.t.Helper()
	if _, err := f.try(fmt.Sprintf(clientPod, f.namespace), "apply", "-f", "-"); err != nil {
		f.t.Fatal(err)
	}
	f.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=2m")
	node := f.kubectl("get", "pod", "client", "-o", "jsonpath={.spec.nodeName}")
	program, err := build(f.kubectl("get", "node", node, "-o", "jsonpath={.status.nodeInfo.architecture}"))
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.try(string(text), "exec", "-i", "client", "--", "sh", "-c", "cat >/programs/traffic && chmod +x /programs/traffic"); err != nil {
		f.t.Fatal(err)
	}
	w := &traffic{f: f}
	ctx, cancel := context.WithCancel(context.Background())
	w.cmd = f.command(ctx, "exec", "-i", "client", "--", "/programs/traffic", "host="+sample+"-rw port=5432 user=postgres dbname=postgres connect_timeout=2")
	if w.ask, err = w.cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	w.answer, w.cmd.Stderr = bufio.NewScanner(out), os.Stderr
	if err := w.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		w.ask.Close()
		cancel()
		_ = w.cmd.Wait() // it was told to end
	})
	if _, err := w.read(); err != nil {
		f.t.Fatal(err)
	}
	return w
}

func (w *traffic) read() (int, error) {
	if !w.answer.Scan() {
		return 0, fmt.Errorf("the client's program has ended: %w", w.answer.Err())
	}
	if said, failed := strings.CutPrefix(w.answer.Text(), "error "); failed {
		return 0, fmt.Errorf("the client: %s", said)
	}
	return strconv.Atoi(w.answer.Text())
}

func (w *traffic) tell(command string) (int, error) {
	if _, err := io.WriteString(w.ask, command+"\n"); err != nil {
		return 0, err
	}
	return w.read()
}

// pause is the longest time between two answered commits since the last pause.
func (w *traffic) pause(t *testing.T) time.Duration {
	t.Helper()
	ms, err := w.tell("pause")
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// end stops writing and checks that each instance has each answered row.
func (w *traffic) end(c *v1alpha1.SharedStorageCluster) (rows int) {
	w.f.t.Helper()
	rows, err := w.tell("stop")
	if err != nil {
		w.f.t.Fatal(err)
	}
	for id, i := range c.Status.Instances {
		w.f.await(time.Minute, "each answered row is on instance "+id, func(context.Context) error {
			missing, err := w.tell(fmt.Sprintf("missing host=%s port=%d user=postgres dbname=postgres connect_timeout=2", i.Address, i.Port))
			if err == nil && missing > 0 {
				err = fmt.Errorf("%d of %d answered rows are missing", missing, rows)
			}
			return err
		})
	}
	return rows
}
