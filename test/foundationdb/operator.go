package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
)

var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Operator is `pawl operator` as a process.
type Operator struct {
	// Log is the file with its output.
	Log     string
	command *exec.Cmd
	ended   chan error
}

// StartOperator starts the operator for one namespace, as the user of a kubeconfig, with more flags. It needs bin/pawl.
func (e *Environment) StartOperator(kubeconfig, namespace string, flags ...string) (*Operator, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", "pawl")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; make build", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	o := &Operator{Log: filepath.Join(e.Plane.Dir(), "operator-"+namespace+".log"), ended: make(chan error, 1)}
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append([]string{
		"operator", "--operators", "foundationdb", "--kubeconfig", kubeconfig, "--namespaces", namespace,
		"--operator-namespace", namespace, "--listen", address, "--fdb-tools", e.Tools,
	}, flags...)
	o.command = exec.Command(program, args...)
	o.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "TMPDIR=" + e.dir}, e.Env...)
	o.command.Stdout, o.command.Stderr = log, log
	o.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := o.command.Start(); err != nil {
		return nil, err
	}
	go func() { o.ended <- o.command.Wait() }()
	return o, nil
}

// Check returns an error when the operator has ended by itself.
func (o *Operator) Check() error {
	select {
	case err := <-o.ended:
		o.ended <- err
		return fmt.Errorf("the operator has ended: %w\n%s", err, o.Tail())
	default:
		return nil
	}
}

// PID is the id of the process.
func (o *Operator) PID() int { return o.command.Process.Pid }

// Kill ends the operator at once.
func (o *Operator) Kill() error {
	err := o.command.Process.Kill()
	<-o.ended //nolint:errcheck // it was killed
	return err
}

// Stop ends the operator in order.
func (o *Operator) Stop(ctx context.Context) error {
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the operator: %w\n%s", err, o.Tail())
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case err := <-o.ended:
		if err != nil {
			return fmt.Errorf("the operator has ended: %w\n%s", err, o.Tail())
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("the operator does not end:\n%s", o.Tail()), o.Kill())
	}
}

// Tail returns the end of the log.
func (o *Operator) Tail() string {
	text, err := os.ReadFile(o.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}
