package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestBuiltPods: the pods that the operator builds run as it expects, whatever the cluster asks for.
func TestBuiltPods(t *testing.T) {
	for name, edit := range map[string]func(*v1beta2.FoundationDBClusterSpec){
		"plain":           func(*v1beta2.FoundationDBClusterSpec) {},
		"several servers": func(s *v1beta2.FoundationDBClusterSpec) { s.StorageServersPerPod, s.LogServersPerPod = 2, 2 },
		"TLS":             func(s *v1beta2.FoundationDBClusterSpec) { s.MainContainer.EnableTLS = true },
		"IPv6":            func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.PodIPFamily = new(6) },
		"IPv4":            func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.PodIPFamily = new(4) },
		"services":        func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.PublicIPSource = v1beta2.PublicIPService },
		"without names":   func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.UseDNSInClusterFile = new(false) },
		"no fault domain": func(s *v1beta2.FoundationDBClusterSpec) { s.FaultDomain.Key = "foundationdb.org/none" },
		"Kubernetes cluster": func(s *v1beta2.FoundationDBClusterSpec) {
			s.FaultDomain = v1beta2.FaultDomainSpec{Key: "foundationdb.org/kubernetes-cluster", Value: "kc1"}
		},
		"prefix and places": func(s *v1beta2.FoundationDBClusterSpec) {
			s.ProcessGroupIDPrefix, s.DataCenter, s.DataHall = "east", "dc1", "hall1"
			s.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {CustomParameters: []v1beta2.CustomParameter{"knob_x=1", "locality_rack=$FDB_ZONE_ID"}}}
		},
	} {
		for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
			t.Run(name+" "+string(image), func(t *testing.T) {
				f := &fixture{World: sim.New(sim.Options{Seed: 1, Families: []int{4, 6}}), t: t, image: image, version: "7.3.69"}
				f.cluster = &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample"}}
				f.cluster.Spec = v1beta2.FoundationDBClusterSpec{Version: f.version, ImageType: image}
				edit(&f.cluster.Spec)
				f.cluster.Spec = foundationdb.Effective(f.cluster.Spec)
				f.must(f.Objects().Create(t.Context(), f.cluster))
				f.cluster.Status.HasListenIPsForAllPods = true
				f.cluster.Status.ImageTypes = []v1beta2.ImageType{image}
				save := func() *corev1.ConfigMap {
					m, err := foundationdb.ConfigMap(f.cluster)
					f.must(err)
					if old := lookup(f, &corev1.ConfigMap{}, m.Name); old != nil {
						f.patch(old, map[string]any{"data": m.Data})
					} else {
						f.must(f.Objects().Create(t.Context(), m))
					}
					return m
				}
				m := save()
				var pods []*corev1.Pod
				for class, count := range map[fdb.Class]int{fdb.ClassStorage: 3, fdb.ClassLog: 3, fdb.ClassStateless: 3} {
					for n := 1; n <= count; n++ {
						id := fdb.GroupID{Prefix: f.cluster.Spec.ProcessGroupIDPrefix, Class: class, Number: n}
						facts := foundationdb.PodFacts{ConfigMap: m}
						if f.cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService {
							s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: foundationdb.PodName(f.cluster, id)}}
							f.must(f.Objects().Create(t.Context(), s))
							facts.ServiceIP = s.Spec.ClusterIP
						}
						claim, err := foundationdb.Claim(f.cluster, id)
						f.must(err)
						if claim != nil {
							f.must(f.Objects().Create(t.Context(), claim))
						}
						p, err := foundationdb.Pod(f.cluster, id, facts)
						f.must(err)
						f.must(f.Objects().Create(t.Context(), p))
						pods = append(pods, p)
					}
				}
				f.Advance(20 * time.Second)
				c := fdb.Connection{Description: "sample", ID: "first"}
				for _, p := range pods {
					p = f.get(p.Name)
					if !ready(p) {
						t.Fatalf("%s: %+v", p.Name, p.Status)
					}
					if strings.Contains(p.Name, "-log-") {
						ips := foundationdb.PublicIPs(p)
						a := fdb.AddressesOf(ips[0], fdb.Required{TLS: f.cluster.Spec.MainContainer.EnableTLS, NonTLS: !f.cluster.Spec.MainContainer.EnableTLS}, 1)
						c.Coordinators = append(c.Coordinators, a[0])
					}
				}
				f.cluster.Status.ConnectionString = c.String()
				save()
				f.wake()
				f.Advance(10 * time.Second)
				redundancy := fdb.Double
				if f.cluster.Spec.FaultDomain.Key == "foundationdb.org/kubernetes-cluster" {
					redundancy = fdb.Single // all are in one zone
				}
				f.run(fdb.Configure(fdb.Configuration{RedundancyMode: redundancy, StorageEngine: "ssd-2"}, true))
				f.Advance(30 * time.Second)
				f.healthy()
				s := f.status()
				seen := map[string]int{}
				for _, p := range s.Cluster.Processes {
					id, err := fdb.ParseGroupID(p.Locality["instance_id"])
					f.must(err)
					pod := f.get(foundationdb.PodName(f.cluster, id))
					servers := foundationdb.ServersPerPod(f.cluster.Spec, p.Class)
					want, err := foundationdb.StartCommands(f.cluster, p.Class, image, servers, f.variables(pod))
					f.must(err)
					found := false
					for _, w := range want {
						found = found || w == p.CommandLine
					}
					if !found {
						t.Errorf("%s (-operator +server):\n%s", pod.Name, cmp.Diff(strings.Join(want, "\n"), p.CommandLine))
					}
					seen[pod.Name]++
				}
				for _, p := range pods {
					if seen[p.Name] == 0 {
						t.Errorf("%s does not report", p.Name)
					}
				}
				for _, v := range f.Cluster().Violations() {
					t.Error(v)
				}
			})
		}
	}
}
