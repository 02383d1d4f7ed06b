package kube

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl/operator/foundationdb/port/porttest"
)

func TestPortSidecars(t *testing.T) {
	porttest.Sidecars(t, porttest.SidecarsHarness{Open: func(t testing.TB) porttest.SidecarsFixture {
		files := map[string]string{"fdb.cluster": "a:b@10.0.0.1:4500", "fdbmonitor.conf": "[general]"}
		fake := &sidecar{files: map[string]string{}, mapped: map[string]string{}, values: map[string]any{"FDB_INSTANCE_ID": "storage-1", "NONE": nil}}
		for file, content := range files {
			fake.files[file] = content
		}
		server := httptest.NewServer(fake)
		t.Cleanup(server.Close)
		s := NewSidecars(SidecarOptions{})
		s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "10.0.0.1:8080" {
				return nil, errors.New("no route to host")
			}
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
		return porttest.SidecarsFixture{
			Sidecars: s, Pod: podWith("10.0.0.1"), Silent: podWith("10.0.0.2"), Variables: map[string]string{"FDB_INSTANCE_ID": "storage-1"}, Files: files,
			Change: func(_ testing.TB, file, content string) { fake.mapped[file] = content },
		}
	}})
}
