package rollouts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// operator is a process that serves Rollouts.
type operator struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// startPawl starts `pawl operator` for Rollouts, as a process of its own. It ends with the plane.
func (w *world) startPawl(ctx context.Context, kubeconfig string) (*operator, error) {
	if w.Pawl == "" {
		w.Pawl = filepath.Join(w.plane.Dir(), "pawl")
		if text, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", w.Pawl, "./cmd/pawl").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building pawl: %w\n%s", err, text)
		}
	}
	return w.startOperator("pawl", w.Pawl, "operator", "--kubeconfig", kubeconfig, "--operators", "rollout", "--listen", "127.0.0.1:0",
		"--lease", "60s", "--operator-namespace", "kube-system")
}

// startServing starts this program as the operator of Rollouts: hooks of loopback are allowed then.
func (w *world) startServing(_ context.Context, kubeconfig string) (*operator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return w.startOperator("serving", self, "--serve", kubeconfig, "--profile", w.Profile)
}

func (w *world) startOperator(name, program string, args ...string) (*operator, error) {
	o := &operator{log: filepath.Join(w.plane.Dir(), name+".log"), cmd: exec.Command(program, args...)}
	return o, w.run(o)
}

// run starts the process of an operator. It ends with the plane.
func (w *world) run(o *operator) error {
	log, err := os.Create(o.log)
	if err != nil {
		return err
	}
	defer log.Close()
	o.ended = make(chan struct{})
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = o.cmd.Wait() // its log says why
		close(o.ended)
	}()
	w.plane.OnStop(o.stop)
	return nil
}

// stop ends the operator, and returns when it has ended.
func (o *operator) stop() {
	select {
	case <-o.ended:
		return
	default:
	}
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.ended:
	case <-time.After(30 * time.Second):
		_ = o.cmd.Process.Kill()
		<-o.ended
	}
}

// failed adds what the operator has said to an error.
func (o *operator) failed(err error) error {
	if err == nil {
		return nil
	}
	text, failed := os.ReadFile(o.log)
	return errors.Join(fmt.Errorf("%w; the end of %s:\n%s", err, o.log, text[max(0, len(text)-3000):]), failed)
}

// cpu is the CPU time of the operator.
func (o *operator) cpu() time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", o.cmd.Process.Pid))
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(text)); len(fields) == 3 {
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// resident is the resident memory of the operator in bytes.
func (o *operator) resident() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", o.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize())
}

// Serve is an operator of Rollouts as `pawl operator` has it, that lets hooks reach loopback addresses.
func Serve(ctx context.Context, kubeconfig, profile string) error {
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := rollout.AddToScheme(scheme); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, err := controller.NewManager(config, controller.Options{Scheme: scheme, NoLeaderElection: true, Log: log})
	if err != nil {
		return err
	}
	reachable, err := egress.NewPolicy([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}
	served, err := rollout.New(rollout.Options{Manager: m, Egress: reachable, Log: log})
	if err == nil {
		err = served.Setup()
	}
	if err != nil {
		return err
	}
	return m.Start(ctx)
}
