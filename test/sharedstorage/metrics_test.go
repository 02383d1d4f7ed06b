package sharedstorage_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"
)

// Prometheus finds the writer and the reader by what their pods say, and what a query of the user finds.
func TestMetricsOfInstances(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.kubectl("create", "configmap", "orders-metrics", `--from-literal=queries.yaml=queries: [{name: answer, on: writer, sql: SELECT 42 AS total, metrics: [{column: total, help: The answer.}]}]`)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	for id, i := range c.Status.Instances {
		at := w.kubectl("get", "pod", i.Name, "-o", `jsonpath={.status.podIP}:{.metadata.annotations.prometheus\.io/port}{.metadata.annotations.prometheus\.io/path}`)
		wants := []string{
			`(?m)^pawl_postgres_up\{cluster="orders",instance="` + i.Name + `",namespace="` + w.namespace + `"\} 1$`,
			`(?m)^pawl_postgres_writer\{.*\} 0$`, `(?m)^pawl_postgres_streams\{.*\} 1$`, `(?m)^pawl_postgres_disk_free_bytes\{.*\} [1-9]`,
		}
		if id == c.Status.Writer {
			wants = append(wants[:1], `(?m)^pawl_postgres_writer\{.*\} 1$`, `(?m)^pawl_postgres_lease_confirmed_by_members\{.*\} 0$`,
				`(?m)^pawl_postgres_reader_lag_bytes\{.*reader="orders-[23]-.*"\} `, `(?m)^pawl_custom_answer_total\{.*\} 42$`)
		}
		w.await(30*time.Second, "the metrics of "+i.Name, func(ctx context.Context) error {
			text, err := scraped(ctx, "http://"+at)
			for _, want := range wants {
				if err == nil && !regexp.MustCompile(want).MatchString(text) {
					err = fmt.Errorf("no %s in\n%s", want, text)
				}
			}
			return err
		})
	}
}

func scraped(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	ask := &http.Client{Timeout: 30 * time.Second}
	defer ask.CloseIdleConnections()
	response, err := ask.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
