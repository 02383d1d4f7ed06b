// Package deploy runs what deploy/ holds on a real control plane: the manifest
// install.yaml, as a person applies it, and the operator as the account it makes.
package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// What install.yaml makes.
const (
	Namespace = "pawl-system"
	Name      = "pawl"
	Account   = "system:serviceaccount:" + Namespace + ":" + Name
)

// Manifest gives the objects of deploy/install.yaml.
func Manifest() (all []*unstructured.Unstructured, err error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(root, "deploy", "install.yaml"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(u.Object) > 0 {
			all = append(all, u)
		}
	}
}

// Install applies install.yaml, by kubectl. edit changes an object before, or
// leaves it out by answering false; nil: nothing is changed.
func Install(ctx context.Context, plane *controlplane.Plane, edit func(*unstructured.Unstructured) bool) error {
	all, err := Manifest()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, u := range all {
		if edit != nil && !edit(u) {
			continue
		}
		if err := encoder.Encode(u.Object); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, plane.Binaries.Kubectl, "--kubeconfig", plane.Kubeconfig(), "apply", "--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = &text
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply -f deploy/install.yaml: %w\n%s", err, out)
	}
	return nil
}

// Rights makes the account of the operator with its roles, and no operator.
func Rights(ctx context.Context, plane *controlplane.Plane) error {
	return Install(ctx, plane, func(u *unstructured.Unstructured) bool {
		switch u.GetKind() {
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding":
			return true
		}
		return false
	})
}

// Kubeconfig gives the path of a kubeconfig file with a token of the operator's
// account: whoever has it may do what install.yaml lets the operator do.
func Kubeconfig(ctx context.Context, plane *controlplane.Plane) (string, error) {
	hours := int64(6 * 3600)
	token, err := plane.Client().CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	admin := plane.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters[Name] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[Name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[Name] = &clientcmdapi.Context{Cluster: Name, AuthInfo: Name}
	config.CurrentContext = Name
	path := filepath.Join(plane.Dir(), "operator.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
