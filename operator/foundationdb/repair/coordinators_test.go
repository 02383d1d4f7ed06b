package repair

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// members are groups log-1, log-2, … in zones of their own, each of which had the address 10.0.0.n and has now.
func members(now ...string) (*v1beta2.FoundationDBCluster, map[v1beta2.ProcessGroupID]*corev1.Pod) {
	c := &v1beta2.FoundationDBCluster{}
	pods := map[v1beta2.ProcessGroupID]*corev1.Pod{}
	var coordinators []string
	for i, ip := range now {
		id := v1beta2.ProcessGroupID(fmt.Sprintf("log-%d", i+1))
		old := fmt.Sprintf("10.0.0.%d", i+1)
		coordinators = append(coordinators, old+":4501")
		c.Status.ProcessGroups = append(c.Status.ProcessGroups, v1beta2.ProcessGroupStatus{
			ProcessGroupID: id, ProcessClass: "log", Addresses: []string{old, ip}, FaultDomain: fmt.Sprintf("node-%d", i+1),
		})
		pod := &corev1.Pod{}
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: foundationdb.MainContainer, Ready: true}},
		}
		pods[id] = pod
	}
	c.Status.ConnectionString = "a:b@" + strings.Join(coordinators, ",")
	return c, pods
}

// Each coordinator is found by the group that has had its address, or none is.
func TestMovedCoordinators(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(c *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod)
		to       string // "": CoordinatorLost
		majority bool
	}{
		"two of three": {func(*v1beta2.FoundationDBCluster, map[v1beta2.ProcessGroupID]*corev1.Pod) {}, "a:b@10.0.1.1:4501,10.0.1.2:4501,10.0.0.3:4501", true},
		"one of three": {func(_ *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) {
			pods["log-2"].Status.PodIPs[0].IP, pods["log-2"].Status.PodIP = "10.0.0.2", "10.0.0.2"
		}, "a:b@10.0.1.1:4501,10.0.0.2:4501,10.0.0.3:4501", false},
		"with TLS": {func(c *v1beta2.FoundationDBCluster, _ map[v1beta2.ProcessGroupID]*corev1.Pod) {
			c.Status.ConnectionString = "a:b@10.0.0.1:4500:tls"
		}, "a:b@10.0.1.1:4500:tls", true},
		"a name": {func(c *v1beta2.FoundationDBCluster, _ map[v1beta2.ProcessGroupID]*corev1.Pod) {
			c.Status.ConnectionString = "a:b@a.svc:4501"
		}, "", false},
		"nobody's": {func(c *v1beta2.FoundationDBCluster, _ map[v1beta2.ProcessGroupID]*corev1.Pod) {
			c.Status.ConnectionString = "a:b@10.9.9.9:4501"
		}, "", false},
		"an address of two": {func(c *v1beta2.FoundationDBCluster, _ map[v1beta2.ProcessGroupID]*corev1.Pod) {
			c.Status.ProcessGroups[2].Addresses = append(c.Status.ProcessGroups[2].Addresses, "10.0.0.1")
		}, "", false},
		"no pod": {func(_ *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) {
			delete(pods, "log-3")
		}, "", false},
		"a pod that ends": {func(_ *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) {
			pods["log-3"].Status.ContainerStatuses[0].Ready = false
		}, "", false},
		"another family": {func(_ *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) {
			pods["log-1"].Status.PodIPs[0].IP, pods["log-1"].Status.PodIP = "2001:db8::1", "2001:db8::1"
		}, "", false},
		"two at one address": {func(_ *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) {
			pods["log-2"].Status.PodIPs[0].IP, pods["log-2"].Status.PodIP = "10.0.1.1", "10.0.1.1"
		}, "", false},
	} {
		c, pods := members("10.0.1.1", "10.0.1.2", "10.0.0.3")
		test.change(c, pods)
		m, err := MovedCoordinators(c, func(id v1beta2.ProcessGroupID) *corev1.Pod { return pods[id] })
		switch {
		case test.to == "" && fault.Of(err) != CoordinatorLost, test.to != "" && err != nil:
			t.Errorf("%s: %v, %v", name, m, err)
		case test.to != "" && (m.To.String() != test.to || m.Majority() != test.majority):
			t.Errorf("%s: %s, a majority: %t", name, m.To, m.Majority())
		}
	}
}

// A database goes on with the coordinators that are left, and new ones in zones of their own.
func TestRecoverRegion(t *testing.T) {
	regions := []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}, {Datacenters: []v1beta2.Datacenter{{ID: "dc2"}, {ID: "sat", Satellite: 1}}}}
	for name, test := range map[string]struct {
		change func(c *v1beta2.FoundationDBCluster)
		to     string
		want   *fault.Kind
		begun  bool
	}{
		"two of five": {func(*v1beta2.FoundationDBCluster) {}, "a:b@10.0.0.1:4501,10.0.0.2:4501,10.0.0.3:4501", nil, false},
		"with TLS": {func(c *v1beta2.FoundationDBCluster) {
			c.Status.ConnectionString = "a:b@10.0.0.1:4500:tls,10.0.0.2:4500:tls,10.9.0.1:4500:tls"
		}, "a:b@10.0.0.1:4500:tls,10.0.0.2:4500:tls,10.0.0.3:4500:tls", nil, false},
		"with names": {func(c *v1beta2.FoundationDBCluster) {
			c.Name, c.Namespace = "c", "n"
			c.Status.ConnectionString = "a:b@c-log-2.c.n.svc.cluster.local:4501,other.svc:4501"
		}, "a:b@c-log-2.c.n.svc.cluster.local:4501,c-log-1.c.n.svc.cluster.local:4501,c-log-3.c.n.svc.cluster.local:4501", nil, false},
		"none is left": {func(c *v1beta2.FoundationDBCluster) { c.Status.ConnectionString = "a:b@10.9.0.1:4501" }, "", RecoveryImpossible, false},
		"a satellite":  {func(c *v1beta2.FoundationDBCluster) { c.Spec.DataCenter = "sat" }, "", RecoveryImpossible, false},
		"one region": {func(c *v1beta2.FoundationDBCluster) {
			c.Spec.DatabaseConfiguration.Regions = regions[1:]
		}, "", RecoveryImpossible, false},
		"begun": {func(c *v1beta2.FoundationDBCluster) {
			c.Spec.Skip, c.Spec.DatabaseConfiguration.Regions = true, []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc2"}}}}
		}, "a:b@10.0.0.1:4501,10.0.0.2:4501,10.0.0.3:4501", nil, true},
		"a zone is taken": {func(c *v1beta2.FoundationDBCluster) { c.Status.ProcessGroups[2].FaultDomain = "node-1" }, "", fdb.TooFewCandidates, false},
		"a group goes": {func(c *v1beta2.FoundationDBCluster) {
			c.Status.ProcessGroups[2].ProcessClass = "stateless"
		}, "", fdb.TooFewCandidates, false},
		"no string": {func(c *v1beta2.FoundationDBCluster) { c.Status.ConnectionString = "" }, "", fdb.ConnectionInvalid, false},
	} {
		c, pods := members("10.0.0.1", "10.0.0.2", "10.0.0.3")
		c.Spec.DataCenter = "dc2"
		c.Spec.DatabaseConfiguration.Regions = slices.Clone(regions)
		c.Spec.DatabaseConfiguration.RedundancyMode = "double"
		c.Status.ConnectionString = "a:b@10.0.0.1:4501,10.0.0.2:4501,10.9.0.1:4501,10.9.0.2:4501,10.9.0.3:4501"
		test.change(c)
		r, err := RecoverRegion(c, func(id v1beta2.ProcessGroupID) *corev1.Pod { return pods[id] })
		switch {
		case test.want != nil && fault.Of(err) != test.want, test.want == nil && err != nil:
			t.Errorf("%s: %v, %v", name, r, err)
		case test.want == nil && (r.To.String() != test.to || r.Begun != test.begun):
			t.Errorf("%s: %s, begun: %t", name, r.To, r.Begun)
		}
	}
}
