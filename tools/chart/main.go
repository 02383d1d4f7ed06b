// Command chart writes what follows from the Helm chart in deploy/chart:
//
//	deploy/chart/files/{crds,mpd}       copies of the CRDs in deploy
//	deploy/install.yaml                 the chart with its default values
//	docs/guide/install-kubernetes.md    the table of its values
//
// `make generate` runs it after the CRDs, and `make fresh` fails when one of
// them is not what it writes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := generate(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	if err := copyCRDs(root); err != nil {
		return err
	}
	dir := filepath.Join(root, "deploy", "chart")
	objects, err := Render(dir, Install, nil)
	if err != nil {
		return err
	}
	text, err := manifest(objects)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "deploy", "install.yaml"), text, 0o644); err != nil {
		return err
	}
	return document(filepath.Join(dir, "values.yaml"), filepath.Join(root, "docs", "guide", "install-kubernetes.md"))
}

// copyCRDs makes the chart's copies of CRDs those of deploy: a chart reads
// files of its own folder only.
func copyCRDs(root string) error {
	for _, name := range []string{"crds", "mpd"} {
		to := filepath.Join(root, "deploy", "chart", "files", name)
		files, err := filepath.Glob(filepath.Join(root, "deploy", name, "*.yaml"))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("%d CRDs in deploy/%s", len(files), name))
		}
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
