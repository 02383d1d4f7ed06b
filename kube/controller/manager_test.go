package controller

import (
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/control"
)

// The defaults of a manager: leader election, drain and caches.
func TestOptionsOfAManager(t *testing.T) {
	o := Options{Log: quiet, Drain: control.DefaultDrain}
	in := o.managerOptions()
	if !in.LeaderElection || in.LeaderElectionID != LeaseName || in.LeaderElectionNamespace == "" || !in.LeaderElectionReleaseOnCancel || in.LeaseDuration != nil {
		t.Errorf("the election: %+v", in)
	}
	if *in.GracefulShutdownTimeout <= control.DefaultDrain {
		t.Errorf("the manager waits for %s, less than its passes may take", *in.GracefulShutdownTimeout)
	}
	if in.Client.FieldOwner != FieldOwner || in.Cache.SyncPeriod != nil || in.Cache.DefaultNamespaces != nil || in.Metrics.BindAddress != "0" {
		t.Errorf("the rest: %+v", in)
	}
	o = Options{Log: quiet, NoLeaderElection: true, Namespaces: []string{"a", "b"}, Resync: time.Hour, FieldOwner: "me", Lease: "l", LeaseNamespace: "n",
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second}
	in = o.managerOptions()
	if in.LeaderElection || len(in.Cache.DefaultNamespaces) != 2 || *in.Cache.SyncPeriod != time.Hour || in.Client.FieldOwner != "me" || in.LeaderElectionID != "l" ||
		in.LeaderElectionNamespace != "n" || *in.LeaseDuration != 3*time.Second || *in.RenewDeadline != 2*time.Second || *in.RetryPeriod != time.Second {
		t.Errorf("what was asked for: %+v", in)
	}
}

func TestManagerErrors(t *testing.T) {
	nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := NewManager(nowhere, Options{}); err == nil {
		t.Error("a manager without a scheme")
	}
	if _, err := NewManager(nil, Options{Scheme: runtime.NewScheme()}); err == nil {
		t.Error("a manager without a configuration")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if _, err := NewManager(nowhere, Options{Scheme: scheme, Log: quiet, NoLeaderElection: true, Listen: taken.Addr().String()}); err == nil {
		t.Error("a port in use is known at once")
	}
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	m, err := NewManager(config, Options{Scheme: scheme, Log: quiet, NoLeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS != 0 || m.GetConfig().QPS != qps || m.Addr() != "" {
		t.Errorf("the configuration: %v, ours %v, served at %q", config.QPS, m.GetConfig().QPS, m.Addr())
	}
	if err := Setup(m, Controller[*demo]{}); err == nil {
		t.Error("a controller of nothing")
	}
	if err := Setup(m, Controller[*demo]{For: &demo{}, Reconcile: nil}); err == nil {
		t.Error("a controller that does nothing")
	}
}
