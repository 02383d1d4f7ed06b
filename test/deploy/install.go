// Package deploy tests the content of deploy/ on a real control plane: the manifest
// install.yaml, the operator with the account of that manifest, and the chart with
// other values.
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
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// The names in install.yaml.
const (
	Namespace = "pawl-system"
	Name      = "pawl"
	Account   = "system:serviceaccount:" + Namespace + ":" + Name
)

// Manifest returns the objects of deploy/install.yaml.
func Manifest() ([]*unstructured.Unstructured, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(root, "deploy", "install.yaml"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return decode(file)
}

// Chart returns the objects of deploy/chart as another release, as tools/chart prints it.
func Chart(ctx context.Context, name, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "tools"), "run", "./chart", "-print", "-name", name, "-namespace", namespace, "-values", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd.Args, err, said.Bytes())
	}
	return decode(&out)
}

func decode(text io.Reader) (all []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
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

// Install applies install.yaml with kubectl. edit may change an object before, or skip it
// by returning false; nil: no change.
func Install(ctx context.Context, plane *controlplane.Plane, edit func(*unstructured.Unstructured) bool) error {
	all, err := Manifest()
	if err != nil {
		return err
	}
	if edit != nil {
		all = slices.DeleteFunc(all, func(u *unstructured.Unstructured) bool { return !edit(u) })
	}
	_, err = Kubectl(ctx, plane, all, "apply", "--server-side", "--force-conflicts")
	return err
}

// Kubectl runs kubectl with a file of the objects, and returns its output.
func Kubectl(ctx context.Context, plane *controlplane.Plane, objects []*unstructured.Unstructured, args ...string) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, u := range objects {
		if err := encoder.Encode(u.Object); err != nil {
			return "", err
		}
	}
	args = slices.Concat([]string{"--kubeconfig", plane.Kubeconfig()}, args, []string{"-f", "-"})
	cmd := exec.CommandContext(ctx, plane.Binaries.Kubectl, args...)
	cmd.Stdin = &text
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args[2:], " "), err, out)
	}
	return string(out), nil
}

// Rights creates the account of the operator with its roles, and no operator.
func Rights(ctx context.Context, plane *controlplane.Plane) error {
	return Install(ctx, plane, func(u *unstructured.Unstructured) bool {
		switch u.GetKind() {
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding":
			return true
		}
		return false
	})
}

// Operators creates the operator account of a suite on first use.
type Operators struct {
	once sync.Once
	path string
	err  error
}

// Kubeconfig creates the account with its roles, and no operator. It returns the path of a
// kubeconfig file with a token of the account.
func (o *Operators) Kubeconfig(ctx context.Context, plane *controlplane.Plane) (string, error) {
	o.once.Do(func() {
		if o.err = Rights(ctx, plane); o.err == nil {
			o.path, o.err = Kubeconfig(ctx, plane)
		}
	})
	return o.path, o.err
}

// Forbidden returns the lines of an operator's log about refused requests.
func Forbidden(log []byte) []byte {
	var lines [][]byte
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("is forbidden")) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines, nil)
}

// Kubeconfig returns the path of a kubeconfig file with a token of the operator's account.
// It has the rights of the operator in install.yaml.
func Kubeconfig(ctx context.Context, plane *controlplane.Plane) (string, error) {
	return KubeconfigOf(ctx, plane, Namespace, Name)
}

// KubeconfigOf returns a kubeconfig file of any ServiceAccount.
func KubeconfigOf(ctx context.Context, plane *controlplane.Plane, namespace, name string) (string, error) {
	hours := int64(6 * 3600)
	token, err := plane.Client().CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	admin := plane.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	path := filepath.Join(plane.Dir(), namespace+"-"+name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
