package foundationdb

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
)

// What can be held is exactly what the operator's chain has, besides the status that it always writes.
func TestLinkNamesAreThoseOfTheChain(t *testing.T) {
	read, err := readFiles([]string{"-"}, strings.NewReader("apiVersion: apps.foundationdb.org/v1beta2\nkind: FoundationDBCluster\nmetadata: {name: a, uid: u}\nspec: {version: 7.3.69}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := clusters.New(readOnly{read}, document{}, unasked{}, clusters.Options{Now: func() time.Time { return time.Unix(1e9, 0) }})
	planned, err := o.Plan(t.Context(), control.Ref{Kind: clusters.Kind, Namespace: "default", Name: "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range planned {
		if step.Link != "UpdateStatus" {
			names = append(names, step.Link)
		}
	}
	if !slices.Equal(names, linkNames) {
		t.Errorf("the chain has\n%q\nand can be held\n%q", names, linkNames)
	}
}

// A command of fdbcli passes only if it is known to change nothing of what the operator owns.
func TestOwnedCommands(t *testing.T) {
	tests := map[string]string{
		"status details": "", "throttle list": "", "get \\xff/conf": "", "kill": "", "exclude": "", "maintenance": "", "coordinators": "",
		"kill 10.0.0.1:4501": "kill", "configure single": "configure", "configure": "configure", "include all": "include", "exclude 10.0.0.1": "exclude",
		"status; configure double": "configure", "STATUS": "", "Kill all": "Kill", "writemode on": "writemode", "lock": "lock", "tenant list": "tenant",
		"status\nconfigure single": "status\nconfigure",
	}
	for text, want := range tests {
		got, err := owned(text)
		if text == "status\nconfigure single" { // what it is to fdbcli is not known: it must not pass
			if err == nil && got == "" {
				t.Errorf("%q passes", text)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := owned(`status "`); err == nil {
		t.Error("an open quote passes")
	}
}

// Lists in a spec grow and shrink, and what else stands in them stays.
func TestLists(t *testing.T) {
	spec := map[string]any{"list": []any{"a"}}
	addTo(spec, "list", []string{"a", "b"})
	if list, _ := spec["list"].([]any); len(list) != 2 || list[1] != "b" {
		t.Errorf("%v", spec)
	}
	takeFrom(spec, "list", []string{"a"})
	takeFrom(spec, "list", []string{"b"})
	if _, there := spec["list"]; there {
		t.Errorf("an empty list stays: %v", spec)
	}
}

// Nobody can be asked without a terminal, and -y is an answer.
func TestConfirmation(t *testing.T) {
	a := verbs{&cli.App{In: strings.NewReader("y\n")}}
	if err := a.Confirm(cli.Confirmation{}); err == nil {
		t.Error("a pipe answers")
	}
	if err := a.Confirm(cli.Confirmation{Yes: true}); err != nil {
		t.Error(err)
	}
}
