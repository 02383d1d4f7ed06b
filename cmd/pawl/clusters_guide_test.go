package main

import (
	"os"
	"strings"
	"testing"
)

// The guide names each verb of container clusters.
func TestGuideNamesClusterVerbs(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/container-clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range (&app{}).clusterCommand().Commands() {
		if text := string(page); !strings.Contains(text, "pawl cluster "+cmd.Name()) && !strings.Contains(text, "`"+cmd.Name()+"`") {
			t.Errorf("the guide does not name pawl cluster %s", cmd.Name())
		}
	}
}
