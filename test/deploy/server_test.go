package deploy_test

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Every metric of the dashboard and of the alerts of pawl server exists in a server, or in
// the code: counters without a value are not exported.
func TestServerMetrics(t *testing.T) {
	wanted := expressions(t, "release")
	if len(wanted) < 20 {
		t.Fatalf("%d expressions", len(wanted))
	}
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "pawl"), "server", "--dsn", filepath.Join(t.TempDir(), "pawl.db"), "--listen", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	_, after, ok := strings.Cut(line, " listens on ")
	if !ok {
		t.Fatalf("%q, %v", line, err)
	}
	url, _, _ := strings.Cut(after, " ")
	given, err := scrape(t.Context(), url+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	given["up"] = true // Prometheus makes it.
	declared := metricsSource(t, "telemetry/metrics.go", "cmd/pawl/internal/serve/queues.go", "cmd/pawl/internal/serve/notifications.go")
	for _, expr := range wanted {
		names := metricsIn(expr)
		for _, name := range names {
			if !given[name] && !strings.Contains(declared, `"`+strings.TrimSuffix(name, "_bucket")+`"`) {
				t.Errorf("%s: the server gives no %s", expr, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s names no metric", expr)
		}
	}
}
