package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/view"
)

// The list, describe and --wait say what is waited for, since when and until
// when; a cluster at rest whose provider is away says that.
func TestFinding20WaitsAreShown(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	c := view.Cluster{ID: "1", Name: "blue", State: cluster.Starting, Provider: "dc1", Created: now.Add(-time.Hour), Waiting: &service.Waiting{
		Step: "endpoint", For: "https://192.0.2.1:6443 does not answer yet: connection refused", Since: now.Add(-time.Minute), Until: now.Add(time.Minute), Tries: 1,
	}}
	const want = "at endpoint: https://192.0.2.1:6443 does not answer yet: connection refused, since 11:59:00, until 12:01:00 UTC"
	for name, text := range map[string]string{
		"list": view.ClusterTable([]view.Cluster{c}, now).String(), "describe": view.DescribeCluster(c, nil, nil, now, view.Style{}), "--wait": view.WaitingLine(c, now),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if line := view.WaitingLine(c, now.Add(-50*time.Second)); line != "blue Starting" {
		t.Errorf("--wait at once: %s", line)
	}
	c.State, c.Waiting = cluster.Running, nil
	c.Unseen = &service.Unseen{Code: "PROVIDER_UNREACHABLE", Text: "connection refused", Since: now.Add(-time.Minute)}
	for name, text := range map[string]string{
		"list": view.ClusterTable([]view.Cluster{c}, now).String(), "describe": view.DescribeCluster(c, nil, nil, now, view.Style{}),
	} {
		if !strings.Contains(text, "PROVIDER_UNREACHABLE: provider dc1 cannot be seen since 2030-01-01T11:59:00Z: connection refused") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
