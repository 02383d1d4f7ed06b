package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// One plane for all tests: status-only nodes, and nodes that run processes.
var suite = controlplane.NewSuite(controlplane.Options{
	CRDs:       []string{"testdata/crd.yaml"},
	NodeGrace:  4 * time.Second,
	EvictAfter: 2 * time.Second,
	Endpoints:  true,
	Kubelet:    kubelet.Options{Name: "paper", Lease: time.Second},
})

func TestMain(m *testing.M) {
	if os.Getenv("TEST_SERVER") != "" {
		serve()
		return
	}
	if os.Getenv("TEST_OWNER") != "" {
		runOwner()
	}
	suite.Main(m)
}

// serve is the program of the image server:test: an HTTP server at POD_IP that describes
// itself and executes commands.
func serve() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var sick atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			http.Error(w, "sick", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /sick", func(_ http.ResponseWriter, r *http.Request) { sick.Store(r.FormValue("is") == "true") })
	mux.HandleFunc("GET /self", func(w http.ResponseWriter, _ *http.Request) {
		cwd, _ := os.Getwd()
		_ = json.NewEncoder(w).Encode(self{PID: os.Getpid(), UID: os.Getuid(), Args: os.Args[1:], Env: os.Environ(), Dir: cwd})
	})
	mux.HandleFunc("GET /whoami", func(w http.ResponseWriter, r *http.Request) {
		config, err := rest.InClusterConfig()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(r.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		fmt.Fprintf(w, "%s in %s", review.Status.UserInfo.Username, namespace)
		if err != nil {
			fmt.Fprint(w, err)
		}
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("path")) })
	mux.HandleFunc("POST /file", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.FormValue("path"), []byte(r.FormValue("text")), 0o644); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	server := &http.Server{Addr: os.Getenv("POD_IP") + ":7000", Handler: mux}
	go func() { fmt.Println("ends:", server.ListenAndServe()) }()
	<-ctx.Done()
	if os.Getenv("STUBBORN") != "" {
		fmt.Println("SIGTERM does not impress me")
		time.Sleep(time.Hour)
	}
	fmt.Println("SIGTERM: goodbye")
}

type self struct {
	PID, UID int
	Args     []string
	Env      []string
	Dir      string
}

// eventually polls until look returns no error.
func eventually(t *testing.T, what string, look func(ctx context.Context) error) {
	t.Helper()
	await.Until(t, 2*time.Minute, what, look) // a busy machine
}

// ready returns the Ready pods of a label, if there are exactly want.
func ready(ctx context.Context, p *controlplane.Plane, namespace, app string, want int) ([]corev1.Pod, error) {
	list, err := p.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var found []corev1.Pod
	var seen []string
	for _, pod := range list.Items {
		seen = append(seen, describe(pod))
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				found = append(found, pod)
			}
		}
	}
	if len(found) != want {
		return nil, fmt.Errorf("%d of %d pods are Ready: %v", len(found), want, seen)
	}
	return found, nil
}

func describe(pod corev1.Pod) string {
	s := fmt.Sprintf("%s on %q is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			s += fmt.Sprintf("; %s: %s", c.Type, c.Reason+" "+c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			s += fmt.Sprintf("; %s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		}
	}
	return s
}

func ptr[T any](v T) *T { return &v }

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
