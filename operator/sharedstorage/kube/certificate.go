package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

const (
	tlsPath       = "/etc/pawl/tls"
	tlsAnnotation = "pawl.dev/tls" // on a pod: the version of the certificate that it should use
)

// Certificates keeps certificates in the Secrets <cluster>.tls, which the instances mount, and <cluster>.ca. No user
// of a cluster has a Secret with a dot in its name.
type Certificates struct{ placement *Placement }

var _ sharedstorage.Certificates = Certificates{}

// Certificates returns the certificates of clusters.
func (s *Placement) Certificates() Certificates { return Certificates{s} }

func certificateName(c port.Ref, role sharedstorage.CertificateRole) string {
	return c.Name + "." + string(role)
}

// tlsVolume has what a process needs of the certificates of a cluster: its own, what it verifies others by, and the
// more files. The keys of others are not among them. It is optional, because the engine can do without at first.
func tlsVolume(c port.Ref, who port.Identity, more ...string) corev1.Volume {
	certificate, key := who.Files()
	var items []corev1.KeyToPath
	for _, file := range append([]string{certificate, key, port.AgentTrustFile, port.RequiredFromFile, port.NamedFromFile, port.ClientsFile}, more...) {
		items = append(items, corev1.KeyToPath{Key: file, Path: file})
	}
	return corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: certificateName(c, sharedstorage.ServerCertificate), DefaultMode: ptr(int32(0o440)), Optional: ptr(true), Items: items,
	}}}
}

func tlsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: "tls", MountPath: tlsPath, ReadOnly: true}
}

// trust is what was last read of the certificates of a cluster.
type trust struct {
	transport.Authorities
	version string
	read    time.Time
}

// trustFor is how long an answer is used while no watch tells of changes.
const trustFor = 5 * time.Second

// authoritiesOf returns by what the processes of a cluster are verified. The Secret is read again when it has
// changed, and while the API server is away what was last read is used.
func (s *Placement) authoritiesOf(ctx context.Context, c port.Ref) (transport.Authorities, error) {
	version := s.secretRevision(ctx, c, certificateName(c, sharedstorage.ServerCertificate))
	s.mu.Lock()
	had, known := s.trust[secretsKey(c)]
	s.mu.Unlock()
	if known && (version != "" && version == had.version || version == "" && time.Since(had.read) < trustFor) {
		return had.Authorities, nil
	}
	obj, err := Certificates{s}.read(ctx, c, sharedstorage.ServerCertificate)
	now := trust{version: versionOfSecret(obj), read: time.Now()}
	switch {
	case err == nil:
		now.Authorities = authorities(obj.Data, port.AgentTrustFile)
	case apierrors.IsNotFound(err), errors.Is(err, port.CertificateInvalid): // what is required once stays so
		now.version, now.Authorities = "", had.Authorities
		if had.Authorities != (transport.Authorities{}) {
			break
		}
		kept, err := Certificates{s}.read(ctx, c, sharedstorage.Authority)
		switch {
		case err == nil:
			now.Authorities = authorities(kept.Data, corev1.TLSCertKey)
		case !apierrors.IsNotFound(err): // what is required is not known, and a token must not go over a plain call
			return transport.Authorities{}, err
		}
	case known:
		return had.Authorities, nil
	default:
		return now.Authorities, err
	}
	s.mu.Lock()
	s.trust[secretsKey(c)] = now
	s.mu.Unlock()
	return now.Authorities, nil
}

// authorities returns by what processes are verified, as the files of a Secret say.
func authorities(files map[string][]byte, trust string) (a transport.Authorities) {
	a.PEM = string(files[trust])
	a.From, _ = time.Parse(time.RFC3339, string(files[port.RequiredFromFile]))   // none: not required
	a.NamedFrom, _ = time.Parse(time.RFC3339, string(files[port.NamedFromFile])) // none: not verified
	return a
}

// Names implements sharedstorage.Certificates: the names of the Services.
func (k Certificates) Names(_ context.Context, c port.Ref) ([]sharedstorage.ServedName, error) {
	service := func(part sharedstorage.ServedPart, name string) sharedstorage.ServedName {
		return sharedstorage.ServedName{Part: part, Names: []string{name, name + "." + c.Namespace, name + "." + c.Namespace + ".svc", name + "." + c.Namespace + ".svc.cluster.local"}}
	}
	return []sharedstorage.ServedName{
		service(sharedstorage.ServedWriter, c.Name+"-"+string(port.Writer)), service(sharedstorage.ServedReaders, c.Name+"-"+string(port.Reader)),
		service(sharedstorage.ServedPoolers, poolerService(c)),
	}, nil
}

// Given implements sharedstorage.Certificates.
func (k Certificates) Given(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) (map[string][]byte, error) {
	if s.Secret == "" {
		return nil, port.CertificateInvalid.Errorf("on Kubernetes a certificate is in a Secret: spec.tls.secret")
	}
	obj := &corev1.Secret{}
	err := k.placement.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: s.Secret}, obj)
	if apierrors.IsNotFound(err) {
		return nil, port.CertificateInvalid.Errorf("there is no Secret %s", s.Secret)
	}
	return obj.Data, controller.Fault(err)
}

// Revision implements sharedstorage.Certificates. The Secret of a spec is watched if it has the label of the cluster, as
// cert-manager's spec.secretTemplate gives it.
func (k Certificates) Revision(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) string {
	kept := k.placement.secretRevision(ctx, c, certificateName(c, sharedstorage.ServerCertificate))
	if s.Secret == "" {
		return kept
	}
	return kept + " " + k.placement.secretRevision(ctx, c, s.Secret)
}

// Load implements sharedstorage.Certificates.
func (k Certificates) Load(ctx context.Context, c port.Ref, role sharedstorage.CertificateRole) (map[string][]byte, error) {
	obj, err := k.read(ctx, c, role)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj.Data, controller.Fault(err)
}

func (k Certificates) read(ctx context.Context, c port.Ref, role sharedstorage.CertificateRole) (*corev1.Secret, error) {
	obj := &corev1.Secret{ObjectMeta: meta(c, certificateName(c, role), "")}
	err := k.placement.o.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if err != nil {
		return obj, err
	}
	if owner := metav1.GetControllerOf(obj); owner == nil || string(owner.UID) != c.UID {
		return obj, port.CertificateInvalid.Errorf("Secret %s is not of this cluster: delete it", obj.Name)
	}
	return obj, nil
}

// Store implements sharedstorage.Certificates. A kubelet updates the files of a pod at once when the pod changes, and
// otherwise within a minute or two.
func (k Certificates) Store(ctx context.Context, c port.Ref, role sharedstorage.CertificateRole, files map[string][]byte) error {
	obj, err := k.read(ctx, c, role)
	switch {
	case apierrors.IsNotFound(err):
		obj = &corev1.Secret{ObjectMeta: meta(c, certificateName(c, role), ""), Type: corev1.SecretTypeTLS, Data: files}
		made, err := k.placement.createObject(ctx, c, obj)
		if err == nil && !made {
			err = fmt.Errorf("Secret %s was just made by somebody else", obj.Name) //nolint:staticcheck // the kind is a name
		}
		if err != nil {
			return controller.Fault(err)
		}
	case err != nil:
		return controller.Fault(err)
	case maps.EqualFunc(obj.Data, files, bytes.Equal):
		return nil
	default:
		before := obj.DeepCopy()
		obj.Data = files
		if err := k.placement.o.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return controller.Fault(err)
		}
	}
	if role != sharedstorage.ServerCertificate {
		return nil
	}
	var pods corev1.PodList
	if err := k.placement.o.Client.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{ClusterLabel: c.Name}, client.HasLabels{ComponentLabel}); err != nil {
		return controller.Fault(err)
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, tlsAnnotation, versionOfSecret(obj))
		if err := client.IgnoreNotFound(k.placement.o.Client.Patch(ctx, pod, client.MergeFrom(before))); err != nil {
			return controller.Fault(err)
		}
	}
	return nil
}
