package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// plane is etcd and an API server with the CRDs, without controllers and nodes of
// Kubernetes.
type plane struct {
	config     *rest.Config
	client     *kubernetes.Clientset
	kubeconfig string // file
	stop       func()
}

// start starts a plane, or connects to the one that the options name.
func (o options) start() (*plane, error) {
	if o.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if err != nil {
			return nil, err
		}
		return newPlane(config, o.kubeconfig, func() {})
	}
	dir, err := os.MkdirTemp(o.dir, "pawl-kubernetes-")
	if err != nil {
		return nil, err
	}
	own := false
	env := &envtest.Environment{UseExistingCluster: &own, CRDDirectoryPaths: []string{"../deploy/crds"}, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 2 * time.Minute}
	env.ControlPlane.KubectlPath = filepath.Join(o.bin, "kubectl")
	env.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(o.bin, "etcd"), DataDir: filepath.Join(dir, "etcd"), Out: io.Discard, Err: io.Discard}
	if o.what == "idle" || o.what == "cache" { // these are filled before the measurement
		env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	}
	server := env.ControlPlane.GetAPIServer()
	server.Path, server.Out, server.Err = filepath.Join(o.bin, "kube-apiserver"), io.Discard, io.Discard
	server.Configure().Set("advertise-address", "192.0.2.10").Set("endpoint-reconciler-type", "none")
	config, err := env.Start()
	stop := func() {
		_ = env.Stop()
		os.RemoveAll(dir)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("starting etcd and the API server of %s (make controlplane builds them): %w", o.bin, err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		stop()
		return nil, err
	}
	p, err := newPlane(config, file, stop)
	if err != nil {
		stop()
	}
	return p, err
}

func newPlane(config *rest.Config, file string, stop func()) (*plane, error) {
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return &plane{config: config, client: client, kubeconfig: file, stop: stop}, err
}

// namespace creates a namespace; remove deletes it if the plane outlives it.
func (p *plane) namespace(ctx context.Context) (name string, remove func(), err error) {
	name = "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, err = p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return name, func() {
		_ = p.client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
	}, err
}

// usage is the CPU time of this process and of its servers.
type usage struct{ own, server, etcd time.Duration }

func (a usage) since(b usage) usage {
	return usage{a.own - b.own, a.server - b.server, a.etcd - b.etcd}
}

func used() usage {
	return usage{own: cpuTime(), server: cpuOf("kube-apiserver"), etcd: cpuOf("etcd")}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf returns the CPU time of the child process of this name; 0: there is none.
func cpuOf(name string) time.Duration {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		end := bytes.LastIndexByte(text, ')')
		fields := strings.Fields(string(text[end+1:]))
		if end < 0 || len(fields) < 13 || !strings.Contains(string(text[:end]), "("+name) || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		const tick = time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
		return time.Duration(user+system) * tick
	}
	return 0
}

// calls counts the requests that the API server has answered, by verb and resource,
// without watches and without reads of the counters.
type calls map[string]float64

const counter = "apiserver_request_total{"

func (p *plane) calls(ctx context.Context) (calls, error) {
	text, err := p.client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	all := calls{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), counter)
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		verb, resource, sub := label(labels, "verb"), label(labels, "resource"), label(labels, "subresource")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || verb == "WATCH" || sub == "/metrics" {
			continue
		}
		if sub != "" {
			resource += "/" + sub
		}
		all[verb+" "+resource] += n
	}
	return all, lines.Err()
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// since returns the requests since an earlier count, and how many of them are for leases.
func (c calls) since(before calls) (came calls, leases, others float64) {
	came = calls{}
	for key, n := range c {
		if n -= before[key]; n > 0 {
			came[key] = n
			if strings.HasSuffix(key, " leases") {
				leases += n
			} else {
				others += n
			}
		}
	}
	return came, leases, others
}
