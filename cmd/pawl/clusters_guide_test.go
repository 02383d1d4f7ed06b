package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/clusters"
)

// The guide names each verb of container clusters.
func TestGuideNamesClusterVerbs(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/container-clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range clusters.Commands(&cli.App{})[0].Commands() {
		if text := string(page); !strings.Contains(text, "pawl cluster "+cmd.Name()) && !strings.Contains(text, "`"+cmd.Name()+"`") {
			t.Errorf("the guide does not name pawl cluster %s", cmd.Name())
		}
	}
}
