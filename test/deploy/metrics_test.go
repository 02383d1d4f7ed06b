package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// The parts of an expression that are not metrics: functions, keywords, and the labels of
// matchers and aggregations.
var (
	quoted      = regexp.MustCompile(`"[^"]*"`)
	matcher     = regexp.MustCompile(`\{[^}]*\}|\b(?:by|on|without)\s*\([^)]*\)|\[[^\]]*\]`)
	word        = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	promQLWords = []string{"absent", "and", "by", "changes", "count", "histogram_quantile", "increase", "label_values", "max", "min", "on", "or", "rate", "sum", "vector", "namespace", "job", "bool"}
)

// metricsIn returns the metrics of an expression.
func metricsIn(expr string) (names []string) {
	for _, name := range word.FindAllString(matcher.ReplaceAllString(quoted.ReplaceAllString(expr, ""), " "), -1) {
		if !slices.Contains(promQLWords, name) {
			names = append(names, name)
		}
	}
	return names
}

// expressions returns the expressions of the dashboard and of the alerts in a folder of
// deploy. The annotations of each alert say what to do.
func expressions(t *testing.T, folder string) (all []string) {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, "deploy", folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var board struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal(read("dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, variable := range board.Templating.List {
		if strings.Contains(variable.Query, "(") {
			all = append(all, variable.Query)
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      struct{ Severity string }
				Annotations struct{ Summary, Description string }
			}
		}
	}
	if err := yaml.Unmarshal(read("alerts.yaml"), &alerts); err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			all = append(all, rule.Expr)
			if rule.Alert == "" || rule.Labels.Severity == "" || rule.Annotations.Summary == "" || len(rule.Annotations.Description) < 40 {
				t.Errorf("alert %+v does not say what to do", rule)
			}
		}
	}
	return all
}

// metricsIn finds the names of metrics, and nothing else.
func TestMetricsIn(t *testing.T) {
	for expr, want := range map[string]string{
		`sum by (flow, code) (rate(a_total{namespace=~"$namespace", x="b_total"}[5m]))`: "a_total",
		`histogram_quantile(0.9, sum by (le) (rate(t_bucket[1h]))) > 0.02`:              "t_bucket",
		`absent(a{name="x"} == 1) or b and on (pod) c`:                                  "a b c",
		`label_values(leader{name="x"}, namespace)`:                                     "leader",
	} {
		if got := strings.Join(metricsIn(expr), " "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// Every metric of the dashboard and of the alerts exists in a running operator, or in the
// code: counters without a value are not exported.
func TestMetrics(t *testing.T) {
	wanted := expressions(t, "chart/files")
	if len(wanted) < 20 {
		t.Fatalf("%d expressions", len(wanted))
	}
	h := installManifest(t)
	declared := metricsSource(t, "kube/controller/metrics.go", "telemetry/metrics.go", "operator/rollout/metrics.go", "operator/foundationdb/kube/metrics.go", "operator/foundationdb/kube/metrics_clusters.go", "operator/sharedstorage/postgres/metrics/builtin.go", "operator/sharedstorage/postgres/metrics/collector.go")
	for _, expr := range wanted {
		if len(metricsIn(expr)) == 0 {
			t.Errorf("%s names no metric", expr)
		}
	}
	// The leader's controllers start after the operators, and a queue has a depth only after
	// its first item.
	manifest := filepath.Join(t.TempDir(), "cluster.yaml")
	text := "{apiVersion: pawl.dev/v1alpha1, kind: SharedStorageCluster, metadata: {name: odd}, spec: {class: {name: nothing}}}"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.kubectl("apply", "-f", manifest)
	h.await(2*time.Minute, "the operators give all that is asked for", func(ctx context.Context) error {
		given := map[string]bool{}
		for _, pod := range h.operators() {
			if pod.Status.PodIP == "" {
				continue
			}
			names, err := scrape(ctx, fmt.Sprintf("http://%s:7296/metrics", pod.Status.PodIP))
			if err != nil {
				return err
			}
			maps.Copy(given, names)
		}
		for _, expr := range wanted {
			for _, name := range metricsIn(expr) {
				if !given[name] && !strings.Contains(declared, `"`+strings.TrimPrefix(strings.TrimSuffix(name, "_bucket"), "pawl_postgres_")+`"`) {
					return fmt.Errorf("%s: no operator gives %s", expr, name)
				}
			}
		}
		return nil
	})
}

// scrape returns the names of the metrics that a URL gives.
func scrape(ctx context.Context, url string) (map[string]bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	ask := &http.Client{Timeout: 30 * time.Second}
	defer ask.CloseIdleConnections()
	resp, err := ask.Do(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.300s", request.URL, resp.Status, text)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			names[word.FindString(line)] = true
		}
	}
	return names, nil
}

// metricsSource returns the source code that declares the metrics.
func metricsSource(t *testing.T, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
