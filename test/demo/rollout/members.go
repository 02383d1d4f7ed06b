package rollout

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/etcdproc"
)

// Images maps the images of examples/rollout to the etcd of a folder of programs. etcd:broken is a
// version that ends at once; its program is written to another folder.
func Images(bin, dir string) (map[string]kubelet.Image, error) {
	broken := filepath.Join(dir, "broken")
	script := "#!/bin/sh\necho 'etcd: this build cannot read its data' >&2\nexit 1\n"
	if err := os.MkdirAll(broken, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(broken, "etcd"), []byte(script), 0o755); err != nil { //nolint:gosec // a program for other users
		return nil, err
	}
	return map[string]kubelet.Image{
		"etcd":        {Path: []string{bin}},
		"etcd:broken": {Path: []string{broken, bin}},
	}, nil
}

// Dial reaches members by their names in the cluster.
func Dial(k *kubelet.Kubelet) etcdproc.Dial {
	dialer := &net.Dialer{Timeout: 2 * time.Second, Resolver: k.Resolver()}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
}

// URLs are the members of a StatefulSet of examples/rollout, by their names.
func URLs(namespace, name string, members int) (all []string) {
	for i := range members {
		all = append(all, fmt.Sprintf("http://%s-%d.%s.%s.svc.cluster.local:2379", name, i, name, namespace))
	}
	return all
}
