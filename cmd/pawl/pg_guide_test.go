package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/postgres"
	"github.com/pawl-dev/pawl/fault"
)

const sharedStorageGuide = "../../docs/guide/shared-storage.md"

// TestSharedStorageGuideVerbs: the section names each verb, each command in it and on the page of kubectl pawl can be
// given, and the faults of the verbs lead to it.
func TestSharedStorageGuideVerbs(t *testing.T) {
	part := section(t, text(t, sharedStorageGuide), "Verbs")
	for _, verb := range postgres.Commands(&cli.App{})[0].Commands() {
		if !strings.Contains(part, "\npawl pg "+verb.Name()+" ") {
			t.Errorf("the guide has no command pawl pg %s", verb.Name())
		}
	}
	lines := regexp.MustCompile(`(?m)^(?:\$ )?(?:kubectl )?pawl (pg [^#\n]*)`).FindAllStringSubmatch(part+text(t, "../../docs/guide/kubernetes-cli.md"), -1)
	for _, m := range lines {
		verb, rest, err := root(&cli.App{}).Find(cli.JoinWaits(strings.Fields(m[1])))
		if err == nil && !verb.Runnable() {
			err = fmt.Errorf("it is a group of verbs")
		}
		if err == nil {
			err = verb.ParseFlags(rest)
		}
		if err == nil {
			err = verb.Args(verb, verb.Flags().Args())
		}
		if err != nil {
			t.Errorf("pawl %s: %v", m[1], err)
		}
	}
	if len(lines) < 15 {
		t.Errorf("only %d commands were read", len(lines))
	}
	for _, k := range fault.All() {
		if strings.HasPrefix(string(k.Code), "PG_") && k.Guide != "shared-storage.md#verbs" {
			t.Errorf("%s leads to %q", k.Code, k.Guide)
		}
	}
}

// TestSharedStorageGuideStatus: the screen of the guide is the one that TestPostgresVerbs sees.
func TestSharedStorageGuideStatus(t *testing.T) {
	_, after, _ := strings.Cut(section(t, text(t, sharedStorageGuide), "Verbs"), "$ pawl pg status orders\n")
	screen, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the guide has no screen")
	}
	for _, r := range ownOfRun {
		screen = r.form.ReplaceAllString(screen, r.text)
	}
	script, err := txtar.ParseFile("testdata/pg/verbs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		if f.Name == "status.txt" && string(f.Data) != screen {
			t.Errorf("the guide shows\n%s\nand the verb\n%s", screen, f.Data)
		}
	}
}

// TestSharedStorageGuideHibernation: what the guide shows of a hibernation is what the verbs print.
func TestSharedStorageGuideHibernation(t *testing.T) {
	_, after, _ := strings.Cut(section(t, text(t, sharedStorageGuide), "Hibernation"), "```text\n")
	shown, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the guide has no transcript")
	}
	for _, r := range ownOfRun {
		shown = r.form.ReplaceAllString(shown, r.text)
	}
	script, err := txtar.ParseFile("testdata/pg/hibernate.txtar")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, f := range script.Files {
		said[f.Name] = string(f.Data)
	}
	commands := regexp.MustCompile(`(?m)^\$ .*\n`).ReplaceAllString(shown, "")
	if want := said["hibernate.txt"] + said["hibernated.txt"] + said["wake.txt"]; commands != want {
		t.Errorf("the guide shows\n%s\nand the verbs print\n%s", commands, want)
	}
}
