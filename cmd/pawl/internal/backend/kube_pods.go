package backend

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/kube/controller"
)

// Pods reads the pods of a cluster, and runs programs in them. Only a Kubernetes cluster has them.
type Pods interface {
	// Exec runs a program in a container, as Databases.
	Exec(ctx context.Context, e Exec) (code int, err error)
	// Pods returns the pods with these labels.
	Pods(ctx context.Context, namespace, labels string) ([]corev1.Pod, error)
	// PodLog returns the log of a container; the caller closes it.
	PodLog(ctx context.Context, l PodLog) (io.ReadCloser, error)
	// Events returns the Events of a namespace.
	Events(ctx context.Context, namespace string) ([]corev1.Event, error)
	// Secrets returns the Secrets with these labels.
	Secrets(ctx context.Context, namespace, labels string) ([]corev1.Secret, error)
	// PodGet asks a pod over HTTP, through the API server.
	PodGet(ctx context.Context, namespace, pod, port, path string) ([]byte, error)
}

// PodLog names the log of a container.
type PodLog struct {
	Namespace, Pod, Container string
	Follow                    bool // until ctx ends
}

var _ Pods = (*Kube)(nil)

// core returns a client of the core API.
func (k *Kube) core() (*rest.RESTClient, error) {
	config := rest.CopyConfig(k.config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	return c, controller.Fault(err)
}

// Pods implements Pods.
func (k *Kube) Pods(ctx context.Context, namespace, labels string) ([]corev1.Pod, error) {
	c, err := k.core()
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = c.Get().Namespace(namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: labels}, scheme.ParameterCodec).Do(ctx).Into(&list)
	return list.Items, controller.Fault(err)
}

// PodLog implements Pods.
func (k *Kube) PodLog(ctx context.Context, l PodLog) (io.ReadCloser, error) {
	c, err := k.core()
	if err != nil {
		return nil, err
	}
	o := &corev1.PodLogOptions{Container: l.Container, Follow: l.Follow}
	out, err := c.Get().Namespace(l.Namespace).Resource("pods").Name(l.Pod).SubResource("log").VersionedParams(o, scheme.ParameterCodec).Stream(ctx)
	return out, controller.Fault(err)
}

// Events implements Pods.
func (k *Kube) Events(ctx context.Context, namespace string) ([]corev1.Event, error) {
	c, err := k.core()
	if err != nil {
		return nil, err
	}
	var list corev1.EventList
	err = c.Get().Namespace(namespace).Resource("events").Do(ctx).Into(&list)
	return list.Items, controller.Fault(err)
}

// Secrets implements Pods.
func (k *Kube) Secrets(ctx context.Context, namespace, labels string) ([]corev1.Secret, error) {
	c, err := k.core()
	if err != nil {
		return nil, err
	}
	var list corev1.SecretList
	err = c.Get().Namespace(namespace).Resource("secrets").VersionedParams(&metav1.ListOptions{LabelSelector: labels}, scheme.ParameterCodec).Do(ctx).Into(&list)
	return list.Items, controller.Fault(err)
}

// PodGet implements Pods.
func (k *Kube) PodGet(ctx context.Context, namespace, pod, port, path string) ([]byte, error) {
	c, err := k.core()
	if err != nil {
		return nil, err
	}
	text, err := c.Get().Namespace(namespace).Resource("pods").Name(pod + ":" + port).SubResource("proxy").Suffix(path).DoRaw(ctx)
	return text, controller.Fault(err)
}
