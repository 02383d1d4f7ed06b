// Package k8sutil connects to the API server as a controller does: with the flag --kubeconfig,
// KUBECONFIG, the account of the pod, or ~/.kube/config.
package k8sutil

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// requestTime limits one request of the functions here, which take no context.
const requestTime = 10 * time.Second

// One client serves the whole operator, so client-go's default of five requests a second is too
// low. The API server has its own fairness.
const (
	qps   = 200
	burst = 400
)

var known struct {
	sync.Mutex
	set    *rest.Config // set by SetConfig
	client *kubernetes.Clientset
	config *rest.Config
}

// SetConfig sets the API server instead of the default search; nil: search again. It ends the
// observation of answers: see Observed.
func SetConfig(c *rest.Config) {
	known.Lock()
	defer known.Unlock()
	known.set, known.client, known.config = c, nil, nil
	observed.Lock()
	defer observed.Unlock()
	observed.on, observed.at = false, nil
}

// GetKubeClient returns the client, which is created once, and its configuration.
func GetKubeClient() (*kubernetes.Clientset, *rest.Config, error) {
	known.Lock()
	defer known.Unlock()
	if known.client != nil {
		return known.client, rest.CopyConfig(known.config), nil
	}
	found := known.set
	if found == nil {
		var err error
		if found, err = config.GetConfig(); err != nil {
			return nil, nil, fmt.Errorf("no API server is known: %w", err)
		}
	}
	found = rest.CopyConfig(found)
	if found.QPS == 0 {
		found.QPS, found.Burst = qps, burst
	}
	c, err := kubernetes.NewForConfig(found)
	if err != nil {
		return nil, nil, fmt.Errorf("the configuration of the API server: %w", err)
	}
	known.client, known.config = c, found
	return c, rest.CopyConfig(found), nil
}

// GetCorev1Client returns the client of pods, ConfigMaps and other core kinds.
func GetCorev1Client() (corev1client.CoreV1Interface, error) {
	c, _, err := GetKubeClient()
	if err != nil {
		return nil, err
	}
	return c.CoreV1(), nil
}

// ConfigMapFactoryByName reads a ConfigMap.
func ConfigMapFactoryByName(name, namespace string) (*corev1.ConfigMap, error) {
	return withClient(func(ctx context.Context, c corev1client.CoreV1Interface) (*corev1.ConfigMap, error) {
		return c.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// ConfigMapCreateFactory creates a ConfigMap.
func ConfigMapCreateFactory(configMap *corev1.ConfigMap) error {
	_, err := withClient(func(ctx context.Context, c corev1client.CoreV1Interface) (*corev1.ConfigMap, error) {
		return c.ConfigMaps(configMap.Namespace).Create(ctx, configMap, metav1.CreateOptions{})
	})
	return err
}

// ConfigMapUpdate updates a ConfigMap if it has the version that was read.
func ConfigMapUpdate(configMap *corev1.ConfigMap) error {
	_, err := withClient(func(ctx context.Context, c corev1client.CoreV1Interface) (*corev1.ConfigMap, error) {
		return c.ConfigMaps(configMap.Namespace).Update(ctx, configMap, metav1.UpdateOptions{})
	})
	return err
}

func withClient(do func(context.Context, corev1client.CoreV1Interface) (*corev1.ConfigMap, error)) (*corev1.ConfigMap, error) {
	c, err := GetCorev1Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return do(ctx, c)
}
