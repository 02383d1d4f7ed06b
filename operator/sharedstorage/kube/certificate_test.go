package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Callers verify agents by what the Secret of the cluster has now. A Secret that somebody deletes takes back neither the
// authorities nor that TLS is required.
func TestTrustInAgents(t *testing.T) {
	g := newFixture(t, &v1alpha1.SharedStorageCluster{ObjectMeta: meta(blue, blue.Name, "")})
	owner := &v1alpha1.SharedStorageCluster{}
	g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: blue.Name}, owner))
	c := blue
	if c.UID = string(owner.UID); c.UID == "" {
		c.UID = "1"
		owner.UID = "1"
		g.must(g.o.Client.Update(t.Context(), owner))
	}
	from := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	trust := func() transport.Authorities {
		t.Helper()
		a, err := g.authoritiesOf(t.Context(), c)
		g.must(err)
		return a
	}
	if a := trust(); a != (transport.Authorities{}) {
		t.Errorf("before there is a Secret: %+v", a)
	}
	store := func(files map[string][]byte) {
		t.Helper()
		files["tls.crt"], files["tls.key"] = nil, nil
		g.must(g.Certificates().Store(t.Context(), c, sharedstorage.ServerCertificate, files))
		g.mu.Lock() // an answer that no watch can revoke is used for a while
		clear(g.trust)
		g.mu.Unlock()
	}
	store(map[string][]byte{port.AgentTrustFile: []byte("one")})
	if a := trust(); a != (transport.Authorities{PEM: "one"}) {
		t.Errorf("%+v", a)
	}
	g.must(g.Certificates().Store(t.Context(), c, sharedstorage.ServerCertificate, map[string][]byte{
		"tls.crt": nil, "tls.key": nil, port.AgentTrustFile: []byte("two"), port.RequiredFromFile: []byte(from.Format(time.RFC3339))}))
	want := transport.Authorities{PEM: "two", From: from}
	if a := trust(); a.PEM != want.PEM || !a.From.Equal(from) {
		t.Errorf("another Secret: %+v", a)
	}
	g.must(g.o.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: meta(c, certificateName(c, sharedstorage.ServerCertificate), "")}))
	if a := trust(); a.PEM != want.PEM || !a.From.Equal(from) {
		t.Errorf("after somebody deleted the Secret: %+v", a)
	}
}

// An operator that starts when somebody has deleted <cluster>.tls verifies by <cluster>.ca. It calls nobody while that
// cannot be read, and asks again.
func TestTrustByTheAuthority(t *testing.T) {
	g := newFixture(t)
	c, from := blue, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	yes := true
	secret := func(role sharedstorage.CertificateRole, data map[string][]byte) *corev1.Secret {
		obj := &corev1.Secret{ObjectMeta: meta(c, certificateName(c, role), ""), Data: data}
		obj.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pawl.dev/v1alpha1", Kind: "SharedStorageCluster", Name: c.Name, UID: types.UID(c.UID), Controller: &yes}}
		return obj
	}
	g.must(g.o.Client.Create(t.Context(), secret(sharedstorage.Authority, map[string][]byte{
		"tls.crt": []byte("one"), port.RequiredFromFile: []byte(from.Format(time.RFC3339)), port.NamedFromFile: []byte(from.Format(time.RFC3339)),
	})))
	away, reads := errors.New("etcdserver: request timed out"), 0
	g.o.Live = interceptor.NewClient(g.o.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, k client.WithWatch, at client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if at.Name == certificateName(c, sharedstorage.Authority) {
				if reads++; away != nil {
					return away
				}
			}
			return k.Get(ctx, at, obj, o...)
		},
	})
	for range 2 {
		if a, err := g.authoritiesOf(t.Context(), c); !errors.Is(err, away) || a != (transport.Authorities{}) {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if reads != 2 {
		t.Errorf("asked %d times", reads)
	}
	away = nil
	a, err := g.authoritiesOf(t.Context(), c)
	g.must(err)
	if a.PEM != "one" || !a.From.Equal(from) || !a.NamedFrom.Equal(from) {
		t.Errorf("%+v", a)
	}

	// Of a cluster that had neither Secret, the authority is asked as well once there may be one.
	g = newFixture(t)
	if a, err := g.authoritiesOf(t.Context(), c); err != nil || a != (transport.Authorities{}) {
		t.Fatalf("%+v, %v", a, err)
	}
	g.must(g.o.Client.Create(t.Context(), secret(sharedstorage.Authority, map[string][]byte{"tls.crt": []byte("one")})))
	g.mu.Lock() // an answer that no watch can revoke is used for a while
	had := g.trust[secretsKey(c)]
	had.read = time.Now().Add(-trustFor)
	g.trust[secretsKey(c)] = had
	g.mu.Unlock()
	if a, err := g.authoritiesOf(t.Context(), c); err != nil || a.PEM != "one" {
		t.Errorf("%+v, %v", a, err)
	}
}

// Agents, manager and poolers mount their own keys of the Secret, and know the folder.
func TestCertificatesAreMounted(t *testing.T) {
	g := newFixture(t)
	manager, err := (&Managers{g.Placement}).deployment(blue, port.ManagerSpec{}, "")
	g.must(err)
	pooled, err := (poolers{g.Placement}).deployment(blue, port.PoolerSpec{Instances: 1})
	g.must(err)
	pod, err := g.pod(blue, port.Instance{Name: "blue-1-a", Type: port.Writer}, "blue-1-a")
	g.must(err)
	for name, spec := range map[string]corev1.PodSpec{"manager": manager.Spec.Template.Spec, "pooler": pooled.Spec.Template.Spec, "instance": pod.Spec} {
		volume := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Name == "tls" && v.Secret.SecretName == "blue.tls" && *v.Secret.Optional
		})
		var keys []string
		for _, v := range spec.Volumes {
			if v.Name != "tls" {
				continue
			}
			for _, item := range v.Secret.Items {
				if strings.HasSuffix(item.Key, ".key") {
					keys = append(keys, item.Key)
				}
			}
		}
		if want := map[string][]string{"manager": {"identity.manager.key"}, "pooler": {"identity.pooler.key", "pooler.key"}, "instance": {"identity.instance.blue-1-a.key", "tls.key"}}[name]; !slices.Equal(keys, want) {
			t.Errorf("%s has the keys %q", name, keys)
		}
		container := spec.Containers[0]
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "tls" && m.MountPath == tlsPath })
		env := slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
			return slices.Contains([]string{ManagerVariable, InstanceVariable, "PAWL_POOLER_CONFIG"}, e.Name) && strings.Contains(e.Value, `"tlsDir":"`+tlsPath+`"`)
		})
		if !volume || !mounted || !env {
			t.Errorf("%s: volume %t, mounts %v, folder in its configuration %t", name, volume, container.VolumeMounts, env)
		}
	}
}
