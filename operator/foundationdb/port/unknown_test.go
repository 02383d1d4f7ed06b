package port

import (
	"slices"
	"testing"
)

func TestUnknownIn(t *testing.T) {
	const head = `{"apiVersion":"apps.foundationdb.org/v1beta2","kind":`
	for _, row := range []struct {
		document string
		want     []string
	}{
		{head + `"FoundationDBCluster","metadata":{"name":"a","extra":1},"spec":{"version":"7.3.69"},"status":{"extra":1}}`, nil},
		{head + `"FoundationDBCluster","spec":{"version":"7.3.69","zeta":{"a":{"b":1}},"automationOptions":{"fly":true,"killProcesses":false}}}`, []string{"spec.automationOptions.fly", "spec.zeta"}},
		{
			head + `"FoundationDBCluster","spec":{"processes":{"storage":{"speed":1,"podTemplate":{"spec":{"containers":[{"name":"a"},{"name":"b","hue":"red"}]}}}},"databaseConfiguration":{"regions":[{"datacenters":[{"id":"a","rack":"r"}]}]}}}`,
			[]string{"spec.databaseConfiguration.regions[0].datacenters[0].rack", "spec.processes.storage.podTemplate.spec.containers[1].hue", "spec.processes.storage.speed"},
		},
		{head + `"FoundationDBBackup","spec":{"clusterName":"a","colour":"red"}}`, []string{"spec.colour"}},
		{head + `"FoundationDBRestore","spec":{"destinationClusterName":"a","colour":"red"}}`, []string{"spec.colour"}},
	} {
		got, err := UnknownIn([]byte(row.document))
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, %v, want %q", row.document, got, err, row.want)
		}
	}
	for _, broken := range []string{"", "{", head + `"Pod"}`} {
		if _, err := UnknownIn([]byte(broken)); err == nil {
			t.Errorf("%q is read", broken)
		}
	}
}
